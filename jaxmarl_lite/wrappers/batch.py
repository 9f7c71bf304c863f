"""Many instances of an environment at once, in arrays instead of dicts."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from jaxmarl_lite.environments.multi_agent_env import MultiAgentEnv
from jaxmarl_lite.environments.spaces import Box, Discrete


def cond_any(needed: jax.Array, do: Callable, skip: Callable, *operands: Any) -> Any:
    """`do(*operands)` if any entry of `needed` is true, else `skip(*operands)`.

    `do` must give what `skip` gives wherever `needed` is false. Under `jax.vmap` a plain `lax.cond`
    becomes a select that computes both branches for every element; this stays one branch for the whole
    batch. The branches must not close over traced values: pass them as operands.
    """

    @custom_vmap
    def branch(needed, *operands):
        return jax.lax.cond(needed, do, skip, *operands)

    @branch.def_vmap
    def _(axis_size, batched, needed, *operands):
        axes = [jax.tree.map(lambda b: 0 if b else None, b) for b in batched[1:]]
        over_batch = [jax.vmap(f, in_axes=axes, axis_size=axis_size) for f in (do, skip)]
        out = cond_any(needed, *over_batch, *operands)
        return out, jax.tree.map(lambda _: True, out)

    return branch(jnp.any(needed), *operands)


def _where(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """`new` where the (E,) mask is true, for arrays of shape (E, ...)."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)


class BatchWrapper:
    """`num_envs` instances of one environment with arrays of axes E (environments) and A (agents).

    Observations of unequal length are padded with zeros, and unequal action counts are masked by
    `get_avail_actions`. Finished episodes are replaced at once, and the new ones are computed only in
    steps in which at least one episode ended.

    Args:
        env: the environment, wrapped or not.
        num_envs: E.
        agent_ids: append a one-hot agent id to vector observations.

    Attributes:
        obs_shape: shape of one agent's observation, after padding and ids.
        num_actions: n of the largest Discrete action space, or None for Box spaces.
        action_size: length of the largest Box action space, or None for Discrete spaces.
        unequal_actions: whether some agents have fewer actions than others.

    Raises:
        ValueError: for a bad `num_envs`, or spaces that one array cannot hold.
    """

    def __init__(self, env: MultiAgentEnv, num_envs: int, agent_ids: bool = False):
        if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
            raise ValueError(f"num_envs must be an integer >= 1, got {num_envs!r}.")
        self.env, self.num_envs, self.agent_ids = env, int(num_envs), agent_ids
        self.agents, self.num_agents = env.agents, env.num_agents
        spaces = [env.action_space(a) for a in self.agents]
        discrete = all(isinstance(s, Discrete) for s in spaces)
        if not discrete and not all(isinstance(s, Box) and len(s.shape) == 1 for s in spaces):
            raise ValueError(f"Action spaces must be all Discrete or all one-dimensional Box, got {spaces}.")
        self._action_sizes = [s.n if discrete else s.shape[0] for s in spaces]
        self.num_actions = max(self._action_sizes) if discrete else None
        self.action_size = None if discrete else max(self._action_sizes)
        self.unequal_actions = len(set(self._action_sizes)) > 1
        shapes = [env.observation_space(a).shape for a in self.agents]
        vectors = all(len(shape) == 1 for shape in shapes)
        if not vectors and (agent_ids or len(set(shapes)) > 1):
            raise ValueError(f"Observations must be vectors to be padded or given agent ids, got shapes {shapes}.")
        self._obs_size = max(shape[0] for shape in shapes) if vectors else None
        ids = self.num_agents if agent_ids else 0
        self.obs_shape = (self._obs_size + ids,) if vectors else shapes[0]

    def to_array(self, by_agent: dict[str, jax.Array]) -> jax.Array:
        """Stack a dict of (E, ...) arrays into (E, A, ...)."""
        return jnp.stack([by_agent[a] for a in self.agents], axis=1)

    def to_dict(self, array: jax.Array) -> dict[str, jax.Array]:
        """Split an (E, A, ...) array into a dict of (E, ...) arrays: the inverse of `to_array`."""
        return {a: array[:, i] for i, a in enumerate(self.agents)}

    def observe(self, obs: dict[str, jax.Array]) -> jax.Array:
        """Observations by agent, each (E, ...), as one array (E, A, *obs_shape): padded, with ids if asked for."""
        if self._obs_size is not None:
            obs = {a: jnp.pad(o, ((0, 0), (0, self._obs_size - o.shape[1]))) for a, o in obs.items()}
        array = self.to_array(obs)  # (E, A, ...)
        if self.agent_ids:
            ids = jnp.broadcast_to(
                jnp.eye(self.num_agents, dtype=array.dtype), (array.shape[0], self.num_agents, self.num_agents)
            )
            array = jnp.concatenate([array, ids], axis=-1)
        return array

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        """Start all episodes. Returns obs (E, A, *obs_shape) and the batched state."""
        obs, state = jax.vmap(self.env.reset)(jax.random.split(key, self.num_envs))
        return self.observe(obs), state

    def step(self, key: jax.Array, state: Any, actions: jax.Array) -> tuple:
        """Step all instances; finished episodes start anew.

        Args:
            key: a PRNG key.
            state: the batched state.
            actions: (E, A) int for Discrete spaces, (E, A, action_size) float for Box spaces.

        Returns:
            obs (E, A, *obs_shape), state, reward (E, A), done (E,) and info, a dict of arrays with a leading E
            axis. At an episode's end obs and state belong to the next one, and `info["final_obs"]`
            (E, A, *obs_shape) always holds the observations before that reset.

        Raises:
            ValueError: for actions of the wrong shape.
        """
        shape = (self.num_envs, self.num_agents) + (() if self.action_size is None else (self.action_size,))
        if jnp.shape(actions) != shape:
            raise ValueError(f"actions must have shape {shape}, got {jnp.shape(actions)}.")
        by_agent = self.to_dict(actions)
        if self.action_size is not None:
            by_agent = {a: by_agent[a][:, :n] for a, n in zip(self.agents, self._action_sizes, strict=True)}
        # Only what is used is computed: no keys for environments without noise, none for resets in most steps.
        keys = jax.random.split(jax.random.fold_in(key, 0), self.num_envs)
        obs, state, reward, done, info = jax.vmap(self.env.step_env)(keys, state, by_agent)
        obs, done = self.observe(obs), done["__all__"]
        next_obs, state = cond_any(done, self._restart, self._go_on, done, key, obs, state)
        return next_obs, state, self.to_array(reward), done, {**info, "final_obs": obs}

    def _restart(self, done: jax.Array, key: jax.Array, obs: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        fresh = self.reset(jax.random.fold_in(key, 1))
        return jax.tree.map(lambda new, old: _where(done, new, old), fresh, (obs, state))

    def _go_on(self, done: jax.Array, key: jax.Array, obs: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return obs, state

    def get_avail_actions(self, state: Any) -> jax.Array:
        """Which actions are allowed, bool (E, A, num_actions); padded actions never are."""
        if self.num_actions is None:
            raise ValueError("get_avail_actions needs Discrete action spaces, got Box.")
        avail = jax.vmap(self.env.get_avail_actions)(state)
        return self.to_array({a: jnp.pad(m, ((0, 0), (0, self.num_actions - m.shape[1]))) for a, m in avail.items()})

    def world_state(self, state: Any) -> jax.Array:
        """What a centralised critic may see, (E, W)."""
        return jax.vmap(self.env.world_state)(state)
