"""MCP servers: read their configuration, run them, and offer their tools as ours.

Importing this package is cheap. The SDK (`mcp`, `httpx2`: 0.8 s, 50 MB) is imported by
`connection` and what it stands on (`transports`, `oauth`, `seam`, `callbacks`, `listing`,
`offering`, `upkeep`, `tools`, `calls`, `requests`, `content`, `reasons`), and that is first
imported by `servers`, in a thread, when there is a server to connect to.
"""

from agent_cli.mcp_client.config import ConfigFile, ServerConfig, ServerProblem
from agent_cli.mcp_client.entries import read_config_file, server_config
from agent_cli.mcp_client.environment import server_environment
from agent_cli.mcp_client.host import Elicitation, ElicitationAnswer, Host, Sampled
from agent_cli.mcp_client.pool import McpServers

__all__ = [
    "ConfigFile",
    "Elicitation",
    "ElicitationAnswer",
    "Host",
    "McpServers",
    "Sampled",
    "ServerConfig",
    "ServerProblem",
    "read_config_file",
    "server_config",
    "server_environment",
]
