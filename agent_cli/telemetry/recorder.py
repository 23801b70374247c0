"""The tools to record spans: one set for each session."""

from dataclasses import dataclass

from opentelemetry.trace import Tracer

from agent_cli.telemetry.content import Content
from agent_cli.telemetry.instruments import Instruments


@dataclass(frozen=True, slots=True)
class Recorder:
    """A tracer and the metrics; `content` serialises message texts, None leaves them out."""

    tracer: Tracer
    instruments: Instruments
    content: Content | None = None
