"""Reading and checking configs. A baseline's keys and defaults stand in `config/<baseline>.yaml`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from jaxmarl_lite.registration import closest

CONFIG_DIR = Path(__file__).resolve().parents[2] / "config"


class ConfigError(ValueError):
    """A config that cannot be run, in one line that names the key, the value and what is allowed."""


class Rule(NamedTuple):
    """What a key's value may be."""

    allowed: str
    parse: Callable[[Any], Any]  # returns the value to use; raises ValueError or TypeError


def _number(value: Any) -> float:
    if (
        isinstance(value, (bool, np.bool_))
        or not isinstance(value, (int, float, np.integer, np.floating))
        or value != value
    ):
        raise TypeError
    return float(value)


def _integer(minimum: int, maximum: float = float("inf")) -> Rule:
    def parse(value: Any) -> int:
        number = _number(value)
        if not number.is_integer() or not minimum <= number <= maximum:
            raise ValueError
        return int(value)

    return Rule(f"an integer >= {minimum}" + (f" and <= {maximum}" if maximum < float("inf") else ""), parse)


def _real(allowed: str, test: Callable[[float], bool]) -> Rule:
    def parse(value: Any) -> float:
        number = _number(value)
        if not test(number):
            raise ValueError
        return number

    return Rule(allowed, parse)


def _one_of(*options: Any) -> Rule:
    def parse(value: Any) -> Any:
        value = bool(value) if isinstance(value, np.bool_) else value
        if not any(type(value) is type(option) and value == option for option in options):
            raise ValueError
        return value

    return Rule(
        " or ".join(str(option).lower() if option in (True, False) else str(option) for option in options), parse
    )


def _text(optional: bool = False) -> Rule:
    def parse(value: Any) -> str | None:
        if value is None and optional:
            return None
        if not isinstance(value, str) or not value:
            raise TypeError
        return value

    return Rule("a text" + (" or null" if optional else ""), parse)


def _name(longest: int, forbidden: str = "") -> Rule:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest or set(value) & set(forbidden):
            raise ValueError
        return value

    without = f" without {' '.join(forbidden)}" if forbidden else ""
    return Rule(f"a text of 1 to {longest} characters{without}", parse)


def _list(item: Rule, of: str) -> Rule:
    def parse(value: Any) -> tuple:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple(item.parse(x) for x in value)

    return Rule(f"a list of {of}", parse)


