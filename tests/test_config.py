"""Configs: what is refused, in which words, and that it is refused before anything is compiled."""

import sys

import numpy as np
import pytest
import yaml
from conftest import TINY, tiny_arguments

from jaxmarl_lite.training import cli, runner
from jaxmarl_lite.training.config import CONFIG_DIR, RULES, ConfigError, check_config, load_config


def baselines():
    return sorted(path.stem for path in CONFIG_DIR.glob("*.yaml"))


@pytest.mark.parametrize("name", baselines())
def test_every_key_has_a_rule_a_comment_and_a_default_that_is_allowed(name):
    text = (CONFIG_DIR / f"{name}.yaml").read_text()
    keys = list(yaml.safe_load(text))
    assert set(keys) <= set(RULES)
    help_text = cli.help_text(name)
    for key in keys:
        (line,) = [line for line in help_text.splitlines() if line.split("=")[0].strip() == key]
        assert len(line.split("=", 1)[1].split()) >= 3, line
    assert list(load_config(name)) == keys


@pytest.mark.parametrize("path", sorted(CONFIG_DIR.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_config_groups_are_allowed_and_described(path):
    text = path.read_text()
    check_config(yaml.load(text, Loader=yaml.SafeLoader) | numbers(text), "ippo_ff_mpe")
    assert text.splitlines()[1].startswith("# ")
    assert f"+{path.parent.name}={path.stem}" in cli.help_text("ippo_ff_mpe")


def numbers(text):
    """The entries as OmegaConf reads them: PyYAML takes 1e7 for a text."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.create(text))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"NUM_ENVS": "abc"}, ["NUM_ENVS", "integer >= 1", "'abc'"]),
        ({"NUM_ENVS": 0}, ["NUM_ENVS", "integer >= 1", "got 0"]),
        ({"NUM_ENVS": -4}, ["NUM_ENVS", "integer >= 1", "got -4"]),
        ({"NUM_ENVS": 1.5}, ["NUM_ENVS", "integer >= 1", "got 1.5"]),
        ({"NUM_ENVS": True}, ["NUM_ENVS", "integer >= 1", "got True"]),
        ({"NUM_ENVS": None}, ["NUM_ENVS", "integer >= 1", "got None"]),
        ({"SEED": 2**32}, ["SEED", ">= 0 and <= 4294967295", "4294967296"]),
        ({"NUM_ENVS": float("inf")}, ["NUM_ENVS", "integer >= 1", "got inf"]),
        ({"TOTAL_TIMESTEPS": "1e7"}, ["TOTAL_TIMESTEPS", "integer", "'1e7'", "1.0e7"]),
        ({"NUM_MINIBATCHES": 7}, ["NUM_MINIBATCHES", "divide", "120", "got 7", "1, 2, 3, 4, 5, 6, 8"]),
        ({"TOTAL_TIMESTEPS": 119}, ["TOTAL_TIMESTEPS", "120", "got 119"]),
        ({"LR": 0}, ["LR", "> 0", "got 0"]),
        ({"LR": float("nan")}, ["LR", "> 0", "got nan"]),
        ({"GAMMA": 1.1}, ["GAMMA", "[0, 1]", "got 1.1"]),
        ({"ANNEAL_LR": "yes"}, ["ANNEAL_LR", "true or false", "'yes'"]),
        ({"ANNEAL_LR": 1}, ["ANNEAL_LR", "true or false", "got 1"]),
        ({"ACTIVATION": "gelu"}, ["ACTIVATION", "relu or tanh", "'gelu'"]),
        ({"HIDDEN_SIZES": 64}, ["HIDDEN_SIZES", "list of integers", "got 64"]),
        ({"HIDDEN_SIZES": [64, 0]}, ["HIDDEN_SIZES", "list of integers", "[64, 0]"]),
        ({"ENV_KWARGS": [1]}, ["ENV_KWARGS", "mapping", "[1]"]),
        ({"WANDB_MODE": "on"}, ["WANDB_MODE", "disabled or offline or online", "'on'"]),
        ({"NUM_ENV": 4}, ["'NUM_ENV'", "NUM_ENVS", "Allowed"]),
        ({"lr": 4}, ["'lr'", "Did you mean LR", "Allowed"]),
        ({"ENV_NAME": "MPE_simple_spred_v3"}, ["MPE_simple_spred_v3", "Did you mean MPE_simple_spread_v3"]),
        ({"ENV_KWARGS": {"num_agent": 3}}, ["num_agent", "MPE_simple_v3", "max_steps"]),
        (
            {"ENV_NAME": "MPE_simple_spread_v3", "ENV_KWARGS": {"local_ratio": 1.5}},
            ["local_ratio", "[0, 1]", "got 1.5"],
        ),
    ],
)
def test_make_train_refuses(baseline, changes, words):
    with pytest.raises(ValueError, match=r"\w") as caught:
        baseline.make_train(TINY | changes)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_make_train_checks_a_config_and_leaves_it_alone(baseline):
    config = {"NUM_ENVS": 4.0, "TOTAL_TIMESTEPS": 1.0e6}
    train = baseline.make_train(config)
    assert config == {"NUM_ENVS": 4.0, "TOTAL_TIMESTEPS": 1.0e6}
    assert train.num_updates == 1_000_000 // (4 * 64)


def test_numbers_are_made_whole_and_lists_tuples():
    config = load_config("ippo_ff_mpe", NUM_ENVS=8.0, HIDDEN_SIZES=[3, 4.0])
    assert config["NUM_ENVS"] == 8
    assert isinstance(config["NUM_ENVS"], int)
    assert config["HIDDEN_SIZES"] == (3, 4)


def test_numpy_scalars_are_numbers():
    config = load_config("ippo_ff_mpe", NUM_ENVS=np.int64(8), LR=np.float32(0.5), ANNEAL_LR=np.True_)
    assert (config["NUM_ENVS"], config["LR"], config["ANNEAL_LR"]) == (8, 0.5, True)


@pytest.mark.parametrize("config", [None, [1], "a", 3])
def test_what_is_no_mapping_is_refused(baseline, config):
    with pytest.raises(ConfigError, match="config must be a mapping"):
        baseline.make_train(config)


def test_an_unknown_baseline_is_named():
    with pytest.raises(ConfigError, match="'ippo_gg'"):
        load_config("ippo_gg")


@pytest.fixture
def command(baseline, monkeypatch, tmp_path, capsys):
    """Run the baseline's command line in a temporary folder; compiling anything fails the test."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["ippo_ff_mpe.py", *arguments])
        monkeypatch.setattr(runner, "compile_programs", lambda *_: pytest.fail("compiled"))
        with pytest.raises(SystemExit) as ended:
            runner.main(baseline.make_train, "ippo_ff_mpe")
        assert ended.value.code == cli.USAGE_ERROR
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["NUM_ENV=4"], ["NUM_ENV", "Did you mean NUM_ENVS"]),
        (["+NUM_ENV=4"], ["NUM_ENV", "Did you mean NUM_ENVS"]),
        (["-m", "NUM_ENV=4,5"], ["NUM_ENV", "Did you mean NUM_ENVS"]),
        (["NUM_ENVS=abc"], ["NUM_ENVS", "integer >= 1", "'abc'"]),
        (["NUM_ENVS=0"], ["NUM_ENVS", "got 0"]),
        (["NUM_ENVS=-4"], ["NUM_ENVS", "got -4"]),
        (["NUM_ENVS=1.5"], ["NUM_ENVS", "got 1.5"]),
        (["NUM_ENVS"], ["NUM_ENVS"]),
        (["NUM_MINIBATCHES=7"], ["NUM_MINIBATCHES", "got 7"]),
        (["TOTAL_TIMESTEPS=100"], ["TOTAL_TIMESTEPS", "got 100"]),
        (["ENV_NAME=MPE_spread"], ["MPE_spread", "MPE_simple_spread_v3"]),
        (["ENV_KWARGS.num_agnets=5"], ["num_agnets", "Did you mean num_agents"]),
        (["ENV_KWARGS.local_ratio=2"], ["local_ratio", "[0, 1]", "got 2"]),
        (["+env=spread_jaxmrl"], ["spread_jaxmrl", "Did you mean spread_jaxmarl"]),
        (["env=simple"], ["+env=simple"]),
        (["NUM_ENVS.x=1"], ["NUM_ENVS", "no entries"]),
        (["-m", "RUN_DIR=a,b"], ["RUN_DIR", "swept"]),
        (["-m", "SEED=0,-1"], ["SEED", "got -1"]),
        (["SEED=0,1"], ["SEED", "one value", "-m"]),
        (["-m", "LR=interval(0,1)"], ["INTERVAL"]),
        (["+env=glob(*)"], ["env", "-m"]),
        (["+env=simple", "+env=spread_continuous"], ["env"]),
        (["~RUN_DIR"], ["deleted"]),
        (["hydrafoo=1"], ["hydrafoo"]),
        (["hydra.foo=1"], ["foo"]),
        (["hydra.sweep.dir=d"], ["hydra.sweep.dir", "RUN_DIR"]),
        (["--config-name", "foo"], ["foo"]),
        (["ENV_KWARGS=[1]"], ["ENV_KWARGS", "mapping", "[1]"]),
        (["ENV_KWARGS={max_steps:1000000000000}"], ["max_steps", "2**31"]),
        (["ENV_KWARGS.env_id=9"], ["env_id", "Allowed"]),
        (["RUN_DIR="], ["RUN_DIR", "''"]),
        (["RUN_DIR=/proc/foo"], ["RUN_DIR", "/proc/foo"]),
        ([f"RUN_DIR={'x' * 300}"], ["RUN_DIR", "too long"]),
        (["TOTAL_TIMESTEPS=1e30"], ["TOTAL_TIMESTEPS", "<= 1000000000000000"]),
        (["TOTAL_TIMESTEPS=1e14"], ["TOTAL_TIMESTEPS", "2**31"]),
        (["WANDB_PROJECT='a/b'"], ["WANDB_PROJECT", "'a/b'"]),
        (["WANDB_NAME=\u00e9\u2026="], ["quotes"]),
    ],
)
def test_the_command_line_refuses(command, arguments, words):
    error = command(*arguments)
    for word in words:
        assert word in error, error


@pytest.mark.parametrize("mode", [[], ["-m"]])
def test_a_run_folder_that_exists_is_not_touched(command, tmp_path, mode):
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "metrics.csv").write_text("precious")
    error = command(*mode, "RUN_DIR=old", *tiny_arguments())
    assert "RUN_DIR" in error
    assert "old" in error
    assert [path.name for path in folder.iterdir()] == ["metrics.csv"]
    assert (folder / "metrics.csv").read_text() == "precious"


def test_a_file_as_run_folder_is_refused(command, tmp_path):
    (tmp_path / "file").write_text("precious")
    assert "RUN_DIR" in command("RUN_DIR=file")
    assert "RUN_DIR" in command("RUN_DIR=file/below", *tiny_arguments())
    assert (tmp_path / "file").read_text() == "precious"


def test_help_lists_keys_and_groups(baseline, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ippo_ff_mpe.py", "--help"])
    runner.main(baseline.make_train, "ippo_ff_mpe")
    text = capsys.readouterr().out
    assert "NUM_ENVS=64" in text
    assert "environments side by side" in text
    assert "+env=spread_jaxmarl" in text
