"""Replay a saved run as an animation: `python scripts/replay.py RUN_FOLDER`."""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import FlaxError
from omegaconf import OmegaConf

from jaxmarl_lite.training.checkpoint import load_params
from jaxmarl_lite.training.runner import Train
from jaxmarl_lite.viz.animate import animate

BASELINES = Path(__file__).resolve().parents[1] / "baselines"


def load_baseline(name: str) -> ModuleType:
    """The module of a baseline. ValueError if there is none of that name."""
    paths = {path.stem: path for path in sorted(BASELINES.glob("*/*.py"))}
    if name not in paths:
        raise ValueError(f"Unknown baseline {name!r}. Allowed: {', '.join(paths)}.")
    spec = importlib.util.spec_from_file_location(name, paths[name])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_run(folder: Path, seed: int) -> tuple[Train, Any]:
    """The run of a folder and the parameters of one of its seeds.

    Raises:
        FileNotFoundError: if the folder lacks its config or its parameters.
        ValueError: if a file is damaged, or there is no such seed.
    """
    if not (folder / "config.yaml").is_file():
        raise FileNotFoundError(f"{folder} is no run folder: it has no config.yaml.")
    try:
        config = dict(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")))
        baseline = config.pop("BASELINE")
    except Exception as error:  # whatever YAML makes of a damaged file
        raise ValueError(f"{folder / 'config.yaml'} is not the config of a run: {error!r}.") from error
    train = load_baseline(baseline).make_train(config)
    params, metadata = load_params(folder / "params.safetensors")
    seeds = int(metadata.get("seeds", 0))
    if not 0 <= seed < seeds:
        raise ValueError(f"seed must be in 0..{seeds - 1}, got {seed}.")
    return train, jax.tree.map(lambda x: jnp.asarray(x[seed]), params)


def play(
    train: Train, params: Any, episodes: int, key: jax.Array, greedy: bool
) -> tuple[list[np.ndarray], list[float]]:
    """Play episodes with a team. Returns a picture of each step, and the team return of each episode."""
    env, observe = train.env.env, train.env.observe

    @jax.jit
    def step(key: jax.Array, state: Any, obs: dict[str, jax.Array]) -> tuple:
        pi = train.policy(params, observe(jax.tree.map(lambda x: x[None], obs))[0])
        key_action, key_step = jax.random.split(key)
        action = pi.mode() if greedy else pi.sample(seed=key_action)
        obs, state, reward, done, _ = env.step_env(key_step, state, dict(zip(env.agents, action, strict=True)))
        return obs, state, sum(reward.values()), done["__all__"]

    frames, returns = [], []
    for key_episode in jax.random.split(key, episodes):
        obs, state = env.reset(key_episode)
        frames.append(env.render(state))
        total, done = 0.0, False
        while not done:
            key_episode, key_step = jax.random.split(key_episode)
            obs, state, reward, done = step(key_step, state, obs)
            total += float(reward)
            frames.append(env.render(state))
        returns.append(total)
    return frames, returns


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Replay the final team of a saved run as a GIF.")
    parser.add_argument("folder", type=Path, help="a run folder")
    parser.add_argument("--seed", type=int, default=0, help="which of the run's seeds, counted from 0")
    parser.add_argument("--episodes", type=int, default=3, help="how many episodes")
    parser.add_argument("--key", type=int, default=0, help="random seed of the episodes")
    parser.add_argument("--sample", action="store_true", help="sample the actions instead of taking the likeliest")
    parser.add_argument("--output", type=Path, help="the GIF; by default replay.gif in the run folder")
    arguments = parser.parse_args()
    if arguments.episodes < 1:
        parser.error(f"--episodes must be at least 1, got {arguments.episodes}")
    output = arguments.output or arguments.folder / "replay.gif"
    if output.exists():
        parser.error(f"--output {output} exists and is not overwritten")
    try:
        train, params = load_run(arguments.folder, arguments.seed)
        key = jax.random.key(arguments.key)
        frames, returns = play(train, params, arguments.episodes, key, not arguments.sample)
        animate(frames, output)
    except (OSError, ValueError, NotImplementedError, FlaxError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"{output}: {len(returns)} episodes, team returns {', '.join(f'{r:.1f}' for r in returns)}")


if __name__ == "__main__":
    main()
