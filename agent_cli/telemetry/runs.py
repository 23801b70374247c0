"""`invoke_agent` spans: one for each prompt of an agent, open while a person decides."""

from contextvars import Token
from dataclasses import dataclass
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
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.events import AgentEnd
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.telemetry import names
from agent_cli.telemetry.trace_context import is_traced

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
                {names.PROVIDER: model.provider, names.MODEL: names.plain(model.id)}
            )


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
        name, parent = names.plain(agent_name), self.parent_context
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": conversation_id,
            names.CONVERSATION: conversation_id,
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
    span.set_attributes({**usage_attributes(usage), _STOP_REASON: names.plain(stop_reason)})
    if stop_reason == "error":
        span.set_attribute(names.ERROR, run.error_type or "error")
        span.set_status(StatusCode.ERROR)
    span.end()


def usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    """Return the attributes of token usage."""
    return {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
    }
