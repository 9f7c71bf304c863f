"""The table of environments and the functions that read it."""

import difflib
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxmarl_lite.environments.multi_agent_env import MultiAgentEnv

# id -> ("module:Class", default keyword arguments). Modules are imported by `make`, not before.
_TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "MPE_simple_v3": ("jaxmarl_lite.environments.mpe.simple:SimpleMPE", {}),
    "MPE_simple_adversary_v3": ("jaxmarl_lite.environments.mpe.simple_adversary:SimpleAdversaryMPE", {}),
    "MPE_simple_crypto_v3": ("jaxmarl_lite.environments.mpe.simple_crypto:SimpleCryptoMPE", {}),
    "MPE_simple_push_v3": ("jaxmarl_lite.environments.mpe.simple_push:SimplePushMPE", {}),
    "MPE_simple_reference_v3": ("jaxmarl_lite.environments.mpe.simple_reference:SimpleReferenceMPE", {}),
    "MPE_simple_speaker_listener_v4": (
        "jaxmarl_lite.environments.mpe.simple_speaker_listener:SimpleSpeakerListenerMPE",
        {},
    ),
    "MPE_simple_spread_v3": ("jaxmarl_lite.environments.mpe.simple_spread:SimpleSpreadMPE", {}),
    "MPE_simple_tag_v3": ("jaxmarl_lite.environments.mpe.simple_tag:SimpleTagMPE", {}),
}


def closest(name: str, allowed: list[str]) -> str:
    """A hint that starts with a space and names the close matches of `name`, or an empty string."""
    name = str(name)
    by_lower = {option.lower(): option for option in allowed}
    matches = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(by_lower[m] for m in matches)}?" if matches else ""


def registered_envs() -> list[str]:
    """The ids that `make` knows, sorted."""
    return sorted(_TABLE)


def register(env_id: str, entry_point: str, **kwargs: Any) -> None:
    """Add an environment class of your own to the table.

    Args:
        env_id: the id that `make` will take.
        entry_point: `"package.module:Class"`, imported at the first `make`.
        **kwargs: default keyword arguments of the class.

    Raises:
        ValueError: if the id is taken, or the entry point is not of that form.
    """
    if not isinstance(env_id, str) or not env_id:
        raise ValueError(f"env_id must be a non-empty string, got {env_id!r}.")
    if env_id in _TABLE:
        raise ValueError(f"env_id {env_id!r} is already registered, as {_TABLE[env_id][0]!r}.")
    if not isinstance(entry_point, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+", entry_point):
        raise ValueError(f"entry_point must read 'package.module:Class', got {entry_point!r}.")
    _TABLE[env_id] = (entry_point, dict(kwargs))


def make(env_id: str, /, **kwargs: Any) -> "MultiAgentEnv":
    """Build a registered environment.

    Args:
        env_id: one of `registered_envs()`.
        **kwargs: keyword arguments of the environment's class; they win over the registered defaults.

    Raises:
        ValueError: for an unknown id (close matches are listed), for an unknown keyword or a
            value that the environment does not allow, or for an entry point that cannot be imported.
    """
    if not isinstance(env_id, str) or env_id not in _TABLE:
        raise ValueError(
            f"Unknown environment {env_id!r}.{closest(env_id, list(_TABLE))}"
            f" Registered: {', '.join(registered_envs())}."
        )
    entry_point, defaults = _TABLE[env_id]
    module_name, class_name = entry_point.split(":")
    try:
        env_class = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Entry point {entry_point!r} of {env_id!r} cannot be imported: {error}.") from error
    merged = {**defaults, **kwargs}
    parameters = inspect.signature(env_class).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in merged:
            if name not in parameters:
                raise ValueError(
                    f"Unknown keyword {name!r} for {env_id}.{closest(name, list(parameters))}"
                    f" Allowed: {', '.join(parameters)}."
                )
    for name, parameter in parameters.items():
        variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if parameter.default is parameter.empty and not variadic and name not in merged:
            raise ValueError(f"Missing keyword {name!r} for {env_id}. Allowed: {', '.join(parameters)}.")
    return env_class(**merged)
