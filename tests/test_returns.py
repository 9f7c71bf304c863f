"""GAE against a plain loop, against rlax, and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax

from jaxmarl_lite.training.returns import gae

T, N = 40, 7


def random_rollout(seed=0, p_end=0.15):
    rng = np.random.default_rng(seed)
    end = rng.random((T, N)) < p_end
    terminated = end & (rng.random((T, N)) < 0.5)
    rollout = {
        "reward": rng.normal(size=(T, N)),
        "value": rng.normal(size=(T, N)),
        "last_value": rng.normal(size=N),
        "terminated": terminated,
        "truncated": end & ~terminated,
        "final_value": rng.normal(size=(T, N)) * 5,
    }
    return {k: v if v.dtype == bool else v.astype(np.float32) for k, v in rollout.items()}


def plain_gae(reward, value, last_value, terminated, truncated, final_value, gamma, lam):
    advantages = np.zeros((T, N))
    for n in range(N):
        following = 0.0
        for t in reversed(range(T)):
            if terminated[t, n]:
                next_value, carried = 0.0, 0.0
            elif truncated[t, n]:
                next_value, carried = final_value[t, n], 0.0
            else:
                next_value = value[t + 1, n] if t + 1 < T else last_value[n]
                carried = following
            following = reward[t, n] + gamma * next_value - value[t, n] + gamma * lam * carried
            advantages[t, n] = following
    return advantages


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.95), (1.0, 1.0), (0.99, 0.0), (0.0, 0.9)])
def test_gae_equals_a_plain_loop(gamma, lam):
    rollout = random_rollout()
    assert rollout["terminated"].sum() > 5
    assert rollout["truncated"].sum() > 5
    advantages, targets = jax.jit(gae)(**rollout, gamma=gamma, gae_lambda=lam)
    expected = plain_gae(**rollout, gamma=gamma, lam=lam)
    np.testing.assert_allclose(advantages, expected, atol=2e-5)
    np.testing.assert_allclose(targets, expected + rollout["value"], atol=2e-5)


def test_gae_equals_rlax_where_episodes_terminate():
    rollout = random_rollout(1)
    rollout["terminated"] = rollout["terminated"] | rollout["truncated"]
    rollout["truncated"] = np.zeros((T, N), bool)
    advantages, _ = gae(**rollout, gamma=0.9, gae_lambda=0.8)
    values = np.concatenate([rollout["value"], rollout["last_value"][None]])
    for n in range(N):
        discounts = 0.9 * (1 - rollout["terminated"][:, n])
        expected = rlax.truncated_generalized_advantage_estimation(
            jnp.array(rollout["reward"][:, n]), jnp.array(discounts, jnp.float32), 0.8, jnp.array(values[:, n])
        )
        np.testing.assert_allclose(advantages[:, n], expected, atol=1e-5)


def test_gae_equals_rlax_on_each_piece_between_time_limits():
    # rlax knows no time limits: each episode is a rollout of its own that ends with a bootstrap.
    rollout = random_rollout(2)
    advantages, _ = gae(**rollout, gamma=0.9, gae_lambda=0.8)
    for n in range(N):
        ends = np.flatnonzero(rollout["terminated"][:, n] | rollout["truncated"][:, n]).tolist()
        start = 0
        for end in [*ends, T - 1]:
            if start > end:
                continue
            piece = slice(start, end + 1)
            discounts = np.full(end + 1 - start, 0.9, np.float32)
            after = rollout["last_value"][n]
            if rollout["terminated"][end, n]:
                discounts[-1] = 0.0
            elif rollout["truncated"][end, n]:
                after = rollout["final_value"][end, n]
            expected = rlax.truncated_generalized_advantage_estimation(
                jnp.array(rollout["reward"][piece, n]),
                jnp.array(discounts),
                0.8,
                jnp.array([*rollout["value"][piece, n], after]),
            )
            np.testing.assert_allclose(advantages[piece, n], expected, atol=1e-5)
            start = end + 1


def test_termination_hides_the_bootstrap_and_truncation_uses_it():
    given = {
        "reward": jnp.array([1.0, 2.0]),
        "value": jnp.array([0.5, 0.5]),
        "last_value": jnp.array(100.0),
        "gamma": 1.0,
        "gae_lambda": 1.0,
    }
    ends, never = jnp.array([False, True]), jnp.array([False, False])
    final_value = jnp.array([0.0, 10.0])
    advantages, _ = gae(terminated=ends, truncated=never, final_value=final_value, **given)
    np.testing.assert_allclose(advantages, [2.5, 1.5])
    advantages, _ = gae(terminated=never, truncated=ends, final_value=final_value, **given)
    np.testing.assert_allclose(advantages, [12.5, 11.5])
    advantages, _ = gae(terminated=never, truncated=never, final_value=final_value, **given)
    np.testing.assert_allclose(advantages, [102.5, 101.5])
