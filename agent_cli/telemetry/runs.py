"""`invoke_agent` spans: one for each prompt of an agent, open while a person decides."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Token
from typing import Final

from opentelemetry.context import (
    Context,
    attach,
    create_key,
    detach,
    get_current,
    get_value,
    set_value,
)
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.events import AgentEnd
from agent_cli.contracts.provider import Model
from agent_cli.contracts.side_events import CacheLost
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.system.records import dataclass
from agent_cli.telemetry import conventions

_RUN: Final = create_key("agent_cli.run")
_WAITS: Final = "waiting_for_approval"
_STOP_REASON: Final = "agent_cli.stop_reason"


@dataclass(slots=True)
class AgentRun:
    """A running prompt, with the usage of its own model calls so far."""

    span: Span
    context: Context
    token: Token[Context] | None = None
    usage: Usage = NO_USAGE
    has_model: bool = False
    error_type: str = ""

    def asked(self, model: Model) -> None:
        """Record that *model* is asked."""
        if not self.has_model:
            self.has_model = True
            self.span.set_attributes(
                {
                    conventions.PROVIDER: model.provider,
                    conventions.MODEL: conventions.plain(model.id),
                }
            )

    def lost(self, loss: CacheLost) -> None:
        """Record a loss of the prompt cache, as an event of the span."""
        attributes: dict[str, AttributeValue] = {
            "agent_cli.cache_lost.tokens": loss.tokens,
            "agent_cli.cache_lost.cause": conventions.plain(loss.cause),
            "agent_cli.cache_lost.announced": loss.was_announced,
        }
        if loss.cost_microdollars is not None:
            attributes["agent_cli.cache_lost.usd"] = in_usd(loss.cost_microdollars)
        self.span.add_event("agent_cli.cache_lost", attributes)


def current_run() -> AgentRun | None:
    """Return the run of the current task."""
    run = get_value(_RUN)
    return run if isinstance(run, AgentRun) else None


class RunSpans:
    """The spans of the agents of one session, by the id of their conversation."""

    def __init__(self, tracer: Tracer, parent: Context | None) -> None:
        """Open no span yet; *parent* is the trace for runs that start outside of any."""
        self._tracer = tracer
        self._parent = parent
        self._open: dict[str, AgentRun] = {}

    @property
    def parent_context(self) -> Context:
        """The parent context of new spans: the current trace, or else the given one."""
        return get_current() if is_traced() or self._parent is None else self._parent

    def begin(self, conversation_id: str, agent_name: str) -> None:
        """Open the span of an agent's run, or continue the one that waited for a decision."""
        run = self._open.get(conversation_id)
        if run is None:
            run = self._open[conversation_id] = self._new(conversation_id, agent_name)
        run.token = attach(run.context)

    def _new(self, conversation_id: str, agent_name: str) -> AgentRun:
        name, parent = conventions.plain(agent_name), self.parent_context
        attributes: dict[str, AttributeValue] = {
            conventions.OPERATION: "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": conversation_id,
            conventions.CONVERSATION: conversation_id,
        }
        span = self._tracer.start_span(
            f"invoke_agent {name}", parent, SpanKind.INTERNAL, attributes
        )
        run = AgentRun(span, parent)
        run.context = set_value(_RUN, run, set_span_in_context(span, parent))
        return run

    def end(self, conversation_id: str, event: AgentEnd) -> None:
        """Close the span of a run, unless it waits for a decision."""
        run = self._open.get(conversation_id)
        if run is None:
            return
        if run.token:
            detach(run.token)
            run.token = None
        if event.stop_reason != _WAITS:
            del self._open[conversation_id]
            _close(run, event.stop_reason)

    def close(self) -> None:
        """Close the spans of runs that still wait."""
        while self._open:
            _close(self._open.popitem()[1], _WAITS)


def _close(run: AgentRun, stop_reason: str) -> None:
    span, usage = run.span, run.usage
    span.set_attributes({**usage_attributes(usage), _STOP_REASON: conventions.plain(stop_reason)})
    if stop_reason == "error":
        span.set_attribute(conventions.ERROR, run.error_type or "error")
        span.set_status(StatusCode.ERROR)
    span.end()


def usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    """Return the attributes of token usage."""
    thinking = usage.thinking_tokens
    return {
        conventions.INPUT_TOKENS: usage.prompt_tokens,
        conventions.CACHE_READ_TOKENS: usage.cache_read_tokens,
        conventions.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        conventions.OUTPUT_TOKENS: usage.output_tokens,
        **({conventions.REASONING_TOKENS: thinking} if thinking else {}),
    }


# W3C trace context: the trace that a run is part of, and the one it passes on.

_W3C = TraceContextTextMapPropagator()


def context_of(headers: Mapping[str, str]) -> Context | None:
    """Return the trace in *headers*, `traceparent` and `tracestate`, or None."""
    context = _W3C.extract(headers, Context())
    return context if is_traced(context) else None


@contextmanager
def part_of_trace(headers: Mapping[str, str]) -> Generator[None]:
    """Make everything started in the body part of the trace in *headers*, if there is one."""
    context = context_of(headers)
    token = attach(context) if context else None
    try:
        yield
    finally:
        if token:
            detach(token)


def is_traced(context: Context | None = None) -> bool:
    """Return whether *context*, or the current one, is in a trace."""
    return get_current_span(context).get_span_context().is_valid


def current_variables() -> dict[str, str]:
    """Return environment variables that make a child process part of the current trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
