"""An OTLP/HTTP receiver on 127.0.0.1 that parses requests as a collector does."""

import gzip
import threading
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it arrived; ids are hexadecimal."""

    name: str
    id: str
    parent: str
    trace: str
    kind: int
    failed: bool
    attributes: Mapping[str, Any]
    started_ns: int
    ended_ns: int
    events: Sequence[str]


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric: a sum, or the count and sum of a histogram."""

    metric: str
    attributes: Mapping[str, Any]
    sum: float
    count: int


@dataclass(slots=True)
class Receiver:
    """The data received so far; a silent receiver answers once it is `released`."""

    port: int = 0
    spans: list[ReceivedSpan] = field(default_factory=list[ReceivedSpan])
    points: list[Point] = field(default_factory=list[Point])
    resources: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    paths: list[str] = field(default_factory=list[str])
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    bodies: list[bytes] = field(default_factory=list[bytes])
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables a user sets to send telemetry here."""
        return {
            "AGENT_CLI_TELEMETRY__ENABLED": "true",
            "AGENT_CLI_TELEMETRY__FLUSH_TIMEOUT_S": "60",  # the machine may be busy
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
        }

    def one(self, name: str) -> ReceivedSpan:
        """Return the only span of that name."""
        (found,) = self.named(name)
        return found

    def named(self, name: str) -> list[ReceivedSpan]:
        """Return the spans of that name in the order they began."""
        found = [span for span in self.spans if span.name == name]
        return sorted(found, key=lambda span: span.started_ns)

    def tree(self) -> list[Any]:
        """Return [name, children] of each span, in the order they began."""
        children: dict[str, list[ReceivedSpan]] = defaultdict(list)
        known = {span.id for span in self.spans}
        for span in sorted(self.spans, key=lambda span: span.started_ns):
            children[span.parent if span.parent in known else ""].append(span)

        def below(id: str) -> list[Any]:
            return [[span.name, *below(span.id)] for span in children[id]]

        return below("")

    def of_metric(self, name: str) -> list[Point]:
        """Return the points of a metric."""
        return [point for point in self.points if point.metric == name]

    def take(self, path: str, body: bytes) -> None:
        """Parse a request."""
        self.paths.append(path)
        self.bodies.append(body)
        if path.endswith("/v1/traces"):
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        else:
            self._take_points(ExportMetricsServiceRequest.FromString(body))

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self.spans.append(
                    ReceivedSpan(
                        span.name,
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.trace_id.hex(),
                        span.kind,
                        span.status.code == span.status.STATUS_CODE_ERROR,
                        _attributes(span.attributes),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        [event.name for event in span.events],
                    )
                )

    def _take_points(self, request: ExportMetricsServiceRequest) -> None:
        found = (
            metric
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        for metric in found:
            for sum in metric.sum.data_points:
                labels = _attributes(sum.attributes)
                value = sum.as_int if sum.HasField("as_int") else sum.as_double
                self.points.append(Point(metric.name, labels, value, 1))
            for each in metric.histogram.data_points:
                labels = _attributes(each.attributes)
                self.points.append(Point(metric.name, labels, each.sum, each.count))


def _attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def receiving(*, silent: bool = False) -> Generator[Receiver]:
    """Serve in a thread; a *silent* one accepts connections and answers once it is released."""
    receiver = Receiver()
    if not silent:
        receiver.released.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.headers.append({name.lower(): text for name, text in self.headers.items()})
            receiver.take(self.path, body)
            receiver.released.wait()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing: stderr belongs to the tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.released.set()
            server.shutdown()
            thread.join()
