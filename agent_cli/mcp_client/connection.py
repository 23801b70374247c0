"""One server's life: connect, list its tools, notice its end, connect again."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import mcp_types
import structlog
from mcp import Client
from mcp_types import Implementation

from agent_cli.errors import ToolError
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS, why_not_connected
from agent_cli.mcp_client.seam import watched
from agent_cli.mcp_client.state import Phase, RestartPolicy, ServerState
from agent_cli.mcp_client.stderr_tail import StderrTail
from agent_cli.mcp_client.tools import wrap_tools
from agent_cli.mcp_client.transports import Link, quiet_sdk_logs
from agent_cli.tooling import Tool
from agent_cli.version import __version__

_PAGES_MAX = 100
_LINE_LOGGED = 200
log = structlog.get_logger()


class ServerConnection:
    """Owns one server; only the task that runs `run()` opens and closes the SDK's client.

    The SDK's contexts are bound to the task that entered them. Other tasks take the client from
    `client()` and call it, nothing more.
    """

    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        *,
        on_change: Callable[[ServerState], None],
        restarts: RestartPolicy,
    ) -> None:
        self.config = config
        self.settled = asyncio.Event()
        """Set while there is nothing to wait for: the server is ready, or is given up."""
        self.tools: tuple[Tool, ...] = ()
        """As last listed; they stay while the server restarts, and after it failed."""
        self._environment = environment
        self._on_change = on_change
        self._policy = restarts
        self._restarts = 0
        self._client: Client | None = None
        self._state = ServerState(config.name, Phase.CONNECTING)
        self._notes: list[str] = []
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._startup: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Keep the server connected until `stop()`, or until it has failed too often."""
        quiet_sdk_logs()
        try:
            while not self._stopping.is_set():
                reason, was_ready = await self._live()
                if self._stopping.is_set():
                    return
                delay_s = self._next_delay(was_ready=was_ready)
                if delay_s is None:
                    self._give_up(reason)
                    return
                self._show(Phase.LOST, reason)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), delay_s)
                    return
                self._show(Phase.CONNECTING, reason)
        finally:
            if self._state.phase is not Phase.FAILED:
                self._show(Phase.CLOSED)

    def stop(self) -> None:
        """Ask `run()` to close the connection and return."""
        self._stopping.set()
        self._ended.set()
        if self._startup:
            self._startup.reschedule(0)

    @property
    def connected(self) -> bool:
        """Whether there is a client right now."""
        return self._client is not None

    async def client(self) -> Client:
        """Return the connected client, waiting for a restart that is going on.

        Raises:
            ToolError: The server is not there any more, or not within its startup timeout.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.settled.wait(), self.config.startup_timeout_s)
        if self._client is None:
            reason = self._state.reason or f"it is {self._state.phase}"
            raise ToolError(f"MCP server '{self.config.name}' is not available: {reason}")
        return self._client

    def lose(self, client: Client) -> None:
        """Note that *client* is of no use any more; `run()` connects again."""
        if client is self._client:
            self._end()

    async def _live(self) -> tuple[str, bool]:
        """Connect and stay until the end; return why it ended and whether it had been ready."""
        loop = asyncio.get_running_loop()
        self._ended.clear()
        self._notes = []
        ready_at: float | None = None
        with StderrTail() as stderr:
            link = Link(self.config, self._environment, stderr.writer)
            try:
                async with AsyncExitStack() as stack:
                    client, tools = await self._connect(stack, link)
                    ready_at = loop.time()
                    self._become_ready(client, tools)
                    await self._ended.wait()
                why = "it ended"
            except CONNECTION_ERRORS as error:
                why = why_not_connected(self.config, error, refused=link.refused)
            finally:
                self._end()
            if ready_at is not None and loop.time() - ready_at >= self._policy.stable_s:
                self._restarts = 0
            return self._sentence(why, stderr.last_words(), ready_at), ready_at is not None

    async def _connect(
        self, stack: AsyncExitStack, link: Link
    ) -> tuple[Client, tuple[mcp_types.Tool, ...]]:
        """Do the handshake and list the tools, within the startup timeout."""
        try:
            async with asyncio.timeout(self.config.startup_timeout_s) as self._startup:
                transport = watched(link.open(), on_end=self._end, on_note=self._notes.append)
                client = Client(
                    transport,
                    mode=self.config.negotiation,
                    client_info=Implementation(name="agent-cli", version=__version__),
                    message_handler=self._on_message,
                )
                await stack.enter_async_context(client)
                tools = await list_tools(client)
        finally:
            self._startup = None
        link.connected()
        return client, tools

    def _become_ready(self, client: Client, tools: tuple[mcp_types.Tool, ...]) -> None:
        if self._ended.is_set():
            return
        self._client = client
        self.tools, left_out = wrap_tools(self, tools)
        self._notes.extend(left_out)
        self._show(Phase.READY)
        self.settled.set()

    def _end(self) -> None:
        """Withdraw the client at once, so that nobody calls into a dead connection."""
        self._client = None
        self.settled.clear()
        self._ended.set()

    def _next_delay(self, *, was_ready: bool) -> float | None:
        """Return the wait before the next start, or None when there is to be none."""
        never_ready = not was_ready and self._restarts == 0
        if never_ready or self._restarts >= len(self._policy.delays_s):
            return None
        self._restarts += 1
        return self._policy.delays_s[self._restarts - 1]

    def _give_up(self, reason: str) -> None:
        if self._restarts:
            reason = f"{reason}; it was restarted {self._restarts} times and is now left alone"
        self._show(Phase.FAILED, reason)

    def _show(self, phase: Phase, reason: str = "") -> None:
        self._state = ServerState(
            self.config.name,
            phase,
            reason,
            tools=len(self.tools),
            notes=tuple(self._notes),
            restarts=self._restarts,
        )
        if phase in (Phase.FAILED, Phase.CLOSED):
            self.settled.set()
        self._on_change(self._state)

    def _sentence(self, why: str, last_words: str, ready_at: float | None) -> str:
        event = "did not start" if ready_at is None else "was lost"
        tail = f'; the end of its stderr: "{last_words}"' if last_words else ""
        return f"MCP server '{self.config.name}' {event}: {why}{tail}"

    async def _on_message(self, message: mcp_types.ServerNotification | Exception) -> None:
        """Note a line on the server's stdout that is no message; the SDK skips it."""
        if isinstance(message, ValueError):
            fault = str(message)[:_LINE_LOGGED]
            log.debug("mcp junk on stdout", server=self.config.name, fault=fault)


async def list_tools(client: Client) -> tuple[mcp_types.Tool, ...]:
    """Return all tools of a server, page by page; of two with one name, the first."""
    found: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found.values())
