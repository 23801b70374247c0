"""The HTTP layer of the clients: connection pool, limits, and failures as sentences."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.request import getproxies

import httpx2

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.arrivals import Arrivals
from agent_cli.providers.failures import CallFailed, broken_off, is_page
from agent_cli.system.http_requests import (
    HttpSettingsError,
    proxy_for,
    trust,
    usable_environment,
    why_unreached,
)
from agent_cli.system.json_text import json_object
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_group

CONNECT_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 60.0
# The body normally ends with the last event; do not wait for a server that delays its end.
FINISH_LIMIT_S = 0.5
_ERROR_BYTES_MAX = 100_000
# Errors of a request that could not be made, beyond those of the HTTP library.
NEVER_SENT = (ModelError, OverflowError, UnicodeError, httpx2.InvalidURL)
# Errors before the request: a proxy refuses the way to the server, not a request.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
# Notice a dead connection within six minutes, not at the next prompt.
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}


@dataclass(frozen=True, slots=True)
class OpenReply:
    """A 200 whose body has not been read yet."""

    chunks: AsyncIterator[bytes]
    content_type: str
    request_id: str | None
    redact: Callable[[str], str] = str

    async def error(self) -> str:
        """Return the error's text of a body that is one JSON object, or the web page; else ""."""
        return self.error_in(await self.beginning())

    async def beginning(self) -> bytes:
        """Return the body, or its beginning if it is long or does not end."""
        body = bytearray()
        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(FINISH_LIMIT_S):
                async for chunk in self.chunks:
                    body += chunk
                    if len(body) > _ERROR_BYTES_MAX:
                        break
        return bytes(body)

    def error_in(self, body: bytes) -> str:
        """Return what `error` does, of a *body* that was read."""
        match json_object(body):
            case {"error": {"message": str() as message}} | {"error": str() as message}:
                return self.redact(message)
            case _:
                page = body.decode(errors="replace")
                return self.redact(page) if is_page(page) else ""

    async def finish(self) -> None:
        """Read the rest of the body, so that the connection can be reused."""
        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(FINISH_LIMIT_S):
                async for _ in self.chunks:
                    pass


@dataclass(frozen=True, slots=True)
class Address:
    """The address that requests go to.

    Attributes:
        url: The endpoint.
        shown: The server, for messages, without a password.
        variable: The variable that holds it, for advice.
        request_id: The header of an answer that identifies it.
    """

    url: str
    shown: str
    variable: str
    request_id: str


class HttpOptions(Protocol):
    """The part of a provider's connection that concerns HTTP."""

    @property
    def read_timeout_s(self) -> float:
        """Longest silence in a reply."""
        ...

    @property
    def record(self) -> Path | None:
        """The file to write the replies' bytes to."""
        ...

    @property
    def replay(self) -> Path | None:
        """The recording to play instead of asking a server."""
        ...

    @property
    def replay_pace(self) -> float:
        """Factor for the recorded pauses; 0 plays without pauses."""
        ...

    @property
    def redact(self) -> Callable[[str], str]:
        """Remove secrets from server text before it is shown or recorded."""
        ...


def http_client(connection: HttpOptions, address: str = "") -> httpx2.AsyncClient:
    """Return the connection pool for *connection*, to the URL *address* if that is known.

    Redirects are not followed: they would send the conversation to another server.

    Raises:
        ModelError: Proxies or certificates from the environment cannot be used.
    """
    timeout = httpx2.Timeout(
        WRITE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=connection.read_timeout_s
    )
    try:
        with usable_environment():
            client = httpx2.AsyncClient(timeout=timeout, transport=_transport(connection, address))
    except HttpSettingsError as error:
        raise ModelError(str(error)) from error

    async def check_open(response: httpx2.Response) -> None:
        # The pool forgets a connection that is being opened as it closes: it would stay open.
        if client.is_closed:
            raise httpx2.ReadError("the client was closed", request=response.request)

    client.event_hooks["response"] += [check_open, _limit_error]
    return client


async def _limit_error(response: httpx2.Response) -> None:
    """Let only the beginning of an error be read, which the clients read whole."""
    if not response.is_success:
        response.stream = _ErrorBody(response)
        response.headers.pop("content-encoding", None)


