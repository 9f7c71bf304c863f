"""Simple crypto: Alice sends Bob one secret over a channel that Eve reads."""

import jax
import jax.numpy as jnp
from flax import struct

from jaxmarl_lite.environments.mpe.mpe import MPE, GoalState
from jaxmarl_lite.environments.mpe.world import World


@struct.dataclass
class CryptoState(GoalState):
    """`goal` is the secret; the private key is known to Alice and Bob."""

    private_key: jax.Array  # () int32, 0 or 1


class SimpleCryptoMPE(MPE):
    """`MPE_simple_crypto_v3`, equal to mpe2 1.1.1's `simple_crypto_v3`.

    Nobody moves; each agent says one of 4 words. Words and secrets are one-hot vectors (4,), and an error is the
    squared distance between the two. Eve's reward is minus her error; Alice's and Bob's is Eve's error minus
    Bob's. Who said nothing has no error. Observation of Eve (4,): Alice's message. Of Bob (8,): the private key,
    Alice's message. Of Alice (8,): the secret, the private key.

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
        world = World(3, 2, movable=(False,) * 5, collide=(False,) * 5, silent=(False,) * 3, dim_c=4)
        colors = [(0.75, 0.25, 0.25), (0.45, 0.45, 0.45), (0.25, 0.25, 0.25), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]
        super().__init__(
            world,
            ["eve_0", "bob_0", "alice_0"],
            [4, 8, 8],
            action_type,
            continuous_actions,
            max_steps,
            max_cycles,
            colors,
        )

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"eve": ["eve_0"], "bob": ["bob_0"], "alice": ["alice_0"]}

    def _start(self, key: jax.Array) -> CryptoState:
        key, key_secret = jax.random.split(key)
        private_key = jax.random.randint(key_secret, (), 0, 2, jnp.int32)
        return CryptoState(**vars(self._start_with_goal(key)), private_key=private_key)

    def get_obs(self, state: CryptoState) -> dict[str, jax.Array]:
        secret, private_key = (jax.nn.one_hot(i, 4, dtype=jnp.float32) for i in (state.goal, state.private_key))
        message = state.c[2]
        return {
            "eve_0": message,
            "bob_0": jnp.concatenate([private_key, message]),
            "alice_0": jnp.concatenate([secret, private_key]),
        }

    def rewards(self, state: CryptoState) -> dict[str, jax.Array]:
        secret = jax.nn.one_hot(state.goal, 4, dtype=jnp.float32)
        eve, bob = (jnp.where((word != 0).any(), jnp.square(word - secret).sum(), 0.0) for word in state.c[:2])
        return {"eve_0": -eve, "bob_0": eve - bob, "alice_0": eve - bob}
