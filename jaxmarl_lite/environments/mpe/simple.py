"""Simple: one agent moves to one landmark."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe.mpe import MPE, State
from jaxmarl_lite.environments.mpe.world import World


class SimpleMPE(MPE):
    """`MPE_simple_v3`, equal to mpe2 1.1.1's `simple_v3`.

    Observation (4,): own velocity, offset to the landmark. Reward: minus the squared distance to it.

    Args:
        action_type: "Discrete" (5 moves) or "Continuous" ((5,) in [0, 1]); mpe2's `continuous_actions` works too.
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
        world = World(num_agents=1, num_landmarks=1, collide=(False, False))
        colors = [(0.25, 0.25, 0.25), (0.75, 0.25, 0.25)]
        super().__init__(world, ["agent_0"], [4], action_type, continuous_actions, max_steps, max_cycles, colors)

    def get_obs(self, state: State) -> dict[str, jax.Array]:
        return {"agent_0": jnp.concatenate([state.p_vel[0], state.p_pos[1] - state.p_pos[0]])}

    def rewards(self, state: State) -> dict[str, jax.Array]:
        return {"agent_0": -jnp.square(state.p_pos[0] - state.p_pos[1]).sum()}
