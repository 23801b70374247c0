"""`chat` spans, from a request to its reply with all retries; `execute_tool` spans."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import Token
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.events import ToolExecutionEnd, ToolExecutionStart
from agent_cli.contracts.provider import (
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Usage
from agent_cli.system.records import dataclass
from agent_cli.telemetry import conventions
from agent_cli.telemetry.conventions import Content, Instruments
from agent_cli.telemetry.runs import AgentRun, current_run, usage_attributes
from agent_cli.telemetry.target import PORTS


@dataclass(frozen=True, slots=True)
class Recorder:
    """A tracer and the metrics; `content` serialises message texts, None leaves them out."""

    tracer: Tracer
    instruments: Instruments
    content: Content | None = None


class ChatSpans:
    """Wraps a provider's stream function in spans."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        parent_context: Callable[[], Context],
        price: Price,
        server: str,
    ) -> None:
        """Open no span yet.

        Args:
            recorder: Records spans and metrics.
            parent_context: Returns the parent context for a call that starts now.
            price: Prices the tokens of a model.
            server: The URL of the model's API, or "".
        """
        self._recorder = recorder
        self._parent_context = parent_context
        self._price = price
        self._server = _server_attributes(server)

    def around(self, ask: StreamFn) -> StreamFn:
        """Return *ask* with a span around each call."""

        async def stream(request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
            chat = self._begin(request)
            try:
                async with aclosing(closable(ask(request))) as events:
                    async for event in events:
                        chat.note(event)
                        yield event
            except BaseException as error:
                chat.failed(error)
                raise
            finally:
                chat.end()

        return stream

    def _begin(self, request: ModelRequest) -> "_Chat":
        run = current_run()
        if run:
            run.asked(request.model)
        # The metrics have these labels too.
        model = conventions.plain(request.model.id)
        labels: dict[str, AttributeValue] = {
            conventions.OPERATION: "chat",
            conventions.PROVIDER: request.model.provider,
            conventions.MODEL: model,
            **self._server,
        }
        span = self._recorder.tracer.start_span(
            f"chat {model}",
            self._parent_context(),
            SpanKind.CLIENT,
            {**labels, **_request_attributes(request, self._recorder.content)},
        )
        return _Chat(self._recorder, span, labels, run, self._price, request.model.id)


class _Chat:
    """The span of one model call."""

    def __init__(
        self,
        recorder: Recorder,
        span: Span,
        labels: dict[str, AttributeValue],
        run: AgentRun | None,
        price: Price,
        model_id: str,
    ) -> None:
        self._recorder = recorder
        self._span = span
        self._labels = labels
        self._run = run
        self._price = price
        self._model_id = model_id
        self._started_s = time.monotonic()
        self._is_first = True
        self._replied = False

    def note(self, event: StreamEvent) -> None:
        """Record *event*."""
        match event:
            case Retrying():
                self._is_first = True
                self._span.set_attribute("http.request.resend_count", event.attempt)
                self._span.add_event(
                    "agent_cli.retry",
                    {
                        "agent_cli.retry.attempt": event.attempt,
                        "agent_cli.retry.wait": event.wait_s,
                    },
                )
            case ReplyEnd():
                self._note_reply(event.reply)
            case _ if self._is_first and not isinstance(event, ReplyStart):
                self._is_first = False
                elapsed_s = time.monotonic() - self._started_s
                self._span.set_attribute("gen_ai.response.time_to_first_chunk", elapsed_s)
            case _:
                pass

    def _note_reply(self, reply: Reply) -> None:
        self._replied = True
        model = conventions.plain(reply.model)
        self._labels["gen_ai.response.model"] = model
        attributes: dict[str, AttributeValue] = {
            "gen_ai.response.id": conventions.plain(reply.id),
            "gen_ai.response.model": model,
            "gen_ai.response.finish_reasons": [conventions.plain(reply.stop_reason)],
            **usage_attributes(reply.usage),
        }
        if reply.request_id:
            attributes["anthropic.request.id"] = conventions.plain(reply.request_id)
        if self._recorder.content:
            attributes["gen_ai.output.messages"] = self._recorder.content.reply(reply)
        self._span.set_attributes(attributes)
        if self._run:
            self._run.usage += reply.billed
        used = self._recorder.instruments.used
        # A server's name of the requested model may be one that no price is known for.
        answered = reply.model if reply.declined else self._model_id
        used(self._labels, reply.usage, self._cost(answered, reply.usage))
        for each in reply.beside:
            labels = {**self._labels, "gen_ai.response.model": conventions.plain(each.model)}
            used(labels, each.usage, self._cost(each.model, each.usage))

    def _cost(self, model: str, usage: Usage) -> int | None:
        return usage.cost_microdollars or self._price(model, usage)

    def failed(self, error: BaseException) -> None:
        """Record the failure of the call; after a complete reply there is none."""
        if self._replied:
            return
        kind = conventions.error_type(error)
        self._labels[conventions.ERROR] = kind
        self._span.set_attribute(conventions.ERROR, kind)
        if kind == conventions.CANCELLED:
            return
        self._span.set_status(StatusCode.ERROR)
        if self._run:
            self._run.error_type = kind

    def end(self) -> None:
        """Close the span."""
        self._span.end()
        elapsed_s = time.monotonic() - self._started_s
        self._recorder.instruments.chat_ended(self._labels, elapsed_s)


def _request_attributes(
    request: ModelRequest, content: Content | None
) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.stream": True,
    }
    if request.session_id:
        attributes[conventions.CONVERSATION] = request.session_id
    if request.temperature is not None:
        attributes["gen_ai.request.temperature"] = request.temperature
    if request.thinking_level:
        attributes["gen_ai.request.reasoning.level"] = request.thinking_level
    if content:
        attributes["gen_ai.input.messages"] = content.messages(request.messages)
        attributes["gen_ai.system_instructions"] = content.instructions(request.system)
        attributes["gen_ai.tool.definitions"] = content.tools(request.tools)
    return attributes


