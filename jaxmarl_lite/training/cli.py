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
from hydra.core.override_parser.types import ChoiceSweep, Override
from omegaconf import OmegaConf

from jaxmarl_lite.registration import closest
from jaxmarl_lite.training.config import CONFIG_DIR, ConfigError, checked, config_path, unknown_key
from jaxmarl_lite.training.runner import open_folder

USAGE_ERROR = 2  # the exit code of a command that cannot be run
INTERRUPTED = 130  # the exit code of a run that Ctrl-C ended


def run_cli(job: Callable[[Any, Path], None], baseline: str) -> None:
    """Parse the command line and run `job(config, folder)`, or once for each job of a sweep.

    A mistake in the command or in the config ends the program with one line and exit code 2.
    """
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        with contextlib.suppress(BrokenPipeError):
            print(help_text(baseline), flush=True)
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors on instead of printing them
    in_job = False

    def task(config: Any) -> None:
        nonlocal in_job
        in_job = True
        folder = Path(HydraConfig.get().runtime.output_dir)
        try:
            job(config, folder)
        except ConfigError as error:
            _remove_if_empty(folder)
            _fail(error)
        in_job = False

    folder = None
    try:
        folder, options, overrides = _prepare(arguments, baseline)
        # Hydra's own files and logs are left out: the run folder holds the config.
        settings = ["hydra.output_subdir=null", "hydra/job_logging=none", "hydra/hydra_logging=none"]
        settings += [f"hydra.run.dir={_quoted(folder)}", f"hydra.sweep.dir={_quoted(folder)}"]
        settings += ["hydra.sweep.subdir=${hydra.job.num}"]
        sys.argv = [sys.argv[0], *options, *settings, *overrides]
        hydra.main(version_base=None, config_path=str(CONFIG_DIR), config_name=baseline)(task)()
    except KeyboardInterrupt:
        print("stopped at once: the parameters are lost", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if in_job:
            raise
        if folder is not None:
            _remove_if_empty(folder)
        _fail(error)


def _quoted(folder: Path) -> str:
    """A path as a value in Hydra's grammar, where a backslash escapes only a quote or stands before the closing one."""
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), str(folder))
    return f"'{text}'"


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _fail(error: Exception) -> None:
    text = " ".join(str(error).split()) or type(error).__name__
    hint = " A value with special characters needs quotes: KEY='\"value\"'." if "LexerNoViableAlt" in text else ""
    print(f"error: {text}{hint}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


def _prepare(arguments: list[str], baseline: str) -> tuple[Path, list[str], list[str]]:
    """Check the overrides. Returns the run folder, and Hydra's options and overrides apart."""
    keys = list(OmegaConf.load(config_path(baseline)))
    parser = OverridesParser.create()
    folder = (Path("runs") / baseline / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")).absolute()
    options: list[str] = []
    overrides: list[str] = []
    is_sweep = any(argument in ("-m", "--multirun") for argument in arguments)
    takes_value = False  # whether the argument before was an option whose value this one is
    for argument in arguments:
        if argument.startswith("-") or takes_value:
            options.append(argument)
            takes_value = argument in _OPTIONS_WITH_VALUE and not takes_value
            continue
        override = parser.parse_overrides([argument])[0]
        name = override.key_or_group
        if re.match(r"hydra[./]", name):
            if name in _FOLDERS_OF_HYDRA:
                raise ConfigError(f"{name} is set from RUN_DIR: write RUN_DIR=FOLDER instead, got {argument!r}.")
        else:
            _check_override(override, keys, is_sweep)
        if name == "RUN_DIR":
            folder = folder if override.value() is None else _run_dir(override.value())
        # An entry of ENV_KWARGS is new to the config: "++" lets Hydra add it.
        adds = name.split(".")[0] == "ENV_KWARGS" and argument[0] not in "+~"
        overrides.append(f"++{argument}" if adds else argument)
    return folder, options, overrides


_FOLDERS_OF_HYDRA = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir", "hydra.job.chdir")
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


def _check_override(override: Override, keys: list[str], is_sweep: bool) -> None:
    """ConfigError for what is wrong already here: before the first job of a sweep, not in its last."""
    name, key = override.key_or_group, override.key_or_group.split(".")[0]
    groups = config_groups()
    if name not in groups and key not in keys:
        raise unknown_key(name, keys)
    if override.is_delete():
        raise ConfigError(f"No key can be deleted, got {override.input_line!r}.")
    if override.is_sweep_override() and not is_sweep:
        raise ConfigError(f"{name} must be one value, got {override.input_line!r}: add -m for a sweep, or quotes.")
    if override.is_sweep_override() and name == "RUN_DIR":
        raise ConfigError(f"RUN_DIR cannot be swept, got {override.input_line!r}: each job gets RUN_DIR/<number>.")
    value = override.value()
    values = [value]
    if override.is_sweep_override():
        values = list(value.list) if isinstance(value, ChoiceSweep) else []  # a range is left to its jobs
    if name in groups:
        for option in values:
            if str(option) not in groups[name]:
                hint = closest(str(option), groups[name])
                raise ConfigError(f"Unknown {name} {option!r}.{hint} Allowed: {', '.join(groups[name])}.")
        if not override.is_add():
            raise ConfigError(f"{override.input_line} needs a plus: write +{override.input_line}.")
    elif name != key and key != "ENV_KWARGS":
        raise ConfigError(f"{key} has no entries, got {override.input_line!r}.")
    elif name == key:
        for option in values:
            # A text may still be quoted or refer to another key: it is checked once Hydra has read it.
            if option is None or isinstance(option, (bool, int, float, list, dict)):
                checked(name, option)


def _run_dir(value: Any) -> Path:
    """The run folder that was asked for, opened here, before Hydra writes into it."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"RUN_DIR must be a text or null, got {value!r}.")
    folder = Path(value).expanduser().absolute()
    open_folder(folder)
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
