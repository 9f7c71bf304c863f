"""Building blocks of networks."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp

ACTIVATIONS: dict[str, Callable] = {"relu": nn.relu, "tanh": nn.tanh}


def orthogonal(scale: float = 1.0) -> Callable[..., jax.Array]:
    """An initialiser of (in, out) kernels with orthogonal rows or columns of length `scale`.

    The orthogonal matrix is Haar-distributed: a product of Householder reflections of Gaussian vectors of
    shrinking length (Stewart 1980, https://doi.org/10.1137/0717034). `jax.nn.initializers.orthogonal` calls
    LAPACK's QR, which can deadlock under `jax.vmap` over many seeds on a machine with few cores.
    """

    def init(key: jax.Array, shape: Sequence[int], dtype: jnp.dtype = jnp.float32) -> jax.Array:
        if len(shape) != 2:
            raise ValueError(f"shape must be (in, out), got {tuple(shape)}.")
        return scale * _haar(key, tuple(shape), dtype)

    return init


@partial(jax.jit, static_argnums=(1, 2))  # flax traces an initialiser at each use of its layer
def _haar(key: jax.Array, shape: tuple[int, int], dtype: jnp.dtype) -> jax.Array:
    long, short = max(shape), min(shape)
    gaussian = jax.random.normal(key, (short * long,), dtype).reshape(short, long)  # flat: compiles faster
    index = jnp.arange(long)

    def reflect(i: jax.Array, q: jax.Array) -> jax.Array:
        k = short - 1 - i  # the k-th reflection leaves the first k coordinates alone
        x = jnp.where(index >= k, gaussian[k], 0.0)
        sign = jnp.where(x[k] >= 0, 1.0, -1.0)
        v = x + sign * jnp.linalg.norm(x) * (index == k)
        q = q - jnp.outer(v, 2.0 / jnp.vdot(v, v) * (v[:, None] * q).sum(0))
        return q.at[:, k].multiply(-sign)

    q = jax.lax.fori_loop(0, short, reflect, jnp.eye(long, short, dtype=dtype))
    return q if shape[0] == long else q.T


def columns(x: jax.Array) -> jax.Array:
    """(N, D) to (D, N), as an array in memory: folded into the next product, the transpose makes that one slow."""
    return jax.lax.optimization_barrier(x.T)


class FeatureMajorDense(nn.Module):
    """A dense layer on columns: (in, N) to (features, N), with the usual (in, features) kernel.

    With many samples and few features this layout keeps the vector units busy and the weight gradient's
    product contiguous; on a CPU it is faster than (N, in) to (N, features).

    Args:
        features: number of outputs.
        scale: gain of the orthogonal initialisation; biases start at zero.
    """

    features: int
    scale: float = math.sqrt(2)

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", orthogonal(self.scale), (x.shape[0], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return jax.lax.dot_general(kernel, x, (((0,), (0,)), ((), ()))) + bias[:, None]


def action_noise(key: jax.Array, shape: Sequence[int], discrete: bool) -> jax.Array:
    """Noise for `sample`: a whole rollout's at once, which is much cheaper than a draw at every step.

    Args:
        shape: (..., n) for n Discrete actions, (..., K) for actions of K numbers.
    """
    draw = jax.random.gumbel if discrete else jax.random.normal
    return draw(key, (math.prod(shape),), jnp.float32).reshape(shape)  # a flat draw compiles several times faster


def sample(pi: distrax.Distribution, noise: jax.Array) -> jax.Array:
    """An action of the policy, (...,) for a Categorical (by the Gumbel-max trick), (..., K) for a Gaussian."""
    if isinstance(pi, distrax.Categorical):
        return jnp.argmax(pi.logits + noise, axis=-1).astype(jnp.int32)
    return pi.loc + pi.scale_diag * noise
