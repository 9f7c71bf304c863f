"""Action and observation spaces: what an agent may do, and what it may see.

Names and meaning follow Gymnasium's spaces; `sample` takes a JAX key and can be jitted and vmapped.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Space:
    """A set of arrays of one shape and dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def sample(self, key: jax.Array) -> jax.Array:
        """A random element, of shape `self.shape`."""
        raise NotImplementedError

    def contains(self, x: Any) -> jax.Array:
        """Whether `x` is an element: its shape, its kind of number and its values. A bool scalar."""
        array = jnp.asarray(x)
        integers = jnp.issubdtype(self.dtype, jnp.integer)
        if array.shape != self.shape or jnp.issubdtype(array.dtype, jnp.integer) != integers:
            return jnp.array(False)
        return self._within(array)

    def _within(self, x: jax.Array) -> jax.Array:
        raise NotImplementedError

    def _fields(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields() == other._fields()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))


class Discrete(Space):
    """The integers 0 .. n - 1, as int32 scalars."""

    def __init__(self, n: int):
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be a positive integer, got {n!r}.")
        self.n = int(n)
        self.shape = ()
        self.dtype = np.dtype(np.int32)

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), 0, self.n, jnp.int32)

    def _within(self, x: jax.Array) -> jax.Array:
        return (x >= 0) & (x < self.n)

    def _fields(self) -> tuple[Any, ...]:
        return (self.n,)

    def __repr__(self) -> str:
        return f"Discrete({self.n})"


class MultiDiscrete(Space):
    """Vectors of integers, entry i in 0 .. num_categories[i] - 1, int32."""

    def __init__(self, num_categories: Sequence[int]):
        self.num_categories = tuple(num_categories)
        if not self.num_categories or not all(isinstance(n, (int, np.integer)) and n > 0 for n in self.num_categories):
            raise ValueError(f"num_categories must be positive integers, got {num_categories!r}.")
        self.num_categories = tuple(int(n) for n in self.num_categories)
        self.shape = (len(self.num_categories),)
        self.dtype = np.dtype(np.int32)

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, self.shape, 0, jnp.array(self.num_categories), jnp.int32)

    def _within(self, x: jax.Array) -> jax.Array:
        return jnp.all((x >= 0) & (x < jnp.array(self.num_categories)))

    def _fields(self) -> tuple[Any, ...]:
        return self.num_categories

    def __repr__(self) -> str:
        return f"MultiDiscrete({list(self.num_categories)})"


class Box(Space):
    """Real arrays with low <= x <= high in each entry.

    Args:
        low, high: bounds, scalars or arrays that broadcast to `shape`; infinite ones are allowed.
        shape: the shape of an element.
        dtype: its dtype, float32 by default.
    """

    def __init__(self, low: Any, high: Any, shape: tuple[int, ...], dtype: Any = np.float32):
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.low = np.broadcast_to(np.asarray(low, self.dtype), self.shape)
        self.high = np.broadcast_to(np.asarray(high, self.dtype), self.shape)
        if np.any(self.low > self.high):
            raise ValueError(f"low must not exceed high, got low={low!r}, high={high!r}.")

    def sample(self, key: jax.Array) -> jax.Array:
        """Uniform between two finite bounds, normal without bounds, shifted exponential with one."""
        low_finite, high_finite = np.isfinite(self.low), np.isfinite(self.high)
        low = np.where(low_finite, self.low, 0.0)
        high = np.where(high_finite, self.high, 0.0)
        key_uniform, key_normal, key_tail = jax.random.split(key, 3)
        uniform = low + (high - low) * jax.random.uniform(key_uniform, self.shape)
        tail = jax.random.exponential(key_tail, self.shape)
        one_sided = jnp.where(low_finite, low + tail, high - tail)
        unbounded = jax.random.normal(key_normal, self.shape)
        x = jnp.where(low_finite & high_finite, uniform, jnp.where(low_finite | high_finite, one_sided, unbounded))
        return jnp.clip(x, self.low, self.high).astype(self.dtype)

    def _within(self, x: jax.Array) -> jax.Array:
        return jnp.all((x >= self.low) & (x <= self.high))

    def _fields(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype.name, tuple(self.low.ravel().tolist()), tuple(self.high.ravel().tolist()))

    def __repr__(self) -> str:
        def bound(array: np.ndarray) -> str:
            return str(array.flat[0]) if array.size and np.all(array == array.flat[0]) else str(array.tolist())

        return f"Box({bound(self.low)}, {bound(self.high)}, {self.shape}, {self.dtype.name})"
