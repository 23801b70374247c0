"""W3C trace context in variables: the trace a process is part of, and the one it hands on."""

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_W3C = TraceContextTextMapPropagator()


def context_in(variables: Mapping[str, str]) -> Context | None:
    """Return the trace that TRACEPARENT and TRACESTATE name, or None."""
    names = ("traceparent", "tracestate")
    carrier = {name: variables[name.upper()] for name in names if name.upper() in variables}
    context = _W3C.extract(carrier, Context())
    return context if is_traced(context) else None


def is_traced(context: Context | None = None) -> bool:
    """Return whether *context*, or the current one, is in a trace."""
    return get_current_span(context).get_span_context().is_valid


def current_variables() -> dict[str, str]:
    """Return the variables that make a child process part of the current trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
