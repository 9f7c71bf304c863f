"""Returns and advantages."""

import jax
import jax.numpy as jnp


def gae(
    reward: jax.Array,
    value: jax.Array,
    last_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    final_value: jax.Array,
    gamma: float,
    gae_lambda: float,
) -> tuple[jax.Array, jax.Array]:
    """Generalised advantage estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438).

    Args:
        reward: (T, ...) reward of each step.
        value: (T, ...) value of the observation that each step acted on.
        last_value: (...) value of the observation after the last step.
        terminated: (T, ...) bool, the episode ended by its rules in this step: nothing follows.
        truncated: (T, ...) bool, the time limit cut the episode in this step: what would have followed is
            worth `final_value`. Give all False, and such ends in `terminated`, to not bootstrap there.
        final_value: (T, ...) value of the observation before the reset, read where `truncated`.
        gamma: discount factor.
        gae_lambda: weight of longer returns.

    Returns:
        Advantages and value targets (advantage + value), both (T, ...).
    """
    next_value = jnp.concatenate([value[1:], last_value[None]])
    next_value = jnp.where(truncated, final_value, next_value)
    next_value = jnp.where(terminated, 0.0, next_value)
    delta = reward + gamma * next_value - value
    # Nothing flows back over an episode's end, whichever kind it is.
    decay = jnp.where(terminated | truncated, 0.0, gamma * gae_lambda)

    def backward(advantage, step):
        delta, decay = step
        advantage = delta + decay * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(backward, jnp.zeros_like(last_value), (delta, decay), reverse=True, unroll=8)
    return advantages, advantages + value
