"""Multi-agent environments. Use `jaxmarl_lite.make(id)` to build one."""

from jaxmarl_lite.environments.multi_agent_env import MultiAgentEnv, State

__all__ = ["MultiAgentEnv", "State"]
