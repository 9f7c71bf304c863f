"""Means over the episodes that finished, and only over those."""

import jax
import jax.numpy as jnp


def episode_metrics(info: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Summarise the episodes that ended in a rollout.

    Args:
        info: from `LogWrapper`, stacked over a rollout: `returned_episode` and
            `returned_episode_lengths` of any shape, `returned_episode_returns` with a further axis of agents.

    Returns:
        Scalars: `return` (mean over episodes of the sum over agents and steps) and `episode_length`, both
        NaN where no episode ended, and `episodes`, how many did.
    """
    ended = info["returned_episode"]
    episodes = ended.sum()
    team_returns = info["returned_episode_returns"].sum(-1)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.where(episodes > 0, jnp.where(ended, x, 0).sum() / jnp.maximum(episodes, 1), jnp.nan)

    return {
        "return": mean(team_returns),
        "episode_length": mean(info["returned_episode_lengths"]),
        "episodes": episodes,
    }
