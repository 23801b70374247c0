"""All MCP servers of the program: start and close them together; everything that they offer."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerPhase, ServerPrompt, ServerResource, ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.mcp_client.host import Host, Visit
from agent_cli.mcp_client.limits import NORMAL_RESTARTS, RestartPolicy, ended
from agent_cli.system.leftovers import kill_abandoned
from agent_cli.system.loading import load

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ServerConfig, ServerProblem
    from agent_cli.mcp_client.connection import ServerConnection
    from agent_cli.mcp_client.requests import Requests

_CLOSE_LIMIT_S = 8.0
_CHANGE_WAIT_S = 1.0


def _check_web(config: "ServerConfig") -> None:
    if config.transport == "stdio":
        raise UsageError(f"MCP server '{config.name}' runs on this machine: nothing to sign in to")


def _ignore(_state: ServerState) -> None:
    """Ignore a change."""


class McpServers:
    """The servers and their tools; closing the context ends every process it started.

        async with McpServers(os.environ, on_change=show) as servers:
            servers.start(configs)
            ...
            tools = servers.tools()

    Starting never waits and never raises: a server that cannot be connected enters the phase
    `failed`, with a sentence as `reason`. Without a server to start, the SDK is not imported.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        on_change: Callable[[ServerState], None] = _ignore,
        restarts: RestartPolicy = NORMAL_RESTARTS,
        host: Host | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            environment: Inherited by stdio servers, without our own variables.
            on_change: Called in the event loop at each change of a server's state; must not raise.
            restarts: The restart policy for servers that ended.
            host: Answers servers; the default declines every request.
        """
        self._environment = dict(environment)
        self._on_change = on_change
        self._restarts = restarts
        self._host = host or Host()
        self._states: dict[str, ServerState] = {}
        self._configs: dict[str, ServerConfig] = {}
        self._connections: dict[str, ServerConnection] = {}
        self._loaders: list[asyncio.Task[None]] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self._signing_in = asyncio.Lock()
        self._switching = asyncio.Lock()

    async def __aenter__(self) -> "McpServers":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_failure: object) -> None:
        try:
            await self.close()
        finally:
            # Called without the body's error, which it would wrap in a group; no task is left.
            await self._group.__aexit__(None, None, None)

    def start(self, servers: "Iterable[ServerConfig | ServerProblem]") -> None:
        """Connect to the enabled ones of *servers*, all at once, in the background.

        The first of each name wins, also over several calls. Problems are listed behind the
        servers that can be used, unless one of these has their name.
        """
        from agent_cli.mcp_client.config import ServerConfig  # with the first server

        starting: list[ServerConfig] = []
        problems: list[ServerProblem] = []
        for server in servers:
            if not isinstance(server, ServerConfig):
                problems.append(server)
            elif server.name not in self._states:
                self._configs[server.name] = server
                if server.enabled:
                    starting.append(server)
                phase = ServerPhase.CONNECTING if server.enabled else ServerPhase.DISABLED
                self._show(ServerState(server.name, phase))
        if starting:
            self._loaders.append(self._group.create_task(self._load_and_connect(starting)))
        for problem in problems:
            if problem.name not in self._states:
                self._show(ServerState(problem.name, ServerPhase.MISCONFIGURED, problem.reason))

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

    def names_of(self, server: str) -> frozenset[str]:
        """Return the public names of all tools that *server* listed, including tools left out."""
        connection = self._connections.get(server)
        return connection.offering.names if connection else frozenset()

    def absent_tools(self) -> Mapping[str, str]:
        """Return public name → a sentence, for each tool that is left out or withheld."""
        absent: dict[str, str] = {}
        for connection in self._connections.values():
            absent |= connection.offering.wrapped.absent
        return absent

    def leave_out(self, tool: str, reason: str) -> str:
        """Stop offering a refused *tool* until its definition changes; return its server, or ""."""
        servers = self._connections.items()
        return next((name for name, each in servers if each.leave_out(tool, reason)), "")

    def always_loaded(self) -> frozenset[str]:
        """Return the names of the tools that must not be deferred."""
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
        """Return server → its instructions for the model; untrusted text, at most 2 KB."""
        instructions = {
            name: connection.offering.instructions for name, connection in self._connections.items()
        }
        return {name: text for name, text in sorted(instructions.items()) if text}

    def prompts(self) -> tuple[ServerPrompt, ...]:
        """Return the prompts of all servers, ordered by command."""
        connections = tuple(self._connections.values())  # the caller may be another thread
        listed = (each.offering.catalogue.prompts for each in connections)
        return tuple(sorted(chain.from_iterable(listed), key=lambda prompt: prompt.command))

    def with_resources(self) -> frozenset[str]:
        """Return the names of the servers that declare resources."""
        connections = self._connections.items()
        return frozenset(name for name, each in connections if each.offering.has_resources)

    def resources(self) -> tuple[ServerResource, ...]:
        """Return the resources of all servers, ordered by server and address."""
        connections = tuple(self._connections.values())  # the caller may be another thread
        listed = (each.offering.catalogue.resources for each in connections)
        return tuple(sorted(chain.from_iterable(listed), key=lambda each: (each.server, each.uri)))

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Return server → tool → the diff from its approved definition.

        A server's instructions are listed among its tools, under `offering.INSTRUCTIONS`.
        """
        found = {
            name: connection.offering.changed for name, connection in self._connections.items()
        }
        return {name: changed for name, changed in found.items() if changed}

    def requests(self, server: str) -> "Requests":
        """Return the requests of a server; raise UsageError if it is unknown or not started."""
        return self._connection(server).requests

    async def approve_changes(self, server: str) -> None:
        """Approve a server's changed tools as they are now; `changes()` shows them first."""
        await self._connection(server).approve_changes()

    async def login(self, name: str, visit: Visit) -> ServerState:
        """Sign in to an HTTP server with the user's browser, connect, and return its state.

        Raises:
            UsageError: There is no such server, or it is not an HTTP server.
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
            if self._states[name].phase is ServerPhase.READY:
                # Reconnect with the stored sign-in: this connection would open pages during a run.
                await self._restart(connection)
        return self._states[name]

    async def logout(self, name: str) -> bool:
        """Delete the sign-in to a server and disconnect; return whether there was one.

        Raises:
            UsageError: There is no such server, or it is not an HTTP server.
            SettingsError: The stored sign-in cannot be deleted.
        """
        connection = self._connection(name)
        _check_web(connection.config)
        known = await asyncio.to_thread(self._host.credentials.delete, connection.config.url)
        # Not restarted: its need for a sign-in would be reported like a new event.
        await self._stop(connection)
        self._show(ServerState(name, ServerPhase.CLOSED, needs_sign_in=True))
        return known

    async def enable(self, name: str) -> ServerState:
        """Switch a server on in this workspace, permanently, and start it; return its state.

        Raises:
            UsageError: There is no such server, or its entry cannot be used.
            SettingsError: That cannot be remembered.
        """
        config = self._configured(name)
        async with self._switching:
            await asyncio.to_thread(self._host.remember_switch, name, True)
            if not (is_there := name in self._connections):
                self._show(ServerState(name, ServerPhase.CONNECTING))
                await self._load_and_connect([config])
        if is_there:
            return await self.reconnect(name)
        if connection := self._connections.get(name):
            await connection.settled.wait()
        return self._states[name]

    async def disable(self, name: str) -> None:
        """Switch a server off in this workspace, permanently, and remove its tools.

        Raises:
            UsageError: There is no such server, or its entry cannot be used.
            SettingsError: That cannot be remembered.
        """
        self._configured(name)
        async with self._switching:
            await asyncio.to_thread(self._host.remember_switch, name, False)
            if connection := self._connections.pop(name, None):
                async with connection.restarting:  # or it would run again after its stop
                    await self._stop(connection)
            self._show(ServerState(name, ServerPhase.DISABLED))

    def _connection(self, name: str) -> "ServerConnection":
        try:
            return self._connections[name]
        except KeyError:
            known = ", ".join(sorted(self._connections)) or "none"
            raise UsageError(f"no MCP server {name!r} is running; there are: {known}") from None

    def _configured(self, name: str) -> "ServerConfig":
        if name not in self._configs:
            known = ", ".join(self._configs) or "none"
            raise UsageError(
                f"there is no MCP server {name!r} that can be used; there are: {known}"
            )
        if problem := self._configs[name].problem:
            raise UsageError(problem)
        return self._configs[name]

    async def reconnect(self, name: str) -> ServerState:
        """Close and open the connection to a server; return its state, or raise UsageError."""
        await self._restart(self._connection(name))
        return self._states[name]

    async def _restart(self, connection: "ServerConnection") -> None:
        name = connection.config.name
        async with connection.restarting:  # two at once would both run it
            if self._connections.get(name) is not connection:  # switched off meanwhile
                return
            await self._stop(connection)
            connection.prepare_again()
            self._tasks[name] = self._group.create_task(connection.run())
        await connection.settled.wait()

    async def _stop(self, connection: "ServerConnection") -> None:
        connection.stop()
        await ended([self._tasks[connection.config.name]], _CLOSE_LIMIT_S)

    def tell_roots(self) -> None:
        """Tell each connected server that `Host.roots` has changed."""
        for connection in self._connections.values():
            self._group.create_task(connection.tell_roots())

    async def wait_started(
        self, timeout_s: float | None = None, names: Collection[str] | None = None
    ) -> bool:
        """Wait until no server is starting; return False on a timeout.

        Args:
            timeout_s: By default the longest startup timeout of the servers.
            names: Wait for these servers only.
        """
        if timeout_s is None:
            limits = (
                config.startup_timeout_s
                for config in self._configs.values()
                if names is None or config.name in names
            )
            timeout_s = max(limits, default=0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._loaders:
                    await asyncio.wait(self._loaders)
                for name, connection in [*self._connections.items()]:  # one may be disabled
                    if names is None or name in names:
                        await connection.settled.wait()
                return True
        return False

    async def wait_listed(self) -> None:
        """Wait briefly until the tools of servers that announced a change are listed again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CHANGE_WAIT_S):
                for connection in [*self._connections.values()]:  # further ones may still be added
                    if connection.connected:
                        await connection.upkeep.listed.wait()

    async def close(self, limit_s: float = _CLOSE_LIMIT_S) -> None:
        """Close all servers concurrently; cancel servers that exceed the limit."""
        for loader in self._loaders:
            loader.cancel()
        for connection in self._connections.values():
            connection.stop()
        await ended(self._tasks.values(), limit_s)

    async def _load_and_connect(self, configs: list["ServerConfig"]) -> None:
        try:
            connection_type = await asyncio.to_thread(_load_sdk)
        except ImportError as error:
            for config in configs:
                reason = f"MCP server '{config.name}' did not start: the SDK is missing ({error})"
                self._show(ServerState(config.name, ServerPhase.FAILED, reason))
            return
        for config in configs:
            is_off = self._states[config.name].phase is ServerPhase.DISABLED  # meanwhile
            if is_off or config.name in self._connections:
                continue
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
    """Import the SDK; it takes 0.8 s, so in a thread, and only if there is a server.

    Before that, end the servers that a killed program has left: they may hold ports and files.
    """
    kill_abandoned()
    load("agent_cli.mcp_client.connection")
    from agent_cli.mcp_client.connection import ServerConnection

    return ServerConnection
