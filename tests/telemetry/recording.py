"""Agents whose spans and metrics stay in memory, for tests without a receiver."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.telemetry.agent_telemetry import AgentTelemetry
from tests.fakes import MODEL, ScriptedModel, Step


@dataclass
class Recording:
    """Providers that keep all records; `telemetry(...)` records into them."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meter_provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def telemetry(self, **options: Any) -> AgentTelemetry:  # Any: those of the class
        return AgentTelemetry(self.tracer_provider, self.meter_provider, **options)

    def agent(
        self,
        *script: Step,
        tools: Sequence[Tool] = (),
        options: LoopConfig | None = None,
        telemetry: AgentTelemetry | None = None,
    ) -> Agent:
        """Return an agent on a script that is recorded."""
        telemetry = telemetry or self.telemetry()
        model = ScriptedModel(*script)
        config = replace(options or LoopConfig(), model=MODEL, stream_fn=model, tools=tools)
        agent = Agent(telemetry.around(config))
        telemetry.follow(agent)
        return agent

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the ended spans, in the order they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def attributes(self, name: str) -> dict[str, Any]:
        """Return the attributes of the only span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return dict(span.attributes or {})

    def points(self, metric: str) -> list[tuple[dict[str, Any], float]]:
        """Return the attributes and the sum of each point of a metric."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), _number(point))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]


def _number(point: Any) -> float:  # Any: each kind of metric has its own
    return float(point.sum if isinstance(point, HistogramDataPoint) else point.value)
