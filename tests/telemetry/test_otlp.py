"""The exporter: its requests, and no waiting for a collector that does not answer."""

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from agent_cli.telemetry.otlp import OtlpExport
from agent_cli.telemetry.target import target
from tests.fakes import LIMIT_S
from tests.telemetry.receiver import receiving
from tests.waiting import wait_until

NEVER_S = 1_000.0


@contextmanager
def closed_port() -> Generator[int]:
    """Yield a port without a server, reserved from others."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def export_to(port: int, **variables: str) -> OtlpExport:
    return OtlpExport(target(f"http://127.0.0.1:{port}", variables))


def record(export: OtlpExport, spans: int = 1) -> None:
    tracer = export.tracer_provider.get_tracer("test")
    for number in range(spans):
        tracer.start_span(f"span {number}").end()
    export.meter_provider.get_meter("test").create_counter("count").add(1)


def refused_by(export: OtlpExport) -> bool:
    return any(link.is_down for link in export.links)


async def test_queued_spans_and_metrics_are_sent_on_close() -> None:
    """They fill more than one batch, and have the configured headers."""
    with receiving() as receiver:
        export = export_to(receiver.port, OTEL_EXPORTER_OTLP_HEADERS="x-key=k")
        record(export, spans=100)
        await export.aclose(NEVER_S)

    assert len(receiver.spans) == 100
    assert [point.metric for point in receiver.points] == ["count"]
    assert {headers["x-key"] for headers in receiver.headers} == {"k"}


async def test_resource_attributes_come_from_the_standard_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=tools,service.name=theirs")
    with receiving() as receiver:
        export = export_to(receiver.port)
        record(export)
        await export.aclose(NEVER_S)

    assert receiver.resources[0]["team"] == "tools"
    assert receiver.resources[0]["service.name"] == "theirs"
    assert receiver.resources[0]["service.version"]


async def test_close_does_not_wait_for_an_unreachable_collector() -> None:
    """A refused connection is tried once, not until the limit."""
    with closed_port() as port:
        export = export_to(port)
        record(export)
        async with asyncio.timeout(NEVER_S / 10):
            await export.aclose(NEVER_S)


async def test_close_does_not_wait_for_a_collector_lost_during_the_run() -> None:
    """The SDK may be waiting for its next attempt at that moment."""
    with closed_port() as port:
        export = export_to(port)
        record(export, spans=40)  # more than a batch: the thread sends at once
        await asyncio.to_thread(wait_until, lambda: refused_by(export), "a refused connection")
        async with asyncio.timeout(NEVER_S / 10):
            await export.aclose(NEVER_S)


async def test_close_stops_waiting_for_a_silent_collector_at_the_limit() -> None:
    with receiving(silent=True) as receiver:
        export = export_to(receiver.port)
        record(export)
        async with asyncio.timeout(LIMIT_S):
            await export.aclose(0.05)
        assert not receiver.released.is_set()


async def test_disabled_telemetry_signal_starts_no_thread() -> None:
    before = {*threading.enumerate()}
    export = export_to(1, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")
    record(export)

    await export.aclose(NEVER_S)

    # Threads of the oldest SDK and of earlier tests end by themselves.
    wait_until(lambda: {*threading.enumerate()} <= before, "the end of all new threads")
