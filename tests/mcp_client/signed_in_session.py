"""A session with a signed-in server: prints "ready", and calls its tool for each line it reads."""

import asyncio
import json
import os
import sys
from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.credentials import FileCredentials
from agent_cli.mcp_client.host import Host


async def main(url: str, folder: str) -> None:
    """Serve until the end of stdin."""
    config = ServerConfig(name="web", transport="http", url=url, protocol="legacy")
    host = Host(credentials=FileCredentials(Path(folder)))
    async with McpServers(os.environ, host=host) as servers:
        # Connected at the first line, so that all processes begin with the same expired token.
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            if not servers.states():
                servers.start([config])
                await servers.wait_started()
            text = servers.states()[0].reason
            for tool in servers.tools():
                result = await tool.execute("1", {}, CancelToken(), ToolContext())
                assert isinstance(result, ToolResult)
                text = result.text
            print(json.dumps(text), flush=True)
            print("ready", flush=True)


asyncio.run(main(*sys.argv[1:]))
