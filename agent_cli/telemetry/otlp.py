"""Send spans and metrics over OTLP/HTTP from the SDK's threads, without long waits.

If a collector is slow or gone, only queued data is lost.
"""

import asyncio
import logging
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from agent_cli.system.event_loop import in_background
from agent_cli.telemetry.target import Signal, Target
from agent_cli.version import __version__

# A span with content may have 200 kB, and collectors accept requests of some megabytes.
_SPANS_PER_REQUEST: Final = 32


class _Exporter(Protocol):
    def shutdown(self) -> None: ...


class _Link(requests.Session):
    """The connection to a collector; shutdown does not wait for one that is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.exporter: _Exporter | None = None
        self.is_down = False
        self._is_ending = False

    # Any: as in the base class.
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **options)
        except requests.ConnectionError:
            self.is_down = True
            self._give_up()
            raise
        self.is_down = False
        return response

    def end(self) -> None:
        """Allow one more attempt, without retries."""
        self._is_ending = True
        self._give_up()

    def _give_up(self) -> None:
        if self._is_ending and self.is_down and self.exporter:
            exporter, self.exporter = self.exporter, None
            exporter.shutdown()  # also ends a wait for the next attempt


class OtlpExport:
    """The SDK's providers with their exporters; `aclose` sends the queued data.

    Attributes:
        complaints: The SDK's warnings about standard variables it does not understand.
    """

    def __init__(self, target: Target) -> None:
        """Start the sending threads; nothing is sent yet.

        Raises:
            OSError, ValueError: A standard variable cannot be used, e.g. the path of a certificate.
        """
        self.links: list[_Link] = []
        self._providers: list[TracerProvider | MeterProvider] = []
        with _heard() as self.complaints:
            resource = _resource()
            self.tracer_provider = self._traces(target.traces, resource)
            self.meter_provider = self._metrics(target.metrics, resource)

    def _traces(self, signal: Signal | None, resource: Resource) -> AnyTracerProvider:
        if signal is None:
            return NoOpTracerProvider()
        link = self._link()
        exporter = OTLPSpanExporter(signal.url, headers=signal.headers, session=link)
        link.exporter = exporter
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(
            BatchSpanProcessor(exporter, max_export_batch_size=_SPANS_PER_REQUEST)
        )
        self._providers.append(provider)
        return provider

    def _metrics(self, signal: Signal | None, resource: Resource) -> AnyMeterProvider:
        if signal is None:
            return NoOpMeterProvider()
        link = self._link()
        exporter = OTLPMetricExporter(signal.url, headers=dict(signal.headers), session=link)
        link.exporter = exporter
        reader = PeriodicExportingMetricReader(exporter)
        provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._providers.append(provider)
        return provider

    def _link(self) -> _Link:
        link = _Link()
        self.links.append(link)
        return link

    async def aclose(self, limit_s: float) -> None:
        """Send queued data, for *limit_s* at most; the rest is lost."""
        closing = [in_background(each.shutdown) for each in self._providers]
        for link in self.links:
            link.end()
        if closing:
            await asyncio.wait(closing, timeout=limit_s)


@contextmanager
def _heard() -> Generator[list[str]]:
    """Yield a list that receives the SDK's log messages; no log file is open yet."""
    handler = _Listener()
    log = logging.getLogger("opentelemetry")
    log.addHandler(handler)
    try:
        yield handler.heard
    finally:
        log.removeHandler(handler)


class _Listener(logging.Handler):
    """Keeps each message once, without its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (message := record.getMessage()) not in self.heard:
            self.heard.append(message)


def _resource() -> Resource:
    """Return the sender: this program, unless the standard variables name another."""
    ours = {
        "service.name": "agent-cli",
        "service.version": __version__,
        # Two sessions of one process count separately.
        "service.instance.id": str(uuid.uuid4()),
    }
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes})