class _ErrorBody(httpx2.AsyncByteStream):
    """The first `_ERROR_BYTES_MAX` of the body of an error, unpacked: packed, they may be a GB."""

    def __init__(self, response: httpx2.Response) -> None:
        self._whole = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _ERROR_BYTES_MAX
        async with aclosing(self._whole.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

    async def aclose(self) -> None:
        """Close the body."""
        await self._whole.aclose()


def _transport(connection: HttpOptions, address: str) -> httpx2.AsyncBaseTransport | None:
    """Return our transport, or None for the HTTP library's default, which supports proxies."""
    if connection.replay is not None:
        from agent_cli.providers.recording import ReplayTransport  # rare

        return ReplayTransport(connection.replay, pace=connection.replay_pace)
    if connection.record is not None:
        from agent_cli.providers.recording import RecordTransport  # rare

        # A custom transport bypasses proxies from the environment, so recordings use none.
        return RecordTransport(httpx2.AsyncHTTPTransport(), connection.record, connection.redact)
    if _may_need_proxy(address):
        return None
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    is_tls = not address.lower().startswith("http://")
    return httpx2.AsyncHTTPTransport(verify=trust(is_tls=is_tls), socket_options=options)


def _may_need_proxy(address: str) -> bool:
    """Return whether a proxy of the environment takes requests to the URL *address*.

    The HTTP library makes its connections to all proxies at once: for a SOCKS proxy it needs a
    package, even if NO_PROXY excepts this address.
    """
    if not {"http", "https", "all"} & getproxies().keys():
        return False
    try:
        return not address or bool(proxy_for(address))
    except ValueError:  # the request reports the address
        return True


def connection_failure(error: BaseException | None, base_url: str, variable: str) -> CallFailed:
    """Return the failure for *error*, raised before there was a reply.

    The advice names *variable*, which holds the address.
    """
    while is_group(error):  # parallel connection attempts: report one of them
        error = error.exceptions[0]
    if isinstance(error, ModelError):
        return CallFailed(error, retryable=False)
    if fault := _fault_of_address(error):
        sentence = f"the base URL {base_url!r} {fault}; check {variable}"
        return CallFailed(ModelError(sentence, trouble="network"), retryable=False)
    if isinstance(error, httpx2.LocalProtocolError):  # its text may quote a key
        sentence = "the request has a header that is not valid; check the keys and their variables"
        return CallFailed(ModelError(sentence, trouble="network"), retryable=False)
    is_sent = not isinstance(error, _UNSENT)
    found = why_unreached(error, base_url)
    if found.may_pass or (found.is_tls and is_sent):
        suspect = "the proxy (HTTPS_PROXY, NO_PROXY)" if found.is_proxied else "the network"
        return broken_off(found.sentence, is_sent=is_sent, suspect=suspect)
    sentence = f"{found.sentence}; {found.advice or f'check {variable}, and a proxy in between'}"
    return CallFailed(ModelError(sentence, trouble="network"), retryable=False)


def _fault_of_address(error: BaseException | None) -> str:
    """Return the fault of the base URL that *error* shows, or ""."""
    match error:
        case OverflowError():
            return "has a port above 65535"
        case httpx2.UnsupportedProtocol():
            return "does not begin with http:// or https://"
        case httpx2.InvalidURL() | UnicodeError():
            return "is not a valid address"  # the error may quote part of a password
        case _:
            return ""


def broken_reply(
    error: httpx2.RequestError, connection: HttpOptions, request_id: str | None
) -> CallFailed:
    """Return the failure for a reply whose connection broke or fell silent."""
    if isinstance(error, httpx2.TimeoutException):
        silence = f"the reply stopped: nothing for {connection.read_timeout_s:g} s"
        return broken_off(silence, request_id)
    if isinstance(error, httpx2.RemoteProtocolError):  # its message is long
        return broken_off("the connection broke in the reply", request_id)
    reason = str(error) or type(error).__name__
    return broken_off(f"the connection broke in the reply ({reason})", request_id)


@asynccontextmanager
async def open_reply(
    http: httpx2.AsyncClient,
    address: Address,
    options: HttpOptions,
    *,
    headers: httpx2.Headers | dict[str, str],
    body: bytes,
    refusal: Callable[[httpx2.Response], CallFailed],
    on_sent: Callable[[], None],
) -> AsyncGenerator[OpenReply]:
    """Post *body* and yield the open reply; leaving the block closes the connection.

    Args:
        http: The pool of `http_client`.
        address: Where to post it.
        options: The limits of the connection.
        headers: All headers but those that the HTTP library sets.
        body: The encoded request.
        refusal: Returns the failure for an answer with an error status.
        on_sent: Called when the request was sent.

    Raises:
        CallFailed: There was no reply, an error status, or the reply broke off.
    """
    sent = False
    request_id: str | None = None

    async def note_sent(happened: str, _info: Mapping[str, object]) -> None:
        if happened.endswith("receive_response_headers.started"):
            on_sent()

    try:
        async with http.stream(
            "POST", address.url, headers=headers, content=body, extensions={"trace": note_sent}
        ) as response:
            sent = True
            request_id = response.headers.get(address.request_id)
            if not response.is_success:
                await response.aread()
                raise refusal(response)
            content_type = response.headers.get("content-type", "")
            is_packed = "content-encoding" in response.headers
            chunks = response.aiter_bytes() if is_packed else response.aiter_raw()
            async with Arrivals(chunks) as arrivals:
                yield OpenReply(arrivals, content_type, request_id, options.redact)
    except httpx2.RequestError as error:
        if sent:
            raise broken_reply(error, options, request_id) from error
        raise connection_failure(error, address.shown, address.variable) from error
    except (*NEVER_SENT, BaseExceptionGroup) as error:
        if sent:
            raise
        raise connection_failure(error, address.shown, address.variable) from error
