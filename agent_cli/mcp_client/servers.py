"""All MCP servers of the program: started in the background, closed together."""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.state import NORMAL_RESTARTS, Phase, RestartPolicy, ServerState
from agent_cli.tooling import Tool

if TYPE_CHECKING:
    from agent_cli.mcp_client.connection import ServerConnection

_CLOSE_LIMIT_S = 8.0


def _ignore(_state: ServerState) -> None:
    """Take no notice of a change."""


class McpServers:
    """The servers and their tools; nothing it started is left when the context is closed.

        async with McpServers(os.environ, on_change=show) as servers:
            servers.start(configs)
            ...
            tools = servers.tools()

    Starting never waits and never raises: a server that cannot be connected to ends in the phase
    `failed`, whose `reason` is the one sentence to show. Without a server to start, the SDK is
    not imported.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        on_change: Callable[[ServerState], None] = _ignore,
        restarts: RestartPolicy = NORMAL_RESTARTS,
    ) -> None:
        """Prepare.

        Args:
            environment: Inherited by stdio servers, without what is ours.
            on_change: Called in the event loop at each change of a server's state; must not raise.
            restarts: How often a server that died is started again.
        """
        self._environment = dict(environment)
        self._on_change = on_change
        self._restarts = restarts
        self._states: dict[str, ServerState] = {}
        self._connections: list[ServerConnection] = []
        self._loaders: list[asyncio.Task[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> "McpServers":
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        finally:
            # Not told of the body's error, which it would wrap in a group; no task is left.
            await self._group.__aexit__(None, None, None)

    def start(self, configs: Iterable[ServerConfig]) -> None:
        """Connect to the enabled ones of *configs*, all at once, in the background.

        Of two with the same name, the first counts, here and over several calls.
        """
        wanted: list[ServerConfig] = []
        for config in configs:
            if config.name in self._states:
                continue
            if config.enabled:
                wanted.append(config)
            self._show(
                ServerState(config.name, Phase.CONNECTING if config.enabled else Phase.DISABLED)
            )
        if wanted:
            self._loaders.append(self._group.create_task(self._load_and_connect(wanted)))

    def states(self) -> tuple[ServerState, ...]:
        """Return the state of every server, in the order they were given."""
        return tuple(self._states.values())

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of all servers that are or were ready, sorted by name.

        The tools of a server that died stay: taking them away would cost the prompt cache, and a
        call says what happened.
        """
        by_name: dict[str, Tool] = {}
        for connection in self._connections:
            for tool in connection.tools:
                by_name.setdefault(tool.name, tool)
        return tuple(by_name[name] for name in sorted(by_name))

    async def wait_started(self, timeout_s: float) -> bool:
        """Wait until no server is on its way up; return False when the time was not enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._loaders:
                    await asyncio.wait(self._loaders)
                for connection in self._connections:
                    await connection.settled.wait()
                return True
        return False

    async def close(self, limit_s: float = _CLOSE_LIMIT_S) -> None:
        """Close all servers at the same time; what is not closed within the limit is cancelled."""
        for loader in self._loaders:
            loader.cancel()
        for connection in self._connections:
            connection.stop()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=limit_s)
            for task in unfinished:
                task.cancel()

    async def _load_and_connect(self, configs: list[ServerConfig]) -> None:
        try:
            connection_type = await asyncio.to_thread(_load_sdk)
        except ImportError as error:
            for config in configs:
                reason = f"MCP server '{config.name}' did not start: the SDK is missing ({error})"
                self._show(ServerState(config.name, Phase.FAILED, reason))
            return
        for config in configs:
            connection = connection_type(
                config, self._environment, on_change=self._show, restarts=self._restarts
            )
            self._connections.append(connection)
            self._tasks.append(self._group.create_task(connection.run()))

    def _show(self, state: ServerState) -> None:
        self._states[state.name] = state
        self._on_change(state)


def _load_sdk() -> "type[ServerConnection]":
    """Import the SDK: 0.8 s, so in a thread, and only when there is a server."""
    was_enabled = gc.isenabled()
    # Imports make tens of thousands of objects that stay; collecting among them stalls typing.
    gc.disable()
    try:
        from agent_cli.mcp_client.connection import ServerConnection  # noqa: PLC0415
    finally:
        if was_enabled:
            gc.enable()
    return ServerConnection
