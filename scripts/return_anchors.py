"""Measure the two ends of the score's scale on spread: random play and a scripted controller.

    python scripts/return_anchors.py [--episodes 1000] [--continuous]

The controller assigns each agent a landmark so that the sum of the distances is the smallest of all
assignments, once at the start, and drives there. Both are played here and in mpe2.
"""

import argparse
import itertools

import jax
import numpy as np
from mpe2 import simple_spread_v3

import jaxmarl_lite
from jaxmarl_lite.wrappers import BatchWrapper

COAST = 0.4  # an agent left alone still travels velocity * dt / damping
PUSH = 0.2  # one full push moves an agent this far in the end


def assign(obs: np.ndarray) -> np.ndarray:
    """(E, A) index of each agent's landmark, from observations (E, A, D)."""
    offsets = obs[:, :, 4:10].reshape(*obs.shape[:2], 3, 2)
    distance = np.linalg.norm(offsets, axis=-1)  # (E, A, L)
    orders = np.array(list(itertools.permutations(range(3))))
    totals = np.stack([distance[:, range(3), order].sum(1) for order in orders], axis=1)
    return orders[totals.argmin(1)]


def drive(obs: np.ndarray, target: np.ndarray, continuous: bool) -> np.ndarray:
    """The actions that bring each agent to its landmark: (E, A) moves or (E, A, 5) strengths."""
    offsets = obs[:, :, 4:10].reshape(*obs.shape[:2], 3, 2)
    gap = np.take_along_axis(offsets, target[:, :, None, None], axis=2)[:, :, 0] - COAST * obs[:, :, :2]
    if continuous:
        push = np.clip(gap / PUSH, -1, 1)
        x, y = push[..., 0], push[..., 1]
        zero = np.zeros_like(x)
        return np.stack([zero, np.maximum(-x, 0), np.maximum(x, 0), np.maximum(-y, 0), np.maximum(y, 0)], -1)
    axis = np.abs(gap).argmax(-1)
    along = np.take_along_axis(gap, axis[..., None], axis=-1)[..., 0]
    move = 1 + 2 * axis + (along > 0)
    return np.where(np.abs(along) > PUSH / 2, move, 0)


def random_actions(rng: np.random.Generator, shape: tuple[int, ...], continuous: bool) -> np.ndarray:
    """Uniform actions for (E, A) agents."""
    return rng.random((*shape, 5)) if continuous else rng.integers(0, 5, shape)


def play_ours(episodes: int, scripted: bool, continuous: bool) -> np.ndarray:
    """Team return of each episode in this package."""
    env = jaxmarl_lite.make("MPE_simple_spread_v3", continuous_actions=continuous)
    batch = BatchWrapper(env, episodes)
    reset, step = jax.jit(batch.reset), jax.jit(batch.step)
    rng = np.random.default_rng(0)
    obs, state = reset(jax.random.key(0))
    target, total = assign(np.asarray(obs)), np.zeros(episodes)
    for _ in range(env.max_steps):
        shape = (episodes, 3)
        actions = drive(np.asarray(obs), target, continuous) if scripted else random_actions(rng, shape, continuous)
        obs, state, reward, _, _ = step(
            jax.random.key(0), state, actions.astype(np.float32 if continuous else np.int32)
        )
        total += np.asarray(reward).sum(1)
    return total


def play_mpe2(episodes: int, scripted: bool, continuous: bool) -> np.ndarray:
    """Team return of each episode in mpe2."""
    env = simple_spread_v3.parallel_env(continuous_actions=continuous)
    rng = np.random.default_rng(0)
    totals = []
    for episode in range(episodes):
        by_agent, _ = env.reset(seed=episode)
        names, total = list(by_agent), 0.0
        obs = np.stack([by_agent[name] for name in names])[None]
        target = assign(obs)
        while env.agents:
            actions = drive(obs, target, continuous) if scripted else random_actions(rng, (1, 3), continuous)
            actions = actions[0].astype(np.float32) if continuous else actions[0]
            by_agent, reward, _, _, _ = env.step(dict(zip(names, actions, strict=True)))
            obs = np.stack([by_agent[name] for name in names])[None]
            total += sum(reward.values())
        totals.append(total)
    return np.array(totals)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Team returns of random play and of a scripted controller on spread.")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--continuous", action="store_true")
    arguments = parser.parse_args()
    if arguments.episodes < 1:
        parser.error(f"--episodes must be at least 1, got {arguments.episodes}")
    for name, play in (("jaxmarl_lite", play_ours), ("mpe2", play_mpe2)):
        for policy, scripted in (("random", False), ("scripted", True)):
            returns = play(arguments.episodes, scripted, arguments.continuous)
            half = 1.96 * returns.std() / np.sqrt(len(returns))
            print(f"{name:>12}  {policy:<8}  {returns.mean():7.2f} ± {half:.2f}")


if __name__ == "__main__":
    main()
