"""MCP servers: read their configuration, run them, and offer their tools as ours.

Importing this package is cheap. The SDK (`mcp`, `httpx2`: 0.8 s, 50 MB) is imported by
`connection` and the modules below it (`transports`, `oauth`, `mended_messages`, `callbacks`,
`offering`, `calls`, `requests`, `content`, `reasons`), which `pool` imports in a thread when the
first server is to be connected.
"""

from typing import TYPE_CHECKING

from agent_cli.system.loading import lazy_names

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ConfigFile as ConfigFile
    from agent_cli.mcp_client.config import ServerConfig as ServerConfig
    from agent_cli.mcp_client.config import ServerProblem as ServerProblem
    from agent_cli.mcp_client.entries import read_config_file as read_config_file
    from agent_cli.mcp_client.entries import server_config as server_config
    from agent_cli.mcp_client.host import Elicitation as Elicitation
    from agent_cli.mcp_client.host import ElicitationAnswer as ElicitationAnswer
    from agent_cli.mcp_client.host import Host as Host
    from agent_cli.mcp_client.host import Sampled as Sampled
    from agent_cli.mcp_client.pool import McpServers as McpServers

_HOMES = {
    **dict.fromkeys(("ConfigFile", "ServerConfig", "ServerProblem"), "config"),
    **dict.fromkeys(("read_config_file", "server_config"), "entries"),
    **dict.fromkeys(("Elicitation", "ElicitationAnswer", "Host", "Sampled"), "host"),
    "McpServers": "pool",
}

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
]

__getattr__ = lazy_names(__name__, _HOMES)
