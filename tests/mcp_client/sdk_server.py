"""A real MCP server, built with the SDK: `sdk_server.py stdio` or `sdk_server.py http|sse PORT`."""

import asyncio
import os
import signal
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import (
    EmbeddedResource,
    ResourceLink,
    TextResourceContents,
    ToolAnnotations,
)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8"
    "cf500f0003860180345a9b2a0000000049454e44ae426082"
)
server = MCPServer("fixture")


@server.tool(description="Add two numbers", annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    return a + b


@server.tool(structured_output=False)
def environment(name: str) -> str:
    return os.environ.get(name, "(not set)")


@server.tool()
def explode() -> str:
    raise ValueError("the fuse was lit")


@server.tool(structured_output=False)
def picture() -> Image:
    return Image(data=PIXEL, format="png")


@server.tool(structured_output=False)
def papers() -> list[ResourceLink | EmbeddedResource]:
    contents = TextResourceContents(uri="note://1", text="a note")
    return [
        ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt", description="A file"),
        EmbeddedResource(type="resource", resource=contents),
    ]


@server.tool(structured_output=False)
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, "counting")
        await asyncio.sleep(0.1)
    return "counted"


@server.tool(structured_output=False)
def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def main() -> None:
    match sys.argv[1:]:
        case ["stdio"]:
            print("fixture server on stdio", file=sys.stderr)
            server.run("stdio")
        case ["http", port]:
            server.run("streamable-http", host="127.0.0.1", port=int(port))
        case ["sse", port]:
            server.run("sse", host="127.0.0.1", port=int(port))
        case _:
            pass


if __name__ == "__main__":
    main()
