"""The command line of the baselines, on top of Hydra."""

import contextlib
import os
import re
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from jaxmarl_lite.registration import closest
from jaxmarl_lite.training.config import CONFIG_DIR, ConfigError, config_path, unknown_key

USAGE_ERROR = 2  # the exit code of a command that cannot be run


def run_cli(job: Callable[[Any, Path], None], baseline: str) -> None:
    """Parse the command line and run `job(config, folder)`, or once for each job of a sweep.

    A mistake in the command or in the config ends the program with one line and exit code 2.
    """
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        print(help_text(baseline))
        return
    try:
        # Hydra's own files and logs are left out: the run folder holds the config.
        settings = ["hydra.output_subdir=null", "hydra/job_logging=none", "hydra/hydra_logging=none"]
        folder, options, overrides = _prepare(arguments, baseline)
        settings += [f"hydra.run.dir='{folder}'", f"hydra.sweep.dir='{folder}'", "hydra.sweep.subdir=${hydra.job.num}"]
        sys.argv = [sys.argv[0], *options, *settings, *overrides]

        def task(config: Any) -> None:
            job(config, Path(HydraConfig.get().runtime.output_dir))

        decorate = hydra.main(version_base=None, config_path=str(CONFIG_DIR), config_name=baseline)
        decorate(_ends_on_config_error(task))()
    except (ConfigError, HydraException) as error:
        _fail(error)


def _ends_on_config_error(task: Callable[[Any], None]) -> Callable[[Any], None]:
    """Hydra would print a traceback for an error in the job."""

    def guarded(config: Any) -> None:
        try:
            task(config)
        except ConfigError as error:
            with contextlib.suppress(OSError):  # Hydra made the folder; one that holds something stays
                Path(HydraConfig.get().runtime.output_dir).rmdir()
            _fail(error)

    return guarded


def _fail(error: Exception) -> None:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


def _prepare(arguments: list[str], baseline: str) -> tuple[Path, list[str], list[str]]:
    """Check the overrides. Returns the run folder, and Hydra's options and overrides apart."""
    keys = list(OmegaConf.load(config_path(baseline)))
    parser = OverridesParser.create()
    folder = Path("runs") / baseline / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    options: list[str] = []
    overrides: list[str] = []
    takes_value = False  # whether the argument before was an option whose value this one is
    for argument in arguments:
        if argument.startswith("-") or takes_value:
            options.append(argument)
            takes_value = argument in _OPTIONS_WITH_VALUE and not takes_value
            continue
        override = parser.parse_overrides([argument])[0]
        name = override.key_or_group
        if not name.startswith("hydra"):
            _check_override(override, keys)
        if name == "RUN_DIR" and override.value() is not None:
            folder = _run_dir(override)
        # An entry of ENV_KWARGS is new to the config: "++" lets Hydra add it.
        adds = name.startswith("ENV_KWARGS.") and argument[0] not in "+~"
        overrides.append(f"++{argument}" if adds else argument)
    return folder.absolute(), options, overrides


_OPTIONS_WITH_VALUE = (
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--config-dir",
    "-cd",
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--info",
    "-i",
)


def _check_override(override: Override, keys: list[str]) -> None:
    name = override.key_or_group
    groups = config_groups()
    if name in groups:
        values = [override.value()] if not override.is_sweep_override() else override.value().list
        for value in values:
            if str(value) not in groups[name]:
                hint = closest(str(value), groups[name])
                raise ConfigError(f"Unknown {name} {value!r}.{hint} Allowed: {', '.join(groups[name])}.")
        if not override.is_add():
            raise ConfigError(f"{override.input_line} needs a plus: write +{override.input_line.lstrip('~')}.")

    elif name.split(".")[0] not in keys:
        raise unknown_key(name, keys)
    elif "." in name and name.split(".")[0] != "ENV_KWARGS":
        raise ConfigError(f"{name.split('.')[0]} has no entries, got {override.input_line!r}.")


def _run_dir(override: Override) -> Path:
    if override.is_sweep_override():
        raise ConfigError(f"RUN_DIR cannot be swept, got {override.input_line!r}: each job gets RUN_DIR/<number>.")
    folder = Path(str(override.value()))
    # Looked at here, before Hydra writes into it.
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"RUN_DIR must be a new or empty folder, got {folder}, which exists: not overwritten.")
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ConfigError(f"RUN_DIR must be a folder that can be written, got {folder}: {nearest} is not one.")
    return folder


def config_groups() -> dict[str, list[str]]:
    """The config groups and their options, as in `+env=...`."""
    return {d.name: sorted(p.stem for p in d.glob("*.yaml")) for d in sorted(CONFIG_DIR.iterdir()) if d.is_dir()}


def help_text(baseline: str) -> str:
    """Every key of the config with its default and its comment, and how to use the command."""
    lines = [
        f"python baselines/.../{baseline}.py [KEY=VALUE ...] [+GROUP=NAME ...] [-m]",
        "",
        "Keys, with their defaults:",
    ]
    for line in config_path(baseline).read_text().splitlines():
        match = re.fullmatch(r"(\w+): *(.*?) +# *(.*)", line)
        if match:
            key, value, comment = match.groups()
            lines.append(f"  {key + '=' + value:<44} {comment}")
    lines += ["", "Groups of keys for one environment or setting:"]
    for group, options in config_groups().items():
        for option in options:
            comment = (CONFIG_DIR / group / f"{option}.yaml").read_text().splitlines()[1].lstrip("# ")
            lines.append(f"  {f'+{group}={option}':<44} {comment}")
    lines += [
        "",
        "Sweeps: -m SEED=0,1 LR=1e-3,2e-3 runs each combination in a folder of its own.",
        "ENV_KWARGS.num_agents=5 sets one keyword of the environment. Hydra's own options: --hydra-help.",
    ]
    return "\n".join(lines)
