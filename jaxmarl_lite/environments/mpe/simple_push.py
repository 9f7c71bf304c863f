"""Simple push: an adversary keeps an agent away from its landmark."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, GoalState
from jaxmarl_lite.environments.mpe.world import World

LANDMARK_COLORS = ((0.1, 0.9, 0.1), (0.1, 0.1, 0.9))
AGENT_COLORS = ((0.25, 0.75, 0.25), (0.25, 0.25, 0.75))  # the good agent's, by its goal


class SimplePushMPE(MPE):
    """`MPE_simple_push_v3`, equal to mpe2 1.1.1's `simple_push_v3`.

    The good agent's reward is minus its distance to the goal; the adversary's is the good agent's distance minus its
    own. Observation of the adversary (8,): own velocity, offsets to the landmarks and to the agent. Of the agent
    (19,): own velocity, offset to the goal, own colour (that of the goal), offsets to the landmarks, their colours,
    offset to the adversary.

    Args:
        action_type: "Discrete" or "Continuous"; mpe2's `continuous_actions` works too.
        max_steps: length of an episode, 25 by default; mpe2's `max_cycles` works too.

    Raises:
        ValueError: for a value that is not allowed.
    """

    def __init__(
        self,
        action_type: str | None = None,
        max_steps: int | None = None,
        continuous_actions: bool | None = None,
        max_cycles: int | None = None,
    ):
        world = World(2, 2, collide=(True, True, False, False), dim_c=2)
        colors = [(0.75, 0.25, 0.25), (0.35, 0.35, 0.35), *LANDMARK_COLORS]
        super().__init__(
            world, ["adversary_0", "agent_0"], [8, 19], action_type, continuous_actions, max_steps, max_cycles, colors
        )

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"adversary": ["adversary_0"], "agent": ["agent_0"]}

    def _start(self, key: jax.Array) -> GoalState:
        return self._start_with_goal(key)

    def get_obs(self, state: GoalState) -> dict[str, jax.Array]:
        p_pos, p_vel = state.p_pos, state.p_vel
        goal = physics.pick(p_pos[2:], state.goal)
        color = physics.pick(jnp.array(AGENT_COLORS, jnp.float32), state.goal)
        landmark_colors = jnp.array(LANDMARK_COLORS, jnp.float32).ravel()
        to_landmarks = [(p_pos[2:] - p_pos[i]).ravel() for i in range(2)]
        return {
            "adversary_0": jnp.concatenate([p_vel[0], to_landmarks[0], p_pos[1] - p_pos[0]]),
            "agent_0": jnp.concatenate(
                [p_vel[1], goal - p_pos[1], color, to_landmarks[1], landmark_colors, p_pos[0] - p_pos[1]]
            ),
        }

    def rewards(self, state: GoalState) -> dict[str, jax.Array]:
        goal = physics.pick(state.p_pos[2:], state.goal)
        adversary, agent = (physics.distance(state.p_pos[i], goal) for i in range(2))
        return {"adversary_0": agent - adversary, "agent_0": -agent}
