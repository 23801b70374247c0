"""The server over streamable HTTP: on loopback, behind a token, until a signal arrives.

The SDK implements the protocol; this module adds limits, the token and an orderly shutdown.
"""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from signal import Signals
from typing import Final

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from agent_cli.contracts.errors import UsageError
from agent_cli.mcp_server.gate import Presence, TokenGate
from agent_cli.system import stop_signals

PATH: Final = "/mcp"
_HOST: Final = "127.0.0.1"
_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
_SESSIONS_MAX: Final = 64
# For sessions without an open stream: a crashed client leaves one behind.
_SESSION_IDLE_S: Final = 600.0
_CONNECTIONS_MAX: Final = 256
_END_LIMIT_S: Final = 5


def listen(port: int) -> socket.socket:
    """Return a listening socket on loopback; port 0 takes a free port.

    Raises:
        UsageError: The port is not available.
    """
    try:
        return socket.create_server((_HOST, port), backlog=_CONNECTIONS_MAX)
    except OSError as error:
        raise UsageError(
            f"--port {port}: {error.strerror}; choose another, or leave it out for a free one"
        ) from error


def address_of(listener: socket.socket) -> str:
    """Return the URL for clients."""
    return f"http://{_HOST}:{_port_of(listener)}{PATH}"


async def serve_http(server: MCPServer, listener: socket.socket, token: str) -> int:
    """Serve until a signal arrives, end the runs, and return the exit code."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_BODY_BYTES_MAX,
        session_idle_timeout=_SESSION_IDLE_S,
        max_sessions=_SESSIONS_MAX,
        transport_security=_own_names_only(_port_of(listener)),
    )
    presence = Presence(app)
    config = uvicorn.Config(
        TokenGate(presence, token),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_graceful_shutdown=_END_LIMIT_S,
    )
    http = _HttpServer(config)
    signals: list[Signals] = []

    def stop(number: Signals) -> None:
        signals.append(number)
        http.should_exit = True
        presence.end()

    with stop_signals.taken(stop):
        await http.serve(sockets=[listener])
    return stop_signals.exit_code_of(signals[0]) if signals else 0


class _HttpServer(uvicorn.Server):
    """A server that leaves the signals to this program."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _own_names_only(port: int) -> TransportSecuritySettings:
    """Return the host check against DNS rebinding: web pages whose name resolves to loopback."""
    hosts = [f"{name}:{port}" for name in (_HOST, "localhost")]
    return TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )


def _port_of(listener: socket.socket) -> int:
    _host, port = listener.getsockname()
    assert isinstance(port, int)
    return port
