"""What the MPE scenarios share: state, spaces, keywords, stepping and drawing."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxmarl_lite.environments import multi_agent_env
from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.world import World
from jaxmarl_lite.environments.spaces import Box, Discrete, Space


@struct.dataclass
class State(multi_agent_env.State):
    """Rows of `p_pos` and `p_vel`: agents first, then landmarks."""

    p_pos: jax.Array  # (num_entities, 2) float32, world units
    p_vel: jax.Array  # (num_entities, 2) float32, world units per unit of time (a step lasts 0.1)
    c: jax.Array  # (num_agents, dim_c) float32, the messages sent in the last step


@struct.dataclass
class GoalState(State):
    """A state with a target that the scenario draws at reset."""

    goal: jax.Array  # () or (num_agents,) int32, index among the landmarks


def either(name: str, value: Any, alias: str, alias_value: Any, default: Any) -> tuple[str, Any]:
    """Which of a keyword's two names was given, and the value. ValueError if both are given and differ."""
    if value is not None and alias_value is not None and value != alias_value:
        raise ValueError(f"{name}={value!r} and {alias}={alias_value!r} are one keyword: give one of them.")
    if value is None and alias_value is not None:
        return alias, alias_value
    return name, default if value is None else value


def check_share(name: str, value: Any) -> float:
    """`value` as a float. ValueError unless it is a number in [0, 1]."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number in [0, 1], got {value!r}.")
    return float(value)


def check_flags(**flags: bool) -> None:
    """ValueError unless each is True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_neighbors(**counts: int | None) -> None:
    """ValueError unless each is None (all are observed) or an integer >= 1."""
    for name, value in counts.items():
        if value is not None:
            check_count(name, value)


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """`value` as an int. ValueError unless it is an integer from `minimum` to 2**31 - 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not minimum <= value < 2**31:
        bound = " and < 2**31" if isinstance(value, int) and value >= 2**31 else ""
        raise ValueError(f"{name} must be an integer >= {minimum}{bound}, got {value!r}.")
    return int(value)


class MPE(multi_agent_env.MultiAgentEnv):
    """Base class of the scenarios; a scenario writes `get_obs`, `rewards` and, if it can succeed, `is_terminal`.

    Args:
        world: the bodies and their physics.
        agents: the agents' names, in the order of the world's rows.
        observation_sizes: length of each agent's observation.
        action_type: "Discrete" or "Continuous" (mpe2's name for it: `continuous_actions`).
        max_steps: steps until the time limit (mpe2's name for it: `max_cycles`), 25 by default.
        colors: RGB in 0..1 of each entity, for drawing.
    """

    def __init__(
        self,
        world: World,
        agents: list[str],
        observation_sizes: list[int],
        action_type: str | None,
        continuous_actions: bool | None,
        max_steps: int | None,
        max_cycles: int | None,
        colors: list[tuple[float, float, float]],
    ):
        if continuous_actions is not None and not isinstance(continuous_actions, bool):
            raise ValueError(f"continuous_actions must be True or False, got {continuous_actions!r}.")
        alias = None if continuous_actions is None else ("Continuous" if continuous_actions else "Discrete")
        if action_type not in (None, "Discrete", "Continuous"):
            raise ValueError(f"action_type must be 'Discrete' or 'Continuous', got {action_type!r}.")
        if None not in (action_type, alias) and action_type != alias:
            raise ValueError(
                f"action_type={action_type!r} and continuous_actions={continuous_actions!r} are one keyword:"
                " give one of them."
            )
        self.action_type = action_type or alias or "Discrete"
        self.max_steps = check_count(*either("max_steps", max_steps, "max_cycles", max_cycles, 25))
        self.world = world
        self.agents = list(agents)
        self.colors = list(colors)
        self.observation_spaces = {
            a: Box(-np.inf, np.inf, (size,)) for a, size in zip(self.agents, observation_sizes, strict=True)
        }
        self.action_spaces = {a: self._action_space(i) for i, a in enumerate(self.agents)}

    def _action_space(self, agent: int) -> Space:
        movable, speaks, dim_c = self.world.movable[agent], not self.world.silent[agent], self.world.dim_c
        if self.action_type == "Continuous":
            return Box(0.0, 1.0, (physics.NUM_MOVES * movable + dim_c * speaks,))
        return Discrete((physics.NUM_MOVES if movable else 1) * (dim_c if speaks else 1))

    def reset(self, key: jax.Array) -> tuple[dict[str, jax.Array], State]:
        """Start an episode. Returns (obs, state)."""
        state = self._start(key)
        return self.get_obs(state), state

    def _start(self, key: jax.Array) -> State:
        """The state that an episode begins in."""
        return self._start_at_rest(key)

    def _start_at_rest(self, key: jax.Array) -> State:
        """Everything at rest, at uniform positions in [-1, 1]^2."""
        world = self.world
        return State(
            step=jnp.int32(0),
            done=jnp.array(False),
            p_pos=jax.random.uniform(key, (world.num_entities, 2), jnp.float32, -1.0, 1.0),
            p_vel=jnp.zeros((world.num_entities, 2), jnp.float32),
            c=jnp.zeros((world.num_agents, world.dim_c), jnp.float32),
        )

    def _start_with_goal(self, key: jax.Array, shape: tuple[int, ...] = ()) -> GoalState:
        """The same, with a random landmark as goal, or one for each entry of `shape`."""
        key, key_goal = jax.random.split(key)
        state = self._start_at_rest(key)
        goal = jax.random.randint(key_goal, shape, 0, self.world.num_landmarks, jnp.int32)
        return GoalState(**vars(state), goal=goal)

    def step_env(self, key: jax.Array, state: State, actions: dict[str, jax.Array]) -> tuple:
        """One step without auto-reset: obs, state, reward, done, info. See `MultiAgentEnv.step`."""
        self.check_actions(actions)
        ordered = [jnp.asarray(actions[a]) for a in self.agents]
        p_pos, p_vel, c = physics.step(self.world, key, state.p_pos, state.p_vel, ordered)
        step = state.step + 1
        state = state.replace(step=step, p_pos=p_pos, p_vel=p_vel, c=c)
        # As in the reference, a success in the very last step counts as the time limit.
        truncated = step >= self.max_steps
        terminated = self.is_terminal(state) & ~truncated
        done = terminated | truncated
        state = state.replace(done=done)
        dones = {agent: done for agent in [*self.agents, "__all__"]}
        info = {"terminated": terminated, "truncated": truncated}
        return self.get_obs(state), state, self.rewards(state), dones, info

    def rewards(self, state: State) -> dict[str, jax.Array]:
        """The reward of each agent for reaching `state`, float32 scalars."""
        raise NotImplementedError

    def is_terminal(self, state: State) -> jax.Array:
        """Whether the task is done before the time limit, a bool scalar."""
        return jnp.array(False)

    def render(self, state: State) -> np.ndarray:
        """A picture of one instance's state, with the step and the messages below it: (H, W, 3) uint8.

        Raises:
            ValueError: for a batch of states, or positions that are not finite.
        """
        # Here, because training needs no Pillow.
        from jaxmarl_lite.viz.draw import agent_labels, draw_particles, message_text

        if np.ndim(state.step):
            raise ValueError(f"render draws one instance's state, got a batch of shape {np.shape(state.step)}.")
        continuous = self.action_type == "Continuous"
        captions = [f"step {state.step} of {self.max_steps}"] + [
            f"{agent}: {message_text(np.asarray(message), continuous)}"
            for agent, message, silent in zip(self.agents, state.c, self.world.silent, strict=True)
            if not silent
        ]
        labels = agent_labels(self.agents) + [""] * self.world.num_landmarks
        return draw_particles(state.p_pos, self.world.size, self.colors, labels, self.num_agents, captions)
