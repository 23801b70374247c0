"""The destination of telemetry: OpenTelemetry's standard variables, or else our setting."""

import socket
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from agent_cli.contracts.errors import SettingsError
from agent_cli.system.records import dataclass, field

_PREFIX: Final = "OTEL_EXPORTER_OTLP"
_HTTP: Final = "http/protobuf"
PORTS: Final = {"http": 80, "https": 443}
_CONNECT_LIMIT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Signal:
    """The destination of spans or of metrics."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def shown(self) -> str:
        """The URL without a password, query or other parts that may hold secrets."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path}"

    def problem(self) -> str:
        """Return the reason the destination cannot be reached, or ""; blocks for a moment."""
        if getproxies().keys() - {"no"}:  # NO_PROXY alone is no proxy
            return ""  # behind a proxy a direct connection proves nothing
        parts = urlsplit(self.url)
        address = parts.hostname or "", parts.port or PORTS[parts.scheme]
        try:
            socket.create_connection(address, timeout=_CONNECT_LIMIT_S).close()
        except (OSError, UnicodeError) as error:  # UnicodeError: the host cannot be a name
            return f"nobody answers there ({error}); start the collector, or correct the address"
        return ""


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of each kind of data; None disables it."""

    traces: Signal | None
    metrics: Signal | None


def is_disabled(variables: Mapping[str, str]) -> bool:
    """Return whether OTEL_SDK_DISABLED turns everything off."""
    return variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def target(endpoint: str, variables: Mapping[str, str]) -> Target:
    """Return the destinations; *endpoint* is the setting, and *variables* override it.

    Raises:
        SettingsError: They name an unsupported protocol, exporter or URL.
    """
    return Target(_signal("TRACES", endpoint, variables), _signal("METRICS", endpoint, variables))


def _signal(
    kind: Literal["TRACES", "METRICS"], endpoint: str, variables: Mapping[str, str]
) -> Signal | None:
    exporter = variables.get(f"OTEL_{kind}_EXPORTER") or "otlp"
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise SettingsError(f'OTEL_{kind}_EXPORTER must be "otlp" or "none", not {exporter!r}')

    def setting(name: str) -> tuple[str, str]:
        own, common = f"{_PREFIX}_{kind}_{name}", f"{_PREFIX}_{name}"
        return (own, variables[own]) if variables.get(own) else (common, variables.get(common, ""))

    name, protocol = setting("PROTOCOL")
    if protocol not in ("", _HTTP):
        raise SettingsError(
            f'{name} must be "{_HTTP}", not {protocol!r}; give the address of an OTLP/HTTP'
            " receiver, which usually has the port 4318"
        )
    source, address = setting("ENDPOINT")
    if not address:
        source, address = "telemetry.endpoint", endpoint
    if source != f"{_PREFIX}_{kind}_ENDPOINT":
        address = f"{address.rstrip('/')}/v1/{kind.lower()}"
    _check_address(source, address)
    source, headers = setting("HEADERS")
    return Signal(address, _headers(source, headers))


def _check_address(source: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:  # not quoted, since it may hold a password
        raise SettingsError(
            f"{source} must be an address with http:// or https://, like http://localhost:4318"
        )


def _headers(source: str, text: str) -> dict[str, str]:
    """Read `name=value,name=value`, percent-encoded, as the OTLP specification defines it."""
    headers: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (unquote(part).strip() for part in pair.partition("="))
        if not (equals and name and name.isascii() and f"{name}{value}".isprintable()):
            raise SettingsError(f"{source} must be pairs like name=value, with commas between them")
        headers[name.lower()] = value
    return headers
