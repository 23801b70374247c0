"""W3C trace context: the trace that a run is part of, and the one it passes on."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

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
