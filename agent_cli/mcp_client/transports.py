"""The transports to a server, child process or HTTP with its headers, made safe for the SDK."""

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, TextIO

import httpx2
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.callbacks import ServerLog
from agent_cli.mcp_client.config import ServerConfig, is_header
from agent_cli.mcp_client.event_streams import EVENT_BYTES_MAX
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.limits import SilenceLimits
from agent_cli.mcp_client.mended_messages import Item, mended
from agent_cli.mcp_client.oauth import authorization
from agent_cli.mcp_client.stdio import StdioProcess
from agent_cli.mcp_client.web_client import Addresses, SafeAsyncClient
from agent_cli.system.asked_program import (
    ProgramAnswer,
    TooMuchOutput,
    ask_program,
    child_environment,
)
from agent_cli.system.json_text import json_object

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams


class Link:
    """The transport of one connection attempt; `open()` returns it for the SDK, once."""

    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        errlog: TextIO,
        *,
        host: Host,
        silence_limits: SilenceLimits,
        on_end: Callable[[], None],
    ) -> None:
        """Prepare one attempt; *on_end* is called when the transport has failed."""
        self._on_end = on_end
        self._config = config
        self._host = host
        self._silence_limits = silence_limits
        self._environment = environment
        self._errlog = errlog
        self._http: SafeAsyncClient | None = None
        self._process: StdioProcess | None = None

    @property
    def ended(self) -> str:
        """A clause that says how the connection ended; known once it is closed."""
        if self._process:
            return self._process.ended
        if self.refusal:
            return f"it answered with {self.refusal}"
        return "it closed the connection"

    @property
    def fault(self) -> str:
        """Why we ended the connection, as a clause; "" if we did not. Known before it is closed."""
        return self._process.fault if self._process else ""

    def give_up(self, fault: str) -> None:
        """Note, before the connection is closed, that its process is at *fault*."""
        if self._process:
            self._process.fault = fault

    @property
    def stray(self) -> tuple[str, ...]:
        """The last lines on a process's standard output that are no messages."""
        return tuple(self._process.stray) if self._process else ()

    @property
    def refused(self) -> int | None:
        """The HTTP status with which the server refused the connection, or None."""
        return self._http.refused if self._http else None

    @property
    def refusal(self) -> str:
        """The server's message when it refused the connection, with the status."""
        return self._http.refusal if self._http else ""

    def connected(self) -> None:
        """Note that the handshake is over: failed requests are no longer refused connections."""
        if self._http:
            self._http.is_connected = True
        if self._process:
            self._process.has_answered = True

    def open(self) -> Transport:
        """Return the transport.

        Raises:
            FileNotFoundError: The command of a stdio server does not exist.
            NotADirectoryError: Its working directory does not exist.
            SettingsError: It must not be started any more.
        """
        match self._config.transport:
            case "stdio":
                return self._stdio()
            case "http":
                return self._streamable_http()
            case "sse":
                return self._sse()

    def _stdio(self) -> Transport:
        config = self._config
        if objection := config.objection():
            raise SettingsError(objection)
        environment = child_environment(self._environment, config.env)
        if config.cwd and not Path(config.cwd).is_dir():
            raise NotADirectoryError(config.cwd)
        # Checked here, because below the supervisor it would only show as an early end.
        if config.missing(environment, Path()):
            raise FileNotFoundError(config.command)
        self._process = StdioProcess(
            command=[config.command, *config.args],
            environment=environment,
            folder=config.cwd or None,
            stderr=self._errlog,
        )
        return self._process.transport()

    @asynccontextmanager
    async def _streamable_http(self) -> AsyncGenerator["TransportStreams"]:
        headers = await all_headers(self._config, self._environment)
        async with (
            authorization(self._config, self._host, self._silence_limits) as sign_in,
            SafeAsyncClient(headers, sign_in, Addresses(self._config)) as self._http,
        ):
            transport = streamable_http_client(
                self._config.url, http_client=self._http, max_sse_event_size=EVENT_BYTES_MAX
            )
            async with transport as streams:
                yield streams

    @asynccontextmanager
    async def _sse(self) -> AsyncGenerator["TransportStreams"]:
        own_headers = await all_headers(self._config, self._environment)
        async with authorization(self._config, self._host, self._silence_limits) as sign_in:
            # The SDK enters and closes the client; the timeout it passes is shorter than ours.
            def new_client(
                headers: dict[str, str] | None = None,
                timeout: httpx2.Timeout | None = None,  # noqa: ARG001
                auth: httpx2.Auth | None = None,
            ) -> httpx2.AsyncClient:
                self._http = SafeAsyncClient(headers or {}, auth, Addresses(self._config))
                self._http.is_answered_by_post = False
                # The SDK only logs a refused request here, and the call would wait for its answer.
                self._http.on_failure = self._on_end
                return self._http

            transport = sse_client(
                self._config.url,
                headers=own_headers,
                httpx_client_factory=new_client,
                auth=sign_in,
            )
            async with transport as streams:
                yield streams


