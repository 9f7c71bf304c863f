"""Simple adversary: a team covers a secret landmark and hides it from an adversary."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, GoalState, check_count, check_neighbors, either
from jaxmarl_lite.environments.mpe.world import World


class SimpleAdversaryMPE(MPE):
    """`MPE_simple_adversary_v3`, equal to mpe2 1.1.1's `simple_adversary_v3`.

    One landmark is the goal, and only the good agents know which. The adversary's reward is minus its distance to the
    goal; a good agent's is the adversary's distance minus that of the nearest good agent.
    Observation: offset to the goal (good agents only), offsets to the landmarks, offsets to the other agents.

    Args:
        num_good_agents: number of good agents and of landmarks, 2 by default; mpe2's `N` works too.
        num_agent_neighbors: observe only so many other agents, the nearest, nearest first, missing ones as zeros.
        num_landmark_neighbors: the same for landmarks. The goal's offset is always observed.
        action_type: "Discrete" or "Continuous"; mpe2's `continuous_actions` works too.
        max_steps: length of an episode, 25 by default; mpe2's `max_cycles` works too.

    Raises:
        ValueError: for a value that is not allowed.
    """

    def __init__(
        self,
        num_good_agents: int | None = None,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
        action_type: str | None = None,
        max_steps: int | None = None,
        continuous_actions: bool | None = None,
        max_cycles: int | None = None,
        N: int | None = None,  # noqa: N803, the reference's name
    ):
        n = check_count(*either("num_good_agents", num_good_agents, "N", N, 2))
        check_neighbors(num_agent_neighbors=num_agent_neighbors, num_landmark_neighbors=num_landmark_neighbors)
        self.num_agent_neighbors, self.num_landmark_neighbors = num_agent_neighbors, num_landmark_neighbors
        world = World(n + 1, n, size=(0.15,) * (n + 1) + (0.08,) * n, collide=(False,) * (2 * n + 1), dim_c=2)
        agents = ["adversary_0"] + [f"agent_{i}" for i in range(n)]
        seen = 2 * (num_landmark_neighbors or n) + 2 * (num_agent_neighbors or n)
        colors = [(0.85, 0.35, 0.35)] + [(0.35, 0.35, 0.85)] * n + [(0.15, 0.15, 0.15)] * n
        super().__init__(
            world, agents, [seen] + [seen + 2] * n, action_type, continuous_actions, max_steps, max_cycles, colors
        )

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"adversary": self.agents[:1], "agent": self.agents[1:]}

    def _start(self, key: jax.Array) -> GoalState:
        return self._start_with_goal(key)

    def get_obs(self, state: GoalState) -> dict[str, jax.Array]:
        n, p_pos = self.num_agents, state.p_pos
        goal = physics.pick(p_pos[n:], state.goal)
        obs = {}
        for i, agent in enumerate(self.agents):
            landmarks, others = p_pos[n:] - p_pos[i], physics.others_offsets(p_pos, i, n)
            if self.num_landmark_neighbors is not None:
                (landmarks,) = physics.nearest(landmarks, self.num_landmark_neighbors)
            if self.num_agent_neighbors is not None:
                (others,) = physics.nearest(others, self.num_agent_neighbors)
            known = [] if i == 0 else [goal - p_pos[i]]
            obs[agent] = jnp.concatenate([*known, landmarks.ravel(), others.ravel()])
        return obs

    def rewards(self, state: GoalState) -> dict[str, jax.Array]:
        n, p_pos = self.num_agents, state.p_pos
        goal = physics.pick(p_pos[n:], state.goal)
        adversary, *team = (physics.distance(p_pos[i], goal) for i in range(n))
        shared = adversary - jnp.stack(team).min()
        return {"adversary_0": -adversary} | {agent: shared for agent in self.agents[1:]}
