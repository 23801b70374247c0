"""One server's life: connect, list its tools, notice its end, connect again."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

import mcp_types
from mcp import Client
from mcp.client import Transport
from mcp_types import Implementation

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.wording import counted
from agent_cli.mcp_client.callbacks import Callbacks, ServerLog
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.limits import RestartPolicy, Restarts, SilenceLimits, Uses
from agent_cli.mcp_client.listing import Upkeep, list_tools
from agent_cli.mcp_client.offering import Offering
from agent_cli.mcp_client.reasons import NO_SIGN_IN, needs_sign_in, why_not_connected
from agent_cli.mcp_client.requests import Doubt, Requests, tell_roots_changed
from agent_cli.mcp_client.stdio import StderrTail, last_words
from agent_cli.mcp_client.transports import Link, quiet_sdk, watched
from agent_cli.version import __version__

_LAST_ANSWERS_S = 2.0
"""Seconds that a forgotten session stays open, so that all its requests learn of that."""
_HUNG = "it answers nothing since a request that got no answer"
_NOTE_MAX = 300
"""Limits the length of notes: a tool's name, or a schema's fault, may be a megabyte."""


class ServerConnection:
    """The connection to one server; only the task in `run()` opens and closes the SDK's client.

    The SDK's contexts are bound to the task that entered them. Other tasks only get the client from
    `client()` and call it.
    """

    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        *,
        on_change: Callable[[ServerState], None],
        restarts: RestartPolicy,
        host: Host,
    ) -> None:
        self.config = config
        self.host = host
        self.silence_limits = SilenceLimits()
        self.uses = Uses()
        self.settled = asyncio.Event()
        """Set unless the server is starting: it is ready, or has failed."""
        self.restarting = asyncio.Lock()
        self.offering = Offering(self)
        """The last listing, kept during restarts and after a failure."""
        self.upkeep = Upkeep(
            config, self.offering, self._list, lambda: self._show(ServerPhase.READY)
        )
        self.requests = Requests(self)
        self._environment = environment
        self._on_change = on_change
        self._restarts = Restarts(restarts)
        self._client: Client | None = None
        self._state = ServerState(config.name, ServerPhase.CONNECTING)
        self._notes: list[str] = []
        self._stderr: tuple[str, ...] = ()
        self._tail: StderrTail | None = None  # of the running process
        self._last_end = ""
        self._link: Link | None = None
        self._needs_sign_in = False
        self._is_forgotten = False
        self._doubt = Doubt(self.silence_limits)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Keep the server connected until `stop()`, or until it has failed too often."""
        quiet_sdk()
        self._restarts.count = 0
        was_ever_ready = False
        try:
            while not self._stopping.is_set():
                self._is_forgotten = False
                reason, was_ready = await self._live()
                was_ever_ready = was_ever_ready or was_ready
                if self._stopping.is_set():
                    return
                if self._is_forgotten:
                    # Not a fault of the server: sessions expire, and a new one is requested.
                    self._show(ServerPhase.CONNECTING, reason)
                    continue
                delay_s = self._restarts.next_delay_s() if was_ever_ready else None
                if delay_s is None:
                    self._give_up(reason)
                    return
                self._show(ServerPhase.LOST, reason)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), delay_s)
                    return
                self._show(ServerPhase.CONNECTING, reason)
        finally:
            if self._state.phase is not ServerPhase.FAILED:
                self._show(ServerPhase.CLOSED)

    def prepare_again(self) -> None:
        """Let `run()` connect again; not done there, or a `stop()` just before would be lost."""
        self._stopping.clear()
        self.settled.clear()

    def stop(self) -> None:
        """Ask `run()` to close the connection and return, even if it has not begun."""
        self._stopping.set()
        self._ended.set()
        self.silence_limits.end()

    @property
    def connected(self) -> bool:
        """Whether there is a client right now."""
        return self._client is not None

    @property
    def fault(self) -> str:
        """Why we ended the last connection, as a clause; "" if we did not."""
        return self._link.fault if self._link else ""

    @property
    def stderr_quote(self) -> str:
        """The end of its standard error as a clause, "" if it is empty."""
        return _quote(self._tail.last_lines() if self._tail else self._stderr)

    async def client(self) -> Client:
        """Return the connected client; wait for a restart in progress.

        After a request without an answer, the server is asked whether it still answers, and a
        process that does not is restarted. Not earlier: it may still be at work on that request.

        Raises:
            ToolError: The server is gone, did not restart within its startup timeout, or hangs; or
                it belongs to another event loop.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ToolError(
                f"MCP server '{self.config.name}' belongs to another event loop: call its tools in"
                " the one that opened the session"
            )
        await self._doubt.settle(await self._settled_client(), if_hung=self._restart_hung)
        return await self._settled_client()

    async def _settled_client(self) -> Client:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.settled.wait(), self.config.startup_timeout_s)
        if self._client is None:
            state = f"MCP server '{self.config.name}' is not available: it is {self._state.phase}"
            raise ToolError(self._state.reason or state)
        return self._client

    def lose(self, client: Client) -> None:
        """Note that the server forgot the session of *client*; `run()` begins a new one."""
        if client is self._client:
            self._is_forgotten = True
            self._end()

    def doubt(self, client: Client, *, is_cancelled: bool) -> None:
        """Note that a request over *client* got no answer."""
        if client is self._client:
            # The limit of a cancelled request is not over, so the server may be at work on it.
            self._doubt.begin(client, busy_s=self.config.call_timeout_s if is_cancelled else 0)

    def note_end(
        self, client: Client, *, needs_sign_in: bool | None = None, fault: str = ""
    ) -> None:
        """Show how a request ended, until another ends: a later one may get through.

        The user has to sign in until a reply, since another session may have done that.
        """
        needs = self._needs_sign_in if needs_sign_in is None else needs_sign_in
        reason = f"the last request failed: {fault}; the next one tries again" if fault else ""
        shown = (self._needs_sign_in, self._state.reason)
        if client is self._client and (needs, reason) != shown:
            self._needs_sign_in = needs
            self._show(ServerPhase.READY, reason)

    def _restart_hung(self) -> None:
        """End a process that hangs, for `run()` to start it again.

        Raises:
            ToolError: There is no process, or other requests still wait for it.
        """
        name = self.config.name
        if self.config.transport != "stdio":
            raise ToolError(
                f"MCP server '{name}' is not available: {_HUNG}. Try later, or go on without it"
            )
        if self.uses.running:
            raise ToolError(
                f"MCP server '{name}' is not available: {_HUNG}, and others still wait for it. The"
                f" user can restart it with /mcp reconnect {name}"
            )
        if self._link:
            self._link.give_up(_HUNG)
        self._end()

    async def approve_changes(self) -> None:
        """Approve the withheld tools, and offer them."""
        await self.offering.approve_changes()
        self._show(self._state.phase, self._state.reason)

    def leave_out(self, tool: str, reason: str) -> bool:
        """Stop offering a tool that the model's API refuses; return whether it was offered."""
        known = self.offering.leave_out(tool, reason)
        if known:
            self._show(self._state.phase, self._state.reason)
        return known

    async def _live(self) -> tuple[str, bool]:
        """Connect and stay connected; return why it ended, and whether it was ready before."""
        if not self._stopping.is_set():
            self._ended.clear()
        self._notes = []
        self._needs_sign_in = False
        ready_at: float | None = None
        with StderrTail() as self._tail:
            stderr = self._tail
            self._link = link = Link(
                self.config,
                self._environment,
                stderr.writer,
                host=self.host,
                silence_limits=self.silence_limits,
                on_end=self._end,
            )
            try:
                async with AsyncExitStack() as stack:
                    client, tools = await self._connect(stack, link)
                    await self._become_ready(client, tools)
                    ready_at = self._loop.time()
                    await self.upkeep.attend(client, until=self._ended)
                    if self._is_forgotten:
                        await self.uses.wait_ended(_LAST_ANSWERS_S)
                why = link.ended
            except Exception as error:  # any: one server must not end the session
                why = why_not_connected(
                    self.config,
                    error,
                    ended=link.ended,
                    refused=link.refused,
                    refusal=link.refusal,
                )
                self._needs_sign_in = link.refused in NO_SIGN_IN or needs_sign_in(error)
            finally:
                self._end()
            if ready_at is not None:
                self._restarts.note_run(self._loop.time() - ready_at)
            self._stderr, self._tail = stderr.last_lines(), None
            if ready_at is None and link.stray:
                why += f'; it printed on its standard output: "{last_words(link.stray)}"'
            self._last_end = self._sentence(why, ready_at)
            return self._last_end, ready_at is not None

    async def _connect(
        self, stack: AsyncExitStack, link: Link
    ) -> tuple[Client, tuple[mcp_types.Tool, ...]]:
        """Perform the handshake and list the tools, within the startup timeout."""
        async with self.silence_limits.limited(self.config.startup_timeout_s):
            if self._stopping.is_set():
                self.silence_limits.end()
            transport = watched(
                link.open(),
                on_end=self._end,
                on_note=self._notes.append,
                log=ServerLog(self.config.name),
            )
            client = await stack.enter_async_context(self._new_client(transport))
            tools = await self._list(client)
        link.connected()
        return client, tools

    async def _list(self, client: Client) -> tuple[mcp_types.Tool, ...]:
        """List the tools; the notes come from the last listing."""
        self._notes.clear()
        return await list_tools(client, self._notes.append)

    def _new_client(self, transport: Transport) -> Client:
        asked = Callbacks(self.config.name, self.host, self.silence_limits)
        return Client(
            transport,
            mode=self.config.negotiation,
            client_info=Implementation(name="agent-cli", version=__version__),
            message_handler=self.upkeep.hear,
            elicitation_callback=asked.elicit,
            sampling_callback=asked.sample if self.host.sample else None,
            list_roots_callback=asked.roots if self.host.roots else None,
            log_level="info",
        )

    async def _become_ready(self, client: Client, tools: tuple[mcp_types.Tool, ...]) -> None:
        self.offering.hear(client.instructions or "")
        self.offering.has_resources = client.server_capabilities.resources is not None
        await self.offering.take(tools)
        if self._ended.is_set():
            return
        self._client = client
        self._show(ServerPhase.READY)
        self.settled.set()

    def _end(self) -> None:
        """Withdraw the client at once, so that no call uses a dead connection."""
        self._client = None
        self.settled.clear()
        self._ended.set()

    def _give_up(self, reason: str) -> None:
        if self._restarts.count:
            times = counted(self._restarts.count, "time")
            reason = f"{reason}; it was restarted {times} and is now left alone"
        self._show(ServerPhase.FAILED, reason)

    async def tell_roots(self) -> None:
        """Tell the server that the roots changed."""
        if self._client is not None:
            await tell_roots_changed(self._client)

    def _show(self, phase: ServerPhase, reason: str = "") -> None:
        notes = (*self._notes, *self.offering.wrapped.absent.values())
        self._state = ServerState(
            self.config.name,
            phase,
            reason,
            tools=len(self.offering.wrapped.tools),
            notes=tuple(dict.fromkeys(note[:_NOTE_MAX] for note in notes)),
            restarts=self._restarts.count,
            tokens=self.offering.wrapped.tokens,
            needs_sign_in=self._needs_sign_in,
            changed=tuple(self.offering.changed),
            stderr=self._stderr,
            last_end=self._last_end,
            hung=phase is ServerPhase.LOST and self.fault == _HUNG,
        )
        if phase in (ServerPhase.FAILED, ServerPhase.CLOSED):
            self.settled.set()
        self._on_change(self._state)

    def _sentence(self, why: str, ready_at: float | None) -> str:
        event = "did not start" if ready_at is None else "was lost"
        return f"MCP server '{self.config.name}' {event}: {why}{_quote(self._stderr)}"


def _quote(stderr: Sequence[str]) -> str:
    quoted = last_words(stderr)
    return f'; the end of its stderr: "{quoted}"' if quoted else ""
