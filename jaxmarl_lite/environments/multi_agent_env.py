"""The interface of every environment.

It is per instance, as in JaxMARL: batches come from `jax.vmap` or `BatchWrapper`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxmarl_lite.environments.spaces import Discrete, Space


@struct.dataclass
class State:
    """What every environment's state holds; scenarios add their own fields."""

    step: jax.Array  # () int32, steps since the episode began
    done: jax.Array  # () bool, whether the episode has ended


class MultiAgentEnv:
    """Base class of the environments.

    A subclass sets `agents`, `observation_spaces`, `action_spaces` and `max_steps`, and writes
    `reset`, `step_env` and `get_obs`. `obs`, `reward`, `done` and `actions` are dicts keyed by agent
    name; `done["__all__"]` ends the episode. `info["terminated"]` and `info["truncated"]` (bool
    scalars) tell an end by the rules from one by the time limit.
    """

    agents: list[str]
    observation_spaces: dict[str, Space]
    action_spaces: dict[str, Space]
    max_steps: int
    # Team returns of random play and of a good scripted controller, where they were measured: a scale for scores.
    return_anchors: tuple[float, float] | None = None

    @property
    def num_agents(self) -> int:
        """Number of agents, A."""
        return len(self.agents)

    @property
    def name(self) -> str:
        """The environment's class name."""
        return type(self).__name__

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """Agents of one kind under one name: same role, same spaces. One class unless overridden."""
        return {"agent": list(self.agents)}

    def observation_space(self, agent: str) -> Space:
        """The space of `agent`'s observations. ValueError for an unknown agent."""
        return self._of_agent(self.observation_spaces, agent)

    def action_space(self, agent: str) -> Space:
        """The space of `agent`'s actions. ValueError for an unknown agent."""
        return self._of_agent(self.action_spaces, agent)

    def _of_agent(self, table: dict[str, Space], agent: str) -> Space:
        if agent not in table:
            raise ValueError(f"Unknown agent {agent!r}. Allowed: {', '.join(self.agents)}.")
        return table[agent]

    def reset(self, key: jax.Array) -> tuple[dict[str, jax.Array], Any]:
        """Start an episode. Returns (obs, state)."""
        raise NotImplementedError

    def step_env(self, key: jax.Array, state: Any, actions: dict[str, jax.Array]) -> tuple:
        """One step without auto-reset. Returns (obs, state, reward, done, info)."""
        raise NotImplementedError

    def get_obs(self, state: Any) -> dict[str, jax.Array]:
        """The agents' observations of a state."""
        raise NotImplementedError

    @partial(jax.jit, static_argnums=0)
    def step(self, key: jax.Array, state: Any, actions: dict[str, jax.Array], reset_state: Any = None) -> tuple:
        """One step; an episode that ends is replaced by a new one at once.

        Args:
            key: a PRNG key, for the step and for the reset.
            state: the state to step from.
            actions: one action per agent, each of its action space's shape.
            reset_state: where to go at an episode's end, instead of `self.reset`.

        Returns:
            obs, state, reward, done, info. At an episode's end, obs and state belong to the next
            episode, while reward, done and info belong to the one that ended; `info["final_obs"]`
            always holds the observations before the auto-reset.

        Raises:
            ValueError: for missing or unknown agents, or an action of the wrong shape or kind.
        """
        self.check_actions(actions)
        key_step, key_reset = jax.random.split(key)
        final_obs, next_state, reward, done, info = self.step_env(key_step, state, actions)
        if reset_state is None:
            reset_obs, reset_state = self.reset(key_reset)
        else:
            reset_obs = self.get_obs(reset_state)
        obs, next_state = jax.tree.map(
            lambda new, old: jnp.where(done["__all__"], new, old), (reset_obs, reset_state), (final_obs, next_state)
        )
        return obs, next_state, reward, done, {**info, "final_obs": final_obs}

    def get_avail_actions(self, state: Any) -> dict[str, jax.Array]:
        """Per agent, the actions allowed in `state`: bool (n,) for a Discrete space, else True (1,)."""
        spaces = self.action_spaces
        return {a: jnp.ones(spaces[a].n if isinstance(spaces[a], Discrete) else 1, bool) for a in self.agents}

    def world_state(self, state: Any) -> jax.Array:
        """What a centralised critic may see, (W,): all agents' observations unless overridden."""
        obs = self.get_obs(state)
        return jnp.concatenate([obs[a].ravel() for a in self.agents])

    def render(self, state: Any) -> Any:
        """A picture of the state, (H, W, 3) uint8. NotImplementedError where there is no drawing."""
        raise NotImplementedError(f"{self.name} has no drawing.")

    def check_actions(self, actions: dict[str, jax.Array]) -> None:
        """Raise ValueError unless `actions` has each agent, no other, and arrays of the right shape and kind."""
        if not isinstance(actions, Mapping):
            raise ValueError(f"actions must be a dict keyed by agent, got {type(actions).__name__}.")
        for agent in actions:
            if agent not in self.action_spaces:
                raise ValueError(f"Unknown agent {agent!r} in actions. Allowed: {', '.join(self.agents)}.")
        for agent in self.agents:
            if agent not in actions:
                raise ValueError(f"No action for agent {agent!r} in actions, got only {list(actions)}.")
            space, action = self.action_spaces[agent], actions[agent]
            shape, dtype = jnp.shape(action), jnp.result_type(action)
            if shape != space.shape:
                raise ValueError(f"Action of {agent!r} has shape {shape}, allowed is {space.shape} of {space}.")
            if jnp.issubdtype(space.dtype, jnp.integer) and not jnp.issubdtype(dtype, jnp.integer):
                raise ValueError(f"Action of {agent!r} has dtype {dtype}, allowed are integers of {space}.")
