"""The MCP servers of `tests/mcp_client`, for commands that connect to one."""

from tests.mcp_client.conftest import http_server

__all__ = ["http_server"]
