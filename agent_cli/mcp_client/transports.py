"""How bytes reach a server: a child process or HTTP, each made safe for the SDK."""

import json
import logging
import shutil
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import httpx2
from mcp.client import Transport
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

from agent_cli.mcp_client.addresses import Addresses
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.environment import server_environment
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.oauth import authorization
from agent_cli.mcp_client.patience import Patience
from agent_cli.mcp_client.reasons import HTTP_FAILED, NO_SIGN_IN, SIGN_IN_FAILED
from agent_cli.mcp_client.stdio import StdioProcess

if TYPE_CHECKING:
    from httpx2._client import UseClientDefault  # named in a public signature, not exported
    from httpx2._types import AuthTypes
    from mcp.client._transport import TransportStreams

# No read limit: a tool may be silent for long, and calls have a limit of their own.
_HTTP_TIMEOUT = httpx2.Timeout(30, read=None)
_EVENT_BYTES_MAX = 32 * 1024 * 1024


class SafeAsyncClient(httpx2.AsyncClient):
    """An HTTP client whose failed requests are answers, so that they cost one call only.

    Left alone, the SDK lets one refused or broken POST end the whole connection and cancels the
    task that holds it (modelcontextprotocol/python-sdk, issues 3522 and 3560).

    Attributes:
        connected: Until the connection stands a failure must end the attempt, not be answered.
        refused: The status with which the server refused the last message, or the way to it; 401
            and 403 ask for a sign-in.
    """

    def __init__(
        self, headers: Mapping[str, str], sign_in: httpx2.Auth | None, addresses: Addresses
    ) -> None:
        super().__init__(
            headers=dict(headers),
            timeout=_HTTP_TIMEOUT,
            auth=sign_in,
            # Called for the requests of a sign-in and for redirects too.
            event_hooks={"request": [addresses.check]},
        )
        self.connected = False
        self.refused: int | None = None

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        auth: "AuthTypes | UseClientDefault | None" = httpx2.USE_CLIENT_DEFAULT,
        follow_redirects: "bool | UseClientDefault" = httpx2.USE_CLIENT_DEFAULT,
    ) -> httpx2.Response:
        """Send *request*; once connected, turn a failure into a response with a JSON-RPC error."""
        try:
            response = await super().send(
                request, stream=stream, auth=auth, follow_redirects=follow_redirects
            )
        except (httpx2.TransportError, OAuthFlowError) as error:
            if not self.connected:
                raise
            code = SIGN_IN_FAILED if isinstance(error, OAuthFlowError) else HTTP_FAILED
            fault = {"code": code, "message": f"{type(error).__name__}: {error}"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": fault})
            headers = {"content-type": "application/json"}
            return httpx2.Response(503, request=request, headers=headers, content=body.encode())
        status = response.status_code
        if request.method == "POST" or status in NO_SIGN_IN:
            # Other requests are refused by servers that simply do not send on their own.
            self.refused = status if status >= httpx2.codes.BAD_REQUEST else None
        return response


class Link:
    """One attempt's way to a server; `open()` is the transport for the SDK, used once."""

    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        errlog: TextIO,
        *,
        host: Host,
        patience: Patience,
    ) -> None:
        self._config = config
        self._host = host
        self._patience = patience
        self._environment = environment
        self._errlog = errlog
        self._http: SafeAsyncClient | None = None
        self._process: StdioProcess | None = None

    @property
    def fault(self) -> str:
        """Why the connection was ended from our side, or how the process ended; "" for neither."""
        if self._process is None:
            return ""
        code = self._process.exit_code
        return self._process.fault or (f"it ended with exit code {code}" if code else "")

    @property
    def refused(self) -> int | None:
        """The HTTP status with which the server refused us, or None."""
        return self._http.refused if self._http else None

    def connected(self) -> None:
        """Note that the handshake is over: from now on failed requests are answers."""
        if self._http:
            self._http.connected = True
        if self._process:
            self._process.has_answered = True

    def open(self) -> Transport:
        """Return the transport.

        Raises:
            FileNotFoundError: The command of a stdio server does not exist.
            NotADirectoryError: The directory it is to be started in does not exist.
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
        environment = server_environment(self._environment, config.env)
        if config.cwd and not Path(config.cwd).is_dir():
            raise NotADirectoryError(config.cwd)
        # Asked here, because below the supervisor it would only show as an early end. With a
        # directory in it the command is meant from where the server starts; else along PATH.
        command = Path(config.cwd, config.command) if "/" in config.command else config.command
        if not shutil.which(command, path=environment.get("PATH")):
            raise FileNotFoundError(config.command)
        self._process = StdioProcess(
            command=[config.command, *config.args],
            environment=environment,
            folder=config.cwd or None,
            stderr=self._errlog,
        )
        return self._process.transport()

    @asynccontextmanager
    async def _streamable_http(self) -> AsyncIterator["TransportStreams"]:
        async with (
            authorization(self._config, self._host, self._patience) as sign_in,
            SafeAsyncClient(self._config.headers, sign_in, Addresses(self._config)) as self._http,
        ):
            transport = streamable_http_client(
                self._config.url, http_client=self._http, max_sse_event_size=_EVENT_BYTES_MAX
            )
            async with transport as streams:
                yield streams

    @asynccontextmanager
    async def _sse(self) -> AsyncIterator["TransportStreams"]:
        async with authorization(self._config, self._host, self._patience) as sign_in:
            # The SDK enters and closes the client; the timeout it proposes is shorter than ours.
            def new_client(
                headers: dict[str, str] | None = None,
                timeout: httpx2.Timeout | None = None,  # noqa: ARG001
                auth: httpx2.Auth | None = None,
            ) -> httpx2.AsyncClient:
                self._http = SafeAsyncClient(headers or {}, auth, Addresses(self._config))
                return self._http

            transport = sse_client(
                self._config.url,
                headers=dict(self._config.headers),
                httpx_client_factory=new_client,
                auth=sign_in,
            )
            async with transport as streams:
                yield streams


def quiet_sdk() -> None:
    """Keep the SDK off the screen: it logs a traceback for each line it cannot read.

    And it warns of everything that the newest revision has no more, which older servers need.
    """
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)
    for name in ("mcp", "client", "httpx2"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            # Without any handler, Python would print to standard error.
            logger.addHandler(logging.NullHandler())
