import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "baselines" / "ippo" / "ippo_ff_mpe.py"

# A run of two updates that compiles fast.
TINY = {
    "ENV_NAME": "MPE_simple_v3",
    "NUM_ENVS": 4,
    "NUM_STEPS": 30,
    "TOTAL_TIMESTEPS": 240,
    "NUM_MINIBATCHES": 2,
    "UPDATE_EPOCHS": 2,
    "HIDDEN_SIZES": [8],
}


def tiny_arguments(**changes):
    config = TINY | changes
    return [f"{key}={value}".replace(" ", "") for key, value in config.items()]


@pytest.fixture(scope="session")
def baseline():
    """The module of the baseline, loaded from its file as a user's notebook would."""
    spec = importlib.util.spec_from_file_location("ippo_ff_mpe", BASELINE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ippo_ff_mpe"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def _user_folders_stay_clean(tmp_path_factory):
    """Compiled programs and W&B's files go to a folder of this test session, which its runs share."""
    folder = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.setenv("WANDB_CONFIG_DIR", str(folder / "wandb_config"))
    patch.setenv("WANDB_CACHE_DIR", str(folder / "wandb_cache"))
    patch.setenv("WANDB_DATA_DIR", str(folder / "wandb_data"))
    patch.setenv("NETRC", str(folder / "no_netrc"))
    patch.delenv("WANDB_API_KEY", raising=False)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    yield
    patch.undo()