def quiet_sdk() -> None:
    """Silence the SDK: it logs a traceback for each line it cannot read.

    It also warns of every feature that the newest revision removed, which older servers need.
    """
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)
    for name in ("mcp", "client", "httpx2"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            # Without a handler, Python would print to standard error.
            logger.addHandler(logging.NullHandler())


# The command is trusted like that of a server on this machine: it stands in a file of the user's
# or of a trusted project, and the question about trust shows it. It prints a JSON object of
# headers.
_LIMIT_S: Final = 10.0
_QUOTED_CHARS: Final = 200
_SHELL: Final = "/bin/sh"


async def all_headers(config: ServerConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a server's headers; a header from its helper replaces another of the same name.

    Raises:
        SettingsError: The helper failed; what it printed as headers is not quoted.
    """
    if not config.headers_helper:
        return dict(config.headers)
    helped = _headers(await _answer(config, environment))
    replaced = {name.lower() for name in helped}
    kept = {name: each for name, each in config.headers.items() if name.lower() not in replaced}
    return kept | helped


async def _answer(config: ServerConfig, environment: Mapping[str, str]) -> ProgramAnswer:
    # Claude Code's names, which helpers shared by several servers read.
    about = {"CLAUDE_CODE_MCP_SERVER_NAME": config.name, "CLAUDE_CODE_MCP_SERVER_URL": config.url}
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await ask_program(
                [_SHELL, "-c", config.headers_helper],
                b"",
                environment=child_environment(environment, about),
                workspace=Path(config.cwd or Path.home()),
            )
    except TimeoutError:
        raise SettingsError(f"its headersHelper took longer than {_LIMIT_S:g} s") from None
    except TooMuchOutput:
        raise SettingsError("its headersHelper printed more than 1 MB") from None
    except OSError as error:
        raise SettingsError(f"its headersHelper cannot be started: {error.strerror}") from error


def _headers(answer: ProgramAnswer) -> dict[str, str]:
    if answer.code:
        stderr = " ".join(printable(answer.stderr).split())[-_QUOTED_CHARS:]
        tail = f": {stderr}" if stderr else ""
        raise SettingsError(f"its headersHelper ended with exit code {answer.code}{tail}")
    printed = json_object(answer.stdout)
    if printed is None:
        raise SettingsError('its headersHelper must print a JSON object: {"Authorization": "..."}')
    headers: dict[str, str] = {}
    for name, value in printed.items():
        if not (isinstance(value, str) and is_header(name, value)):
            raise SettingsError(
                f"its headersHelper printed {printable(name)[:_QUOTED_CHARS]!r}, which is no header"
                " with a text of one line, in ASCII"
            )
        headers[name] = value
    return headers


@asynccontextmanager
async def watched(
    transport: Transport,
    *,
    on_end: Callable[[], None],
    on_note: Callable[[str], None],
    log: ServerLog,
) -> AsyncGenerator["TransportStreams"]:
    """Open *transport* with a watched read stream.

    Args:
        transport: Opened and closed here.
        on_end: Called when the server's stream ends; the SDK has no callback for it.
        on_note: Called with a sentence for each tool that is left out.
        log: Takes the server's log messages.
    """
    async with transport as (reading, writing):
        try:
            yield WatchedStream(reading, on_end=on_end, on_note=on_note, log=log), writing
        finally:
            log.settle()


class WatchedStream:
    """A read stream that reports its end, and drops malformed tools from lists of tools.

    Log messages do not reach the SDK, which would start a task for each.
    """

    def __init__(
        self,
        inner: "ReadStream[Item]",
        *,
        on_end: Callable[[], None],
        on_note: Callable[[str], None],
        log: ServerLog,
    ) -> None:
        self._inner = inner
        self._on_end = on_end
        self._on_note = on_note
        self._log = log

    @property
    def last_context(self) -> object:
        """The sender's context of the last item; the SDK expects this name."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next item."""
        while self._is_logged(item := await self._inner.receive()):
            pass
        return mended(item, self._on_note)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> "WatchedStream":
        return self

    async def __anext__(self) -> Item:
        try:
            while self._is_logged(item := await self._inner.__anext__()):
                pass
        except BaseException:
            self._on_end()
            raise
        return mended(item, self._on_note)

    def _is_logged(self, item: Item) -> bool:
        """Take a log message; before an answer, say how many were left out."""
        message = item.message if isinstance(item, SessionMessage) else None
        match message:
            case JSONRPCNotification(method="notifications/message"):
                self._log.write(message.params or {})
                return True
            case JSONRPCResponse() | JSONRPCError():
                self._log.settle()
            case _:
                pass
        return False

    async def __aenter__(self) -> "WatchedStream":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)