def _mapping() -> Rule:
    def parse(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return dict(value)

    return Rule("a mapping of keywords, as in {num_agents: 5}", parse)


_flag = _one_of(True, False)
_positive = _real("a finite number > 0", lambda x: 0 < x < float("inf"))
_not_negative = _real("a finite number >= 0", lambda x: 0 <= x < float("inf"))
_share = _real("a number in [0, 1]", lambda x: 0 <= x <= 1)

RULES: dict[str, Rule] = {
    "ENV_NAME": _text(),
    "ENV_KWARGS": _mapping(),
    "NUM_ENVS": _integer(1),
    "NUM_STEPS": _integer(1),
    "TOTAL_TIMESTEPS": _integer(1, 10**15),
    "UPDATE_EPOCHS": _integer(1),
    "NUM_MINIBATCHES": _integer(1),
    "LR": _positive,
    "ANNEAL_LR": _flag,
    "GAMMA": _share,
    "GAE_LAMBDA": _share,
    "CLIP_EPS": _positive,
    "ENT_COEF": _not_negative,
    "VF_COEF": _not_negative,
    "MAX_GRAD_NORM": _positive,
    "BOOTSTRAP_TRUNCATED": _flag,
    "HIDDEN_SIZES": _list(_integer(1), "integers >= 1"),
    "ACTIVATION": _one_of("relu", "tanh"),
    "AGENT_IDS": _flag,
    "SEED": _integer(0, 2**32 - 1),
    "NUM_SEEDS": _integer(1, 2**31 - 1),
    "RUN_DIR": _text(optional=True),
    "COMPILE_CACHE": _flag,
    "WANDB_MODE": _one_of("disabled", "offline", "online"),
    "WANDB_PROJECT": _name(128, "/\\#?%:"),
    "WANDB_ENTITY": _text(optional=True),
    "WANDB_GROUP": _text(optional=True),
    "WANDB_NAME": _text(optional=True),
    "WANDB_TAGS": _list(_name(64), "texts of 1 to 64 characters"),
    "WANDB_LOG_ALL_SEEDS": _flag,
}


def config_path(baseline: str) -> Path:
    """Where a baseline's config stands. ConfigError if there is none."""
    path = CONFIG_DIR / f"{baseline}.yaml"
    if not path.is_file():
        raise ConfigError(f"No config for baseline {baseline!r}: {path} does not exist.")
    return path


def load_config(baseline: str, **overrides: Any) -> dict[str, Any]:
    """The defaults of a baseline with `overrides` on top, as a plain dict, checked."""
    return check_config(overrides, baseline)


def check_config(config: Mapping[str, Any], baseline: str) -> dict[str, Any]:
    """Check a config and complete it from `config/<baseline>.yaml`; the one given is not changed.

    Args:
        config: any of the baseline's keys, a dict or an OmegaConf config.
        baseline: the name of the yaml file.

    Returns:
        A new dict with all keys: whole numbers as int, lists as tuples.

    Raises:
        ConfigError: for an unknown key (close matches are listed) or a value that is not allowed.
    """
    defaults = _plain(OmegaConf.load(config_path(baseline)))
    config = _plain(config)
    for key in config:
        if key not in defaults:
            raise unknown_key(key, list(defaults))
    return {key: checked(key, value) for key, value in (defaults | config).items()}


def unknown_key(key: str, allowed: list[str]) -> ConfigError:
    """The error for a key that a config does not have."""
    return ConfigError(f"Unknown config key {key!r}.{closest(key, allowed)} Allowed: {', '.join(allowed)}.")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(config, Mapping) and not OmegaConf.is_dict(config):
        raise ConfigError(f"config must be a mapping of keys to values, got {type(config).__name__}.")
    try:
        return OmegaConf.to_container(config, resolve=True) if OmegaConf.is_config(config) else dict(config)
    except OmegaConfBaseException as error:
        raise ConfigError(f"Config cannot be resolved: {str(error).splitlines()[0]}.") from error


def checked(key: str, value: Any) -> Any:
    """The value to use for a key. ConfigError if it is not allowed."""
    rule = RULES[key]
    try:
        return rule.parse(value)
    except (TypeError, ValueError, OverflowError):
        hint = ""
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
            hint = " A bare exponent is read as a text by some YAML readers: write a decimal point, as in 1.0e7."
        raise ConfigError(f"{key} must be {rule.allowed}, got {value!r}.{hint}") from None


def check_sizes(config: Mapping[str, Any], num_agents: int) -> None:
    """ConfigError unless the rollout splits into minibatches and fits TOTAL_TIMESTEPS at least once."""
    steps = config["NUM_ENVS"] * config["NUM_STEPS"]
    batch = steps * num_agents
    if batch % config["NUM_MINIBATCHES"]:
        divisors = [n for n in range(1, min(batch, 64) + 1) if batch % n == 0]
        raise ConfigError(
            f"NUM_MINIBATCHES must divide NUM_ENVS * NUM_STEPS * agents = {batch}, got {config['NUM_MINIBATCHES']}."
            f" Allowed up to 64: {', '.join(map(str, divisors))}."
        )
    gradients = config["TOTAL_TIMESTEPS"] // steps * config["UPDATE_EPOCHS"] * config["NUM_MINIBATCHES"]
    if gradients >= 2**31:
        raise ConfigError(
            f"TOTAL_TIMESTEPS must give fewer than 2**31 gradient steps, got {config['TOTAL_TIMESTEPS']}: {gradients}."
        )
    if config["TOTAL_TIMESTEPS"] < steps:
        raise ConfigError(
            f"TOTAL_TIMESTEPS must be at least one update, NUM_ENVS * NUM_STEPS = {steps},"
            f" got {config['TOTAL_TIMESTEPS']}."
        )
