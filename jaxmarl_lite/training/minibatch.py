"""Shuffling a batch into minibatches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_ONE_WORD_LIMIT = 2**20


def permutation(key: jax.Array, n: int) -> jax.Array:
    """A random order of 0 .. n - 1, (n,) int32.

    Sorts words of random high bits and the index as low bits: one single-key sort, several times faster
    on a CPU than `jax.random.permutation`. Two equal draws keep their order, which happens to a pair with
    probability 2**-(32 - bits of n); above 2**20 entries `jax.random.permutation` takes over.
    """
    if n > _ONE_WORD_LIMIT:
        return jax.random.permutation(key, n)
    index_bits = max(n - 1, 1).bit_length()
    words = jax.random.bits(key, (n,), jnp.uint32) << index_bits
    words = jnp.sort(words | jnp.arange(n, dtype=jnp.uint32))
    return (words & jnp.uint32(2**index_bits - 1)).astype(jnp.int32)


def minibatch_orders(key: jax.Array, epochs: int, num_minibatches: int, size: int) -> jax.Array:
    """Indices that shuffle `size` samples anew for each epoch: (epochs, num_minibatches, size / num_minibatches).

    Drawn before the epochs begin, all together, they can be sorted while the rollout is still running.
    """
    orders = jax.vmap(permutation, in_axes=(0, None))(jax.random.split(key, epochs), size)
    return orders.reshape(epochs, num_minibatches, -1)


def grad_in_halves(loss_fn: Callable, params: Any, minibatch: Any) -> tuple[Any, Any]:
    """The gradient of a loss that is a mean over samples, from the two halves of a minibatch.

    The halves do not depend on each other, so two cores can work side by side instead of waiting for each other
    in every layer, and each half's activations fit the cache better.

    Args:
        loss_fn: `(params, minibatch) -> (loss, metrics)`, both means over the samples.
        params: what to differentiate by.
        minibatch: a pytree of (B, ...) arrays. An odd B is taken whole.

    Returns:
        The gradient and the metrics of the whole minibatch.
    """
    size = jax.tree.leaves(minibatch)[0].shape[0]
    grad = jax.grad(loss_fn, has_aux=True)
    if size % 2:
        return grad(params, minibatch)
    first = grad(params, jax.tree.map(lambda x: x[: size // 2], minibatch))
    second = grad(params, jax.tree.map(lambda x: x[size // 2 :], minibatch))
    return jax.tree.map(lambda a, b: (a + b) / 2, first, second)