def _server_attributes(server: str) -> dict[str, AttributeValue]:
    try:
        address = urlsplit(server)
        host, port = address.hostname, address.port or PORTS.get(address.scheme)
    except ValueError:  # the request itself will fail with a clear error
        return {}
    return {"server.address": host, "server.port": port} if host and port else {}


_FAILED: Final = "tool_error"


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
        self._attempted_ns: dict[tuple[str, str], int] = {}

    def attempted(self, conversation_id: str, call_id: str) -> None:
        """Note that the work of a call begins with an attempt, before its span."""
        self._attempted_ns[conversation_id, call_id] = time.time_ns()

    def asked(self, conversation_id: str, call_id: str) -> None:
        """Forget an attempt without a result: the time until the answer is the person's."""
        self._attempted_ns.pop((conversation_id, call_id), None)

    def begin(self, conversation_id: str, event: ToolExecutionStart) -> None:
        """Open the span of a call."""
        name = conventions.plain(event.tool_name)
        attributes: dict[str, AttributeValue] = {
            conventions.OPERATION: "execute_tool",
            conventions.TOOL: name,
            "gen_ai.tool.type": "extension" if name.startswith(OF_SERVERS) else "function",
            "gen_ai.tool.call.id": conventions.plain(event.tool_call_id),
            conventions.CONVERSATION: conversation_id,
        }
        if name.startswith(OF_SERVERS):
            attributes["mcp.method.name"] = "tools/call"
        if content := self._recorder.content:
            attributes["gen_ai.tool.call.arguments"] = content.json(event.args)
        key, now_ns = (conversation_id, event.tool_call_id), time.time_ns()
        since_ns = self._attempted_ns.pop(key, now_ns)
        span = self._recorder.tracer.start_span(
            f"execute_tool {name}",
            get_current(),
            SpanKind.INTERNAL,
            attributes,
            start_time=since_ns,
        )
        token = attach(set_span_in_context(span))
        worked_s = max(now_ns - since_ns, 0) / 1e9
        self._open[key] = _OpenCall(span, token, time.monotonic() - worked_s)

    def end(self, conversation_id: str, event: ToolExecutionEnd) -> None:
        """Close the span of a call."""
        call = self._open.pop((conversation_id, event.tool_call_id), None)
        if call is None:
            return
        detach(call.token)
        attributes: dict[str, AttributeValue] = {
            conventions.TOOL: conventions.plain(event.tool_name)
        }
        if event.is_error:
            attributes[conventions.ERROR] = _FAILED
            call.span.set_attribute(conventions.ERROR, _FAILED)
            call.span.set_status(StatusCode.ERROR)
        if content := self._recorder.content:
            call.span.set_attribute("gen_ai.tool.call.result", content.blocks(event.result.content))
        call.span.end()
        elapsed_s = time.monotonic() - call.started_s
        self._recorder.instruments.tool_ended(attributes, elapsed_s)
