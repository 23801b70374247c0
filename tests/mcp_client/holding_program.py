"""A program with one server, whose command its arguments are, that runs until it is ended."""

import asyncio
import os
import sys

from agent_cli.mcp_client import McpServers, ServerConfig


async def main() -> None:
    async with McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="raw", command=sys.argv[1], args=tuple(sys.argv[2:]))])
        await servers.wait_started(60)
        print(servers.states()[0].phase, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
