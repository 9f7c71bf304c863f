"""Counts returns and lengths of episodes."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxmarl_lite.environments.multi_agent_env import MultiAgentEnv


@struct.dataclass
class LogState:
    """A wrapped environment's state with the running episode's sums."""

    env_state: Any
    episode_returns: jax.Array  # (A,) float32, reward of each agent since the episode began
    episode_lengths: jax.Array  # () int32, steps since the episode began

    @property
    def step(self) -> jax.Array:
        """() int32, the wrapped state's."""
        return self.env_state.step

    @property
    def done(self) -> jax.Array:
        """() bool, the wrapped state's."""
        return self.env_state.done


class LogWrapper(MultiAgentEnv):
    """Adds the return and length of each finished episode to `info`.

    `info["returned_episode"]` (bool) says whether an episode ended in this step; only then
    `info["returned_episode_returns"]` (A,) and `info["returned_episode_lengths"]` () are its sums, and they
    are zero otherwise: average over finished episodes only, as `training.metrics` does.
    """

    def __init__(self, env: MultiAgentEnv):
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not set yet, while unpickling or copying
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return self.env.agent_classes

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def return_anchors(self) -> tuple[float, float] | None:
        return self.env.return_anchors

    def reset(self, key: jax.Array) -> tuple[dict[str, jax.Array], LogState]:
        obs, env_state = self.env.reset(key)
        return obs, LogState(env_state, jnp.zeros(self.num_agents, jnp.float32), jnp.int32(0))

    def step_env(self, key: jax.Array, state: LogState, actions: dict[str, jax.Array]) -> tuple:
        obs, env_state, reward, done, info = self.env.step_env(key, state.env_state, actions)
        returns = state.episode_returns + jnp.stack([reward[a] for a in self.agents])
        lengths = state.episode_lengths + 1
        ended = done["__all__"]
        info = {
            **info,
            "returned_episode": ended,
            "returned_episode_returns": jnp.where(ended, returns, 0.0),
            "returned_episode_lengths": jnp.where(ended, lengths, 0),
        }
        state = LogState(env_state, jnp.where(ended, 0.0, returns), jnp.where(ended, 0, lengths))
        return obs, state, reward, done, info

    def get_obs(self, state: LogState) -> dict[str, jax.Array]:
        return self.env.get_obs(state.env_state)

    def get_avail_actions(self, state: LogState) -> dict[str, jax.Array]:
        return self.env.get_avail_actions(state.env_state)

    def world_state(self, state: LogState) -> jax.Array:
        return self.env.world_state(state.env_state)

    def render(self, state: LogState) -> Any:
        return self.env.render(state.env_state)
