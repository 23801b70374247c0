"""All MCP servers of the program: started in the background, closed together."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.mcp_client.catalogue import PromptInfo, ResourceInfo
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.host import Host, Visit
from agent_cli.mcp_client.state import NORMAL_RESTARTS, Phase, RestartPolicy, ServerState
from agent_cli.system.importing import load

if TYPE_CHECKING:
    from agent_cli.mcp_client.connection import ServerConnection
    from agent_cli.mcp_client.requests import Requests

_CLOSE_LIMIT_S = 8.0


def _check_web(config: ServerConfig) -> None:
    if config.transport == "stdio":
        raise UsageError(f"MCP server '{config.name}' runs on this machine: nothing to sign in to")


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
        host: Host | None = None,
    ) -> None:
        """Prepare.

        Args:
            environment: Inherited by stdio servers, without what is ours.
            on_change: Called in the event loop at each change of a server's state; must not raise.
            restarts: How often a server that died is started again.
            host: Who answers servers; by default nobody, and every question is declined.
        """
        self._environment = dict(environment)
        self._on_change = on_change
        self._restarts = restarts
        self._host = host or Host()
        self._states: dict[str, ServerState] = {}
        self._connections: dict[str, ServerConnection] = {}
        self._loaders: list[asyncio.Task[None]] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self._signing_in = asyncio.Lock()

    async def __aenter__(self) -> "McpServers":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_failure: object) -> None:
        try:
            await self.close()
        finally:
            # Not told of the body's failure, which it would wrap in a group; no task is left.
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

    def tools(self, present: Collection[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools of all servers that are or were ready, sorted by name.

        The tools of a server that died stay: taking them away would cost the prompt cache, and a
        call says what happened.

        Args:
            present: Names of servers; the tools of the others are left out.
        """
        by_name: dict[str, Tool] = {}
        for name, connection in self._connections.items():
            if present is None or name in present:
                for tool in connection.offering.wrapped.tools:
                    by_name.setdefault(tool.name, tool)
        return tuple(by_name[name] for name in sorted(by_name))

    def always_loaded(self) -> frozenset[str]:
        """Return the names of the tools that are not to be deferred."""
        return frozenset(
            tool.name
            for connection in self._connections.values()
            if connection.config.always_load
            for tool in connection.offering.wrapped.tools
        )

    def schema_of(self, server: str, tool: str) -> dict[str, Json] | None:
        """Return the input schema of a tool as its server listed it, None without such a tool."""
        return self._connection(server).offering.schema_of(tool)

    def instructions(self) -> Mapping[str, str]:
        """Return server → what it wants the model to know; a stranger's words, at most 2 KB."""
        said = {
            name: connection.offering.instructions for name, connection in self._connections.items()
        }
        return {name: text for name, text in sorted(said.items()) if text}

    def prompts(self) -> tuple[PromptInfo, ...]:
        """Return the prompts of all servers, by command."""
        listed = (each.offering.catalogue.prompts for each in self._connections.values())
        return tuple(sorted(chain.from_iterable(listed), key=lambda prompt: prompt.command))

    def resources(self) -> tuple[ResourceInfo, ...]:
        """Return the resources of all servers, by server and address."""
        listed = (each.offering.catalogue.resources for each in self._connections.values())
        return tuple(sorted(chain.from_iterable(listed), key=lambda each: (each.server, each.uri)))

    def requests(self, server: str) -> "Requests":
        """Return what fills in a server's prompts, reads its resources and completes arguments.

        Raises:
            UsageError: There is no such server, or it was not started.
        """
        return self._connection(server).requests

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Return server → tool → what changed since the user approved it, as a diff.

        A server's instructions stand among its tools, as `INSTRUCTIONS` of `offering`.
        """
        found = {
            name: connection.offering.changed for name, connection in self._connections.items()
        }
        return {name: changed for name, changed in found.items() if changed}

    async def approve_changes(self, server: str) -> None:
        """Offer again what a server changed, as it is now; `changes()` shows it first."""
        await self._connection(server).approve_changes()

    async def login(self, name: str, visit: Visit) -> ServerState:
        """Sign in to an HTTP server with the user's browser, connect, and return its state.

        Raises:
            UsageError: There is no such server, or it is none of the web.
        """
        connection = self._connection(name)
        _check_web(connection.config)
        # One at a time: two questions on one terminal would overlap.
        async with self._signing_in:
            connection.host = replace(self._host, visit=visit)
            try:
                await self._restart(connection)
            finally:
                connection.host = self._host
            if self._states[name].phase is Phase.READY:
                # Anew, with what was kept: this connection would open pages in mid-run.
                await self._restart(connection)
        return self._states[name]

    async def logout(self, name: str) -> bool:
        """Forget the sign-in to a server and leave it; return whether there was one.

        Raises:
            UsageError: There is no such server, or it is none of the web.
            SettingsError: What is kept cannot be deleted.
        """
        connection = self._connection(name)
        _check_web(connection.config)
        known = await asyncio.to_thread(self._host.credentials.delete, connection.config.url)
        await self._restart(connection)
        return known

    async def reconnect(self, name: str) -> ServerState:
        """Close the connection to a server, open it again and return its state.

        Raises:
            UsageError: There is no such server.
        """
        await self._restart(self._connection(name))
        return self._states[name]

    async def _restart(self, connection: "ServerConnection") -> None:
        name = connection.config.name
        connection.stop()
        await asyncio.wait([self._tasks[name]])
        connection.settled.clear()
        self._tasks[name] = self._group.create_task(connection.run())
        await connection.settled.wait()

    def _connection(self, name: str) -> "ServerConnection":
        try:
            return self._connections[name]
        except KeyError:
            known = ", ".join(sorted(self._connections)) or "none"
            raise UsageError(f"no MCP server {name!r} is running; there are: {known}") from None

    async def wait_started(self, timeout_s: float) -> bool:
        """Wait until no server is on its way up; return False when the time was not enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._loaders:
                    await asyncio.wait(self._loaders)
                for connection in self._connections.values():
                    await connection.settled.wait()
                return True
        return False

    async def wait_listed(self, timeout_s: float) -> None:
        """Wait until the tools are known of every server that said that they changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for connection in [*self._connections.values()]:  # others may still be added
                    if connection.connected:
                        await connection.upkeep.listed.wait()

    async def close(self, limit_s: float = _CLOSE_LIMIT_S) -> None:
        """Close all servers at the same time; what is not closed within the limit is cancelled."""
        for loader in self._loaders:
            loader.cancel()
        for connection in self._connections.values():
            connection.stop()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks.values(), timeout=limit_s)
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
                config,
                self._environment,
                on_change=self._show,
                restarts=self._restarts,
                host=self._host,
            )
            self._connections[config.name] = connection
            self._tasks[config.name] = self._group.create_task(connection.run())

    def _show(self, state: ServerState) -> None:
        self._states[state.name] = state
        self._on_change(state)


def _load_sdk() -> "type[ServerConnection]":
    """Import the SDK: 0.8 s, so in a thread, and only when there is a server."""
    load("agent_cli.mcp_client.connection")
    from agent_cli.mcp_client.connection import ServerConnection  # noqa: PLC0415

    return ServerConnection
