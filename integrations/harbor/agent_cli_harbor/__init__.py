"""agent-cli as an agent of Harbor: `harbor run -a agent_cli_harbor:AgentCli`."""

from agent_cli_harbor.agent import AgentCli, AgentCliOptions

__all__ = ["AgentCli", "AgentCliOptions"]
