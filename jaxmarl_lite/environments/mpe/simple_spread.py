"""Simple spread: agents cover landmarks together without running into each other."""

from functools import reduce

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, State, check_count, check_flags, check_neighbors, check_share, either
from jaxmarl_lite.environments.mpe.world import World

AGENT_SIZE = 0.15
COVER_RADIUS = 0.1  # an agent this near covers a landmark
NUM_STAGES = 2  # of the curriculum: without collision penalty, with it
# Team returns of the default task in mpe2: random play, and a controller that assigns agents to landmarks at best
# and drives there, with each action type (200 episodes; scripts/return_anchors.py plays both).
RETURN_ANCHORS = {"Discrete": (-78.0, -27.3), "Continuous": (-78.0, -21.1)}


class SimpleSpreadMPE(MPE):
    """`MPE_simple_spread_v3`, equal to mpe2 1.1.1's `simple_spread_v3`.

    Observation: own velocity, own position, offsets to the landmarks, offsets to the other agents, their
    messages (always zero). Every agent's reward is
    `(1 - local_ratio) * global + local_ratio * own`: global is minus the sum over landmarks of the
    distance to the nearest agent, own is -1 for each agent that it touches.

    Args:
        num_agents: number of agents, 3 by default; mpe2's `N` works too.
        num_landmarks: number of landmarks, as many as agents by default.
        local_ratio: weight of an agent's own reward, in [0, 1].
        max_steps: length of an episode, 25 by default; mpe2's `max_cycles` works too.
        action_type: "Discrete" (5 moves) or "Continuous" ((5,) in [0, 1]); mpe2's `continuous_actions` works too.
        terminate_on_success: end the episode once every landmark is covered (an agent within 0.1).
        curriculum: whether collisions are free in stage 0.
        curriculum_stage: 0 or 1. mpe2 documents methods that change it in a live environment (in 1.1.1 they have no
            effect); here another stage is another `make`.
        num_agent_neighbors: observe only so many other agents, the nearest, nearest first, missing ones as zeros.
        num_landmark_neighbors: the same for landmarks.

    Raises:
        ValueError: for a value that is not allowed.
    """

    def __init__(
        self,
        num_agents: int | None = None,
        num_landmarks: int | None = None,
        local_ratio: float = 0.5,
        max_steps: int | None = None,
        action_type: str | None = None,
        terminate_on_success: bool = False,
        curriculum: bool = False,
        curriculum_stage: int = 0,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
        N: int | None = None,  # noqa: N803, the reference's name
        continuous_actions: bool | None = None,
        max_cycles: int | None = None,
    ):
        n = check_count(*either("num_agents", num_agents, "N", N, 3))
        num_landmarks = n if num_landmarks is None else check_count("num_landmarks", num_landmarks)
        self.local_ratio = check_share("local_ratio", local_ratio)
        check_flags(terminate_on_success=terminate_on_success, curriculum=curriculum)
        if check_count("curriculum_stage", curriculum_stage, 0) >= NUM_STAGES:
            raise ValueError(f"curriculum_stage must be 0 or {NUM_STAGES - 1}, got {curriculum_stage!r}.")
        check_neighbors(num_agent_neighbors=num_agent_neighbors, num_landmark_neighbors=num_landmark_neighbors)
        self.terminate_on_success = terminate_on_success
        self.collisions_cost = not curriculum or curriculum_stage > 0
        self.num_agent_neighbors = num_agent_neighbors
        self.num_landmark_neighbors = num_landmark_neighbors
        world = World(
            num_agents=n,
            num_landmarks=num_landmarks,
            size=(AGENT_SIZE,) * n + (0.05,) * num_landmarks,
            collide=(True,) * n + (False,) * num_landmarks,
            dim_c=2,
        )
        seen_landmarks = num_landmarks if num_landmark_neighbors is None else num_landmark_neighbors
        seen_agents = n - 1 if num_agent_neighbors is None else num_agent_neighbors
        obs_size = 4 + 2 * seen_landmarks + (2 + world.dim_c) * seen_agents
        colors = [(0.35, 0.35, 0.85)] * n + [(0.25, 0.25, 0.25)] * num_landmarks
        agents = [f"agent_{i}" for i in range(n)]
        super().__init__(world, agents, [obs_size] * n, action_type, continuous_actions, max_steps, max_cycles, colors)

        if (n, num_landmarks, self.local_ratio, self.max_steps) == (3, 3, 0.5, 25) and not terminate_on_success:
            self.return_anchors = RETURN_ANCHORS[self.action_type] if self.collisions_cost else None

    def get_obs(self, state: State) -> dict[str, jax.Array]:
        n, p_pos = self.num_agents, state.p_pos
        obs = {}
        for i, agent in enumerate(self.agents):
            offsets = p_pos - p_pos[i]
            landmarks = offsets[n:]
            others = jnp.concatenate([offsets[:i], offsets[i + 1 : n]])
            messages = jnp.concatenate([state.c[:i], state.c[i + 1 :]])
            if self.num_landmark_neighbors is not None:
                (landmarks,) = physics.nearest(landmarks, self.num_landmark_neighbors)
            if self.num_agent_neighbors is not None:
                others, messages = physics.nearest(others, self.num_agent_neighbors, messages)
            parts = (state.p_vel[i], p_pos[i], landmarks, others, messages)
            obs[agent] = jnp.concatenate([part.ravel() for part in parts])
        return obs

    def _distances_to_cover(self, state: State) -> list[jax.Array]:
        """For each landmark, the distance of the agent nearest to it."""
        n = self.num_agents
        squared = physics.squared_distances(state.p_pos[n:], state.p_pos[:n])
        return [jnp.sqrt(reduce(jnp.minimum, list(row))) for row in squared]

    def rewards(self, state: State) -> dict[str, jax.Array]:
        agents = state.p_pos[: self.num_agents]
        squared = physics.squared_distances(agents, agents)
        shared = -sum(self._distances_to_cover(state)) * (1 - self.local_ratio)
        touching = (2 * AGENT_SIZE) ** 2
        rewards = {}
        for i, agent in enumerate(self.agents):
            touched = sum((squared[i][j] < touching).astype(jnp.float32) for j in range(self.num_agents) if j != i)
            rewards[agent] = shared - touched * (self.local_ratio * self.collisions_cost)
        return rewards

    def is_terminal(self, state: State) -> jax.Array:
        if not self.terminate_on_success:
            return jnp.array(False)
        return jnp.stack(self._distances_to_cover(state)).max() < COVER_RADIUS
