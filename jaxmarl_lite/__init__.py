"""jaxmarl_lite: multi-agent reinforcement learning environments and baselines in JAX."""

from jaxmarl_lite.registration import make, register, registered_envs

__all__ = ["make", "register", "registered_envs"]
__version__ = "0.1.0"
