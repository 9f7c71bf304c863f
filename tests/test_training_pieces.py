"""Minibatch orders, initialisers, layers, sampling, episode metrics."""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxmarl_lite.training import minibatch
from jaxmarl_lite.training.metrics import episode_metrics
from jaxmarl_lite.training.networks import FeatureMajorDense, action_noise, orthogonal, sample


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000, 4096, 24576])
def test_permutation_has_each_index_once(n):
    order = np.asarray(minibatch.permutation(jax.random.key(n), n))
    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_permutation_falls_back_above_its_limit(monkeypatch):
    monkeypatch.setattr(minibatch, "_ONE_WORD_LIMIT", 10)
    order = np.asarray(minibatch.permutation(jax.random.key(0), 11))
    np.testing.assert_array_equal(order, jax.random.permutation(jax.random.key(0), 11))


def test_permutation_is_uniform():
    orders = jax.vmap(lambda key: minibatch.permutation(key, 4))(jax.random.split(jax.random.key(0), 24_000))
    codes = np.asarray(orders) @ np.array([64, 16, 4, 1])
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_minibatch_orders_differ_between_epochs_and_cover_all():
    orders = np.asarray(minibatch.minibatch_orders(jax.random.key(3), 3, 4, 40))
    assert orders.shape == (3, 4, 10)
    for epoch in orders:
        np.testing.assert_array_equal(np.sort(epoch.ravel()), np.arange(40))
    assert not np.array_equal(orders[0], orders[1])


@pytest.mark.parametrize("size", [1, 7, 8])
def test_the_gradient_in_halves_is_the_gradient(size):
    x, y = jax.random.normal(jax.random.key(0), (2, size))

    def loss(params, minibatch):
        error = jnp.square(jnp.tanh(params["a"] * minibatch[0] + params["b"]) - minibatch[1]).mean()
        return error, {"error": error, "mean": minibatch[0].mean()}

    params = {"a": jnp.float32(0.7), "b": jnp.float32(-0.2)}
    grads, metrics = minibatch.grad_in_halves(loss, params, (x, y))
    expected, expected_metrics = jax.grad(loss, has_aux=True)(params, (x, y))
    for name, value in (expected | expected_metrics).items():
        np.testing.assert_allclose((grads | metrics)[name], value, rtol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (18, 64), (64, 5), (64, 1), (1, 8), (1, 1), (7, 3)])
def test_orthogonal_has_orthogonal_rows_or_columns(shape):
    kernel = np.asarray(orthogonal(3.0)(jax.random.key(0), shape), np.float64)
    assert kernel.shape == shape
    gram = kernel.T @ kernel if shape[0] >= shape[1] else kernel @ kernel.T
    np.testing.assert_allclose(gram, 9.0 * np.eye(min(shape)), atol=2e-5)


def test_orthogonal_is_haar_distributed():
    # Under the Haar measure entries of O(n) have mean 0, variance 1/n and fourth moment 3/(n(n+2)); the trace
    # has mean 0 and variance 1; both determinants are equally likely.
    n, draws = 5, 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    q = np.asarray(jax.vmap(lambda key: orthogonal()(key, (n, n)))(keys), np.float64)
    np.testing.assert_allclose(q.mean(0), 0, atol=5 / np.sqrt(n * draws))
    np.testing.assert_allclose((q**2).mean(0), 1 / n, atol=0.01)
    np.testing.assert_allclose((q**4).mean(0), 3 / (n * (n + 2)), atol=0.006)
    trace = np.trace(q, axis1=1, axis2=2)
    assert abs(trace.mean()) < 0.04
    assert abs(trace.var() - 1) < 0.05
    assert abs((np.linalg.det(q) > 0).mean() - 0.5) < 0.02


def test_orthogonal_refuses_other_ranks():
    with pytest.raises(ValueError, match=r"shape must be \(in, out\), got \(3, 3, 3\)"):
        orthogonal()(jax.random.key(0), (3, 3, 3))


def test_dense_layer_on_columns_equals_a_matrix_product():
    layer, x = FeatureMajorDense(4), jax.random.normal(jax.random.key(0), (6, 10))
    params = layer.init(jax.random.key(1), x)
    assert params["params"]["kernel"].shape == (6, 4)
    params["params"]["bias"] = jnp.arange(4.0)
    expected = np.asarray(x).T @ np.asarray(params["params"]["kernel"]) + np.arange(4.0)
    np.testing.assert_allclose(layer.apply(params, x), expected.T, atol=1e-5)


def test_sampling_with_noise_follows_the_distribution():
    draws = 40_000
    pi = distrax.Categorical(logits=jnp.array([0.0, 1.0, -1.0, 2.0]))
    actions = sample(pi, action_noise(jax.random.key(0), (draws, 4), discrete=True))
    counts = np.bincount(np.asarray(actions), minlength=4)
    probs = np.asarray(pi.probs, np.float64)
    assert stats.chisquare(counts, draws * probs / probs.sum()).pvalue > 1e-3
    pi = distrax.MultivariateNormalDiag(jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0]))
    actions = sample(pi, action_noise(jax.random.key(1), (draws, 2), discrete=False))
    np.testing.assert_allclose(actions.mean(0), [1.0, -2.0], atol=0.06)
    np.testing.assert_allclose(actions.std(0), [0.5, 3.0], rtol=0.02)


def test_episode_metrics_average_over_finished_episodes_only():
    info = {
        "returned_episode": jnp.array([[False, True], [True, False]]),
        "returned_episode_returns": jnp.array([[[0.0, 0.0], [1.0, 2.0]], [[3.0, 5.0], [0.0, 0.0]]]),
        "returned_episode_lengths": jnp.array([[0, 4], [8, 0]]),
    }
    metrics = episode_metrics(info)
    assert float(metrics["return"]) == 5.5  # of 3 and 8, summed over the two agents
    assert float(metrics["episode_length"]) == 6.0
    assert int(metrics["episodes"]) == 2


def test_episode_metrics_without_a_finished_episode_are_nan_and_not_zero():
    info = {
        "returned_episode": jnp.zeros((3, 2), bool),
        "returned_episode_returns": jnp.zeros((3, 2, 2)),
        "returned_episode_lengths": jnp.zeros((3, 2), int),
    }
    metrics = episode_metrics(info)
    assert np.isnan(metrics["return"])
    assert np.isnan(metrics["episode_length"])
    assert int(metrics["episodes"]) == 0
