"""Let the model read the resources of MCP servers, with two tools for all servers."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.late_models import BaseModel, Field
from agent_cli.contracts.servers import LIST_TOOL, READ_TOOL, ServerResource
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import UNVOUCHED

if TYPE_CHECKING:
    from agent_cli.mcp_client.pool import McpServers

_LIST_CHARS_MAX = 20_000
_ABOUT_CHARS_MAX = 160


class _ListInput(BaseModel):
    server: str = Field(default="", description="Only this server's")
    words: str = Field(default="", max_length=200, description="Only those with all these words")


class _ReadInput(BaseModel):
    server: str = Field(min_length=1, description="The server's name")
    uri: str = Field(min_length=1, max_length=4000, description="A template's {...} filled in")


def resource_tools(servers: "McpServers", present: Collection[str]) -> tuple[Tool, ...]:
    """Return the tools for the resources of the *servers* that are *present*."""

    async def list_them(
        _tool_call_id: str, params: _ListInput, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        words = params.words.lower().split()
        listed = [
            _line(each)
            for each in servers.resources()
            if each.server in present and params.server in ("", each.server)
        ]
        lines = [line for line in listed if all(word in line.lower() for word in words)]
        return ToolResult.of(_within(lines) or "No server lists such a resource.")

    async def read(
        _tool_call_id: str, params: _ReadInput, cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        try:
            if params.server not in present:
                raise ToolError(
                    f"No MCP server {params.server!r} has resources; there are:"
                    f" {', '.join(sorted(present))}."
                )
            requests = servers.requests(params.server)
        except UsageError as error:
            raise ToolError(str(error)) from error
        async with cancel.scope():
            blocks = await requests.read_resource(params.uri)
        return ToolResult(tuple(blocks) or (text_block("The resource is empty."),))

    return (
        Tool(
            name=LIST_TOOL,
            label="resources: List MCP resources",
            description="List the resources (files, records, pages) that MCP servers offer to read",
            parameters=_ListInput,
            execute=list_them,
            changes=False,
            summary=lambda params: " ".join(filter(None, (params.server, params.words))),
        ),
        Tool(
            name=READ_TOOL,
            label="resources: Read an MCP resource",
            description="Read a resource of an MCP server: one listed, or linked in a result",
            parameters=_ReadInput,
            execute=read,
            changes=False,
            # A server may do anything with an address, and the model chooses it.
            doubt=lambda _params: UNVOUCHED,
            timeout_s=0,
            subject=lambda params: f"{params.server}:{params.uri}",
            remembered=lambda params: f"{params.server}:*",
            summary=lambda params: f"{params.server}: {params.uri}",
        ),
    )


def _line(each: ServerResource) -> str:
    about = ", ".join(filter(None, (each.name, each.description, each.media_type)))
    kind = " (a template)" if each.is_template else ""
    return f"{each.server} {each.uri}{kind}: {' '.join(about.split())[:_ABOUT_CHARS_MAX]}"


def _within(lines: Sequence[str]) -> str:
    """Return *lines* up to the limit, and how many more there are."""
    kept: list[str] = []
    left = _LIST_CHARS_MAX
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            more = len(lines) - len(kept)
            return "\n".join([*kept, f"({more:,} more: name a server, or give words)"])
        kept.append(line)
    return "\n".join(kept)
