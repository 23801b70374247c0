"""The MCP servers of `tests/mcp_client`, for the commands that talk to one."""

from tests.mcp_client.conftest import http_server

__all__ = ["http_server"]
