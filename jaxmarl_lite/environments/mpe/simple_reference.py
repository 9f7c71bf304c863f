"""Simple reference: each agent tells the other which landmark to go to."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, GoalState, check_share
from jaxmarl_lite.environments.mpe.world import World

LANDMARK_COLORS = ((0.75, 0.25, 0.25), (0.25, 0.75, 0.25), (0.25, 0.25, 0.75))


class SimpleReferenceMPE(MPE):
    """`MPE_simple_reference_v3`, equal to mpe2 1.1.1's `simple_reference_v3`.

    `goal[i]` is the landmark that agent i knows and the other agent should reach; agent i's own reward is minus the
    other's distance to it. Rewards mix the mean over agents and the own one: `(1 - local_ratio) * mean + local_ratio
    * own`. Observation (21,): own velocity, offsets to the landmarks, colour of the other's goal, the other's message.
    A discrete action is `move + 5 * word` of 10 words, a continuous one (15,): five strengths, then the message.

    Args:
        local_ratio: weight of an agent's own reward, in [0, 1].
        action_type: "Discrete" or "Continuous"; mpe2's `continuous_actions` works too.
        max_steps: length of an episode, 25 by default; mpe2's `max_cycles` works too.

    Raises:
        ValueError: for a value that is not allowed.
    """

    def __init__(
        self,
        local_ratio: float = 0.5,
        action_type: str | None = None,
        max_steps: int | None = None,
        continuous_actions: bool | None = None,
        max_cycles: int | None = None,
    ):
        self.local_ratio = check_share("local_ratio", local_ratio)
        world = World(2, 3, collide=(False,) * 5, silent=(False, False), dim_c=10)
        colors = [(0.25, 0.25, 0.25)] * 2 + list(LANDMARK_COLORS)
        super().__init__(
            world, ["agent_0", "agent_1"], [21, 21], action_type, continuous_actions, max_steps, max_cycles, colors
        )

    def _start(self, key: jax.Array) -> GoalState:
        return self._start_with_goal(key, (2,))

    def get_obs(self, state: GoalState) -> dict[str, jax.Array]:
        colors = jnp.array(LANDMARK_COLORS, jnp.float32)
        return {
            agent: jnp.concatenate(
                [
                    state.p_vel[i],
                    (state.p_pos[2:] - state.p_pos[i]).ravel(),
                    physics.pick(colors, state.goal[i]),
                    state.c[1 - i],
                ]
            )
            for i, agent in enumerate(self.agents)
        }

    def rewards(self, state: GoalState) -> dict[str, jax.Array]:
        p_pos = state.p_pos
        own = [-physics.distance(p_pos[1 - i], physics.pick(p_pos[2:], state.goal[i])) for i in range(2)]
        shared = (own[0] + own[1]) / 2 * (1 - self.local_ratio)
        return {agent: shared + own[i] * self.local_ratio for i, agent in enumerate(self.agents)}
