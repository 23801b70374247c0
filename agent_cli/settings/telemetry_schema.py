"""The settings of OpenTelemetry. A project's files choose none of them."""

from typing import Annotated, NamedTuple

from agent_cli.settings.rules import flag, number, text


class TelemetrySettings(NamedTuple):
    """Whether spans and metrics are sent, where to, and whether with what was said.

    At the end of a session the rest is sent for `flush_timeout_s` at most.

    The standard variables win: OTEL_EXPORTER_OTLP_ENDPOINT and its kin, OTEL_SDK_DISABLED.
    """

    enabled: Annotated[bool, flag()._replace(user_only=True)] = False
    endpoint: Annotated[
        str, text("the address of an OTLP/HTTP receiver")._replace(user_only=True)
    ] = "http://localhost:4318"
    content: Annotated[bool, flag()._replace(user_only=True)] = False
    flush_timeout_s: Annotated[float, number(0, 60, "seconds")._replace(user_only=True)] = 2
