"""The settings of OpenTelemetry. A project's files cannot set them."""

from typing import Annotated, NamedTuple

from agent_cli.settings.rules import flag, number, text


class TelemetrySettings(NamedTuple):
    """Export of spans and metrics: whether, where to, and whether with message texts.

    The end of a session waits at most `flush_timeout_s` for the last export.

    The standard variables win: OTEL_EXPORTER_OTLP_ENDPOINT and its kin, OTEL_SDK_DISABLED.
    """

    enabled: Annotated[bool, flag()._replace(user_only=True)] = False
    endpoint: Annotated[
        str, text("the address of an OTLP/HTTP receiver")._replace(user_only=True)
    ] = "http://localhost:4318"
    content: Annotated[bool, flag()._replace(user_only=True)] = False
    flush_timeout_s: Annotated[float, number(0, 60, "seconds")._replace(user_only=True)] = 2
