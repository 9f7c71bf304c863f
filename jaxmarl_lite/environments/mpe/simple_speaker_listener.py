"""Simple speaker listener: one agent knows the goal and cannot move, the other moves and must be told."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, GoalState
from jaxmarl_lite.environments.mpe.world import World

LANDMARK_COLORS = ((0.65, 0.15, 0.15), (0.15, 0.65, 0.15), (0.15, 0.15, 0.65))


class SimpleSpeakerListenerMPE(MPE):
    """`MPE_simple_speaker_listener_v4`, equal to mpe2 1.1.1's `simple_speaker_listener_v4`.

    Both rewards are minus the squared distance of the listener to the goal. Observation of the speaker (3,): the
    goal's colour. Of the listener (11,): own velocity, offsets to the landmarks, the speaker's message.

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
        world = World(
            num_agents=2,
            num_landmarks=3,
            size=(0.075,) * 2 + (0.04,) * 3,
            movable=(False, True, False, False, False),
            collide=(False,) * 5,
            silent=(False, True),
            dim_c=3,
        )
        colors = [(0.25, 0.25, 0.25), (0.6, 0.6, 0.6), *LANDMARK_COLORS]
        super().__init__(
            world, ["speaker_0", "listener_0"], [3, 11], action_type, continuous_actions, max_steps, max_cycles, colors
        )

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"speaker": ["speaker_0"], "listener": ["listener_0"]}

    def _start(self, key: jax.Array) -> GoalState:
        return self._start_with_goal(key)

    def get_obs(self, state: GoalState) -> dict[str, jax.Array]:
        offsets = (state.p_pos[2:] - state.p_pos[1]).ravel()
        return {
            "speaker_0": physics.pick(jnp.array(LANDMARK_COLORS, jnp.float32), state.goal),
            "listener_0": jnp.concatenate([state.p_vel[1], offsets, state.c[0]]),
        }

    def rewards(self, state: GoalState) -> dict[str, jax.Array]:
        gap = physics.pick(state.p_pos[2:], state.goal) - state.p_pos[1]
        return {agent: -(gap[0] * gap[0] + gap[1] * gap[1]) for agent in self.agents}
