"""A server's tools as ours: valid names, valid schemas, harmless descriptions."""

import json
from collections.abc import Iterable

import mcp_types

from agent_cli.cancel import CancelToken
from agent_cli.mcp_client.calls import Server, call_tool
from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.schemas import UnusableSchema, api_schema
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.timeline import Json
from agent_cli.tooling import Tool, ToolContext, ToolResult

_DESCRIPTION_BYTES_MAX = 2048
_LABEL_MAX = 60
_SUMMARY_MAX = 80


def wrap_tools(
    server: Server, tools: Iterable[mcp_types.Tool]
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Return *tools* as ours, and a sentence for each that had to be left out."""
    wrapped: list[Tool] = []
    notes: list[str] = []
    for tool in tools:
        if tool.execution and tool.execution.task_support == "required":
            notes.append(f"tool {tool.name} is left out: it only runs as a background task")
            continue
        try:
            wrapped.append(wrap_tool(server, tool))
        except UnusableSchema as error:
            notes.append(f"tool {tool.name} is left out: {error}")
    return tuple(wrapped), tuple(notes)


def wrap_tool(server: Server, tool: mcp_types.Tool) -> Tool:
    """Return *tool* as ours.

    Raises:
        UnusableSchema: The API would refuse its input schema.
    """
    hints = tool.annotations or mcp_types.ToolAnnotations()
    title = tool.title or hints.title or tool.name

    async def execute(
        _tool_call_id: str, params: dict[str, Json], cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        async with cancel.scope():
            return await call_tool(server, tool.name, params, on_update)

    return Tool(
        name=public_name(server.config.name, tool.name),
        label=printable(f"{server.config.name}: {title}")[:_LABEL_MAX],
        description=_description(tool.description or title),
        parameters=api_schema(tool.input_schema),
        execute=execute,
        changes=not hints.read_only_hint,
        # A call that reports progress may take longer than any fixed time: calls.py limits its
        # silence to the server's `call_timeout_s` instead.
        timeout_s=0,
        summary=_summary,
    )


def _description(text: str) -> str:
    """Return *text* without hidden characters, at most 2 KB of UTF-8."""
    data = printable(text, keep="\n\t").encode()
    if len(data) <= _DESCRIPTION_BYTES_MAX:
        return data.decode()
    mark = " …"
    cut = data[: _DESCRIPTION_BYTES_MAX - len(mark.encode())]
    return cut.decode(errors="ignore") + mark


def _summary(params: dict[str, Json]) -> str:
    text = json.dumps(params, ensure_ascii=False) if params else ""
    return text if len(text) <= _SUMMARY_MAX else text[: _SUMMARY_MAX - 1] + "…"
