"""`execute_tool` spans: each call from its start event to its end event."""

import time
from contextvars import Token
from dataclasses import dataclass
from typing import Final

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.events import ToolExecutionEnd, ToolExecutionStart
from agent_cli.telemetry import names
from agent_cli.telemetry.recorder import Recorder

_FAILED: Final = "tool_error"
_MCP: Final = "mcp__"


@dataclass(frozen=True, slots=True)
class _OpenCall:
    span: Span
    token: Token[Context]
    started_s: float


class ToolSpans:
    """The spans of running calls.

    A call's events come from the task that runs it, so its span is the current one for everything
    the tool does: commands, MCP servers and subagents are part of the same trace.
    """

    def __init__(self, recorder: Recorder) -> None:
        """Open no span yet; *recorder* records them."""
        self._recorder = recorder
        self._open: dict[tuple[str, str], _OpenCall] = {}

    def begin(self, conversation_id: str, event: ToolExecutionStart) -> None:
        """Open the span of a call."""
        name = names.plain(event.tool_name)
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: "execute_tool",
            names.TOOL: name,
            "gen_ai.tool.type": "extension" if name.startswith(_MCP) else "function",
            "gen_ai.tool.call.id": names.plain(event.tool_call_id),
            names.CONVERSATION: conversation_id,
        }
        if name.startswith(_MCP):
            attributes["mcp.method.name"] = "tools/call"
        if content := self._recorder.content:
            attributes["gen_ai.tool.call.arguments"] = content.json(event.args)
        span = self._recorder.tracer.start_span(
            f"execute_tool {name}", get_current(), SpanKind.INTERNAL, attributes
        )
        token = attach(set_span_in_context(span))
        key = conversation_id, event.tool_call_id
        self._open[key] = _OpenCall(span, token, time.monotonic())

    def end(self, conversation_id: str, event: ToolExecutionEnd) -> None:
        """Close the span of a call."""
        call = self._open.pop((conversation_id, event.tool_call_id), None)
        if call is None:
            return
        detach(call.token)
        attributes: dict[str, AttributeValue] = {names.TOOL: names.plain(event.tool_name)}
        if event.is_error:
            attributes[names.ERROR] = _FAILED
            call.span.set_attribute(names.ERROR, _FAILED)
            call.span.set_status(StatusCode.ERROR)
        if content := self._recorder.content:
            call.span.set_attribute("gen_ai.tool.call.result", content.blocks(event.result.content))
        call.span.end()
        elapsed_s = time.monotonic() - call.started_s
        self._recorder.instruments.tool_ended(attributes, elapsed_s)
