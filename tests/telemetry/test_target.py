"""The endpoint of telemetry: the standard variables, the setting, the default."""

import socket

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.telemetry.target import Signal, Target, is_disabled, target
from tests.tables import each_row

MINE = "http://mine:1"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def both(base: str) -> Target:
    return Target(Signal(f"{base}/v1/traces"), Signal(f"{base}/v1/metrics"))


@each_row(
    ("setting", "variables", "expected"),
    [
        ("http://mine:1/", {}, both("http://mine:1")),
        ("http://mine:1", {ENDPOINT: "https://env/otlp/"}, both("https://env/otlp")),
        ("http://mine:1", {ENDPOINT: ""}, both("http://mine:1")),
        (
            "http://mine:1",
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/as/it/is"},
            Target(Signal("http://t/as/it/is"), Signal("http://mine:1/v1/metrics")),
        ),
        (
            "http://mine:1",
            {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            Target(None, Signal("http://mine:1/v1/metrics")),
        ),
    ],
)
def test_otel_variables_override_the_endpoint_setting(
    setting: str, variables: dict[str, str], expected: Target
) -> None:
    assert target(setting, variables) == expected


def test_otlp_headers_are_parsed_as_specified() -> None:
    """The pairs are percent-encoded; those of one signal replace the common ones."""
    found = target(
        MINE,
        {HEADERS: "X-Key = a%20b ,other=1%3D2", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "m=1"},
    )

    assert found.traces and found.metrics
    assert found.traces.headers == {"x-key": "a b", "other": "1=2"}
    assert found.metrics.headers == {"m": "1"}


@each_row(
    ("setting", "variables", "named"),
    [
        ("localhost:4318", {}, "telemetry.endpoint"),
        (MINE, {ENDPOINT: "grpc://collector:4317"}, ENDPOINT),
        (MINE, {ENDPOINT: "http://[::1"}, ENDPOINT),
        (MINE, {ENDPOINT: "http://me:canary@host:bad"}, ENDPOINT),
        (MINE, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        (MINE, {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, "OTLP_METRICS_PROTOCOL"),
        (MINE, {"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER"),
        (MINE, {HEADERS: "canary"}, HEADERS),
        (MINE, {HEADERS: "x=a%0d%0acanary"}, HEADERS),
    ],
)
def test_invalid_telemetry_setting_is_named_without_quoting_secrets(
    setting: str, variables: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named) as raised:
        target(setting, variables)

    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(("said", "disabled"), [("true", True), ("TRUE", True), ("1", False)])
def test_otel_sdk_disabled_turns_telemetry_off(said: str, disabled: bool) -> None:
    """The specification knows "true" only."""
    assert is_disabled({"OTEL_SDK_DISABLED": said}) is disabled


def test_telemetry_endpoint_is_shown_without_its_password() -> None:
    signal = Signal("https://me:secret@[::1]:4318/v1/traces?key=secret", {"x": "secret"})

    assert signal.shown == "https://[::1]:4318/v1/traces"
    assert "secret" not in repr(signal.headers and signal).replace(signal.url, "")


def test_telemetry_host_that_cannot_be_a_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket raises UnicodeError for it, not OSError."""

    def connect(address: tuple[str, int], **_limit: float) -> None:
        address[0].encode("idna")

    monkeypatch.setattr(socket, "create_connection", connect)

    assert Signal("http://a..b:4318").problem().startswith("nobody answers there (")


def test_without_a_proxy_the_destination_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NO_PROXY` alone names none, and many machines set it."""
    nobody = Signal("http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "localhost")
    direct = nobody.problem()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")

    assert direct.startswith("nobody answers there (")
    assert nobody.problem() == ""
