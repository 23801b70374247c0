"""Real servers to connect to, and the steps that their tests share."""

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.config import TransportName
from agent_cli.mcp_client.credentials import FileCredentials
from agent_cli.mcp_client.host import Host
from tests import forked, waiting

HERE = Path(__file__).parent
SDK_SERVER = str(HERE / "sdk_server.py")
RAW_SERVER = str(HERE / "raw_server.py")
FREEZE_MAX_S = 1.0  # one check of a hostile schema takes 0.15 s, on a busy machine four times that


class RawServer(Protocol):
    """Return the configuration of a raw server; see raw_server.py for the options."""

    def __call__(
        self,
        options: dict[str, Json] | None = None,
        *,
        name: str = "raw",
        startup_timeout_s: float = 30.0,
        call_timeout_s: float = 30.0,
    ) -> ServerConfig: ...


class Call(Protocol):
    """Call a tool by its full name."""

    def __call__(
        self,
        servers: McpServers,
        tool: str,
        params: dict[str, Json] | None = None,
        *,
        cancel: CancelToken | None = None,
        updates: list[str] | None = None,
    ) -> Awaitable[ToolResult]: ...


class HttpServer:
    """A server built with the SDK on a separate port, which can be stopped and restarted."""

    def __init__(self, transport: TransportName, script: str = SDK_SERVER) -> None:
        self.transport: TransportName = transport
        self.script = script
        # Nobody else gets the port until the test is over; the server, which reuses it, does.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}/{'mcp' if self.transport == 'http' else 'sse'}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        self._process = forked.start_unheard(self.script, self.transport, str(self.port))
        waiting.wait_until(self._listens, "the HTTP server listens")

    def _listens(self) -> bool:
        assert self._process.poll() is None, "the HTTP server did not start"
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Let it hang while the body runs."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Kill it for good."""
        self.kill()
        self._reserved.close()


@pytest.fixture(params=["http"])
def http_server(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    with closing(HttpServer(request.param)) as server:
        yield server


@pytest.fixture
def raw_server() -> RawServer:
    def configure(
        options: dict[str, Json] | None = None,
        *,
        name: str = "raw",
        startup_timeout_s: float = 30.0,
        call_timeout_s: float = 30.0,
    ) -> ServerConfig:
        return ServerConfig(
            name=name,
            command=sys.executable,
            args=("-I", "-S", RAW_SERVER, json.dumps(options or {})),
            startup_timeout_s=startup_timeout_s,
            call_timeout_s=call_timeout_s,
        )

    return configure


@pytest.fixture
def sdk_server() -> ServerConfig:
    arguments = forked.arguments_of(SDK_SERVER, "stdio")
    return ServerConfig(name="fixture", command=sys.executable, args=tuple(arguments))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return one that keeps what sign-ins bring in files."""
    return Host(credentials=FileCredentials(tmp_path / "credentials"))


@pytest.fixture
def call() -> Call:
    async def call_tool(
        servers: McpServers,
        tool: str,
        params: dict[str, Json] | None = None,
        *,
        cancel: CancelToken | None = None,
        updates: list[str] | None = None,
    ) -> ToolResult:
        found = {each.name: each for each in servers.tools()}[tool]
        context = ToolContext(
            update=lambda partial: (updates if updates is not None else []).append(partial.text)
        )
        result = await found.execute("call-1", params or {}, cancel or CancelToken(), context)
        assert isinstance(result, ToolResult)
        return result

    return call_tool


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    return waiting.until


@asynccontextmanager
async def no_freeze() -> AsyncGenerator[None]:
    """Fail if the event loop is busy for long without a pause; other processes do not count."""
    longest_s, before_s = 0.0, time.thread_time()

    def measure() -> None:
        nonlocal longest_s, before_s
        now_s = time.thread_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.005)
            measure()

    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(beat())
        yield
        measure()
        beating.cancel()
    assert longest_s < FREEZE_MAX_S
