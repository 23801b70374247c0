"""Pass connections on to hosts that are allowed, and to no other.

The name is resolved here, once, and the connection goes to an address of that answer: the client's
own resolver counts for nothing. In a tunnel the client must ask TLS for the same name.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

from agent_cli.host_proxy.first_bytes import (
    BadHelloError,
    BadRequestError,
    ClientRecords,
    ProxyRequest,
    parse_request,
    server_name,
)
from agent_cli.system.addresses import (
    HTTP_PORT,
    HTTPS_PORT,
    SSH_PORT,
    BadHostError,
    Resolve,
    are_inside,
    resolve,
)
from agent_cli.system.records import dataclass

_HEAD_LIMIT_S: Final = 30.0
_CONNECT_LIMIT_S: Final = 20.0
_CLOSE_LIMIT_S: Final = 2.0
_CHUNK: Final = 64 * 1024
_AT_ONCE_MAX: Final = 256
_SSH: Final = b"SSH-2.0-"
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect: TypeAlias = Callable[[str, int], Awaitable[_Streams]]


@dataclass(frozen=True, slots=True)
class Contact:
    """A host that a command asked for, and why it was refused; "" if it was reached."""

    host: str
    port: int
    refusal: str = ""


class ProxyUser(Protocol):
    """The command that a connection comes from."""

    async def decide(self, host: str, port: int, /) -> str:
        """Return "" for a host and port that it may reach, or why not; may wait for a person."""
        ...

    def note(self, contact: Contact, /) -> None:
        """Receive each contact."""
        ...


class ContactRefused(Exception):
    """The connection is not passed on; the message says why, and what to do."""

    def __init__(self, reason: str, status: str = "403 Forbidden") -> None:
        super().__init__(reason)
        self.status = status


class HostProxy:
    """Serves connections, each in a separate task."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        connect: Connect = asyncio.open_connection,
        is_inside: Callable[[Sequence[str]], bool] = are_inside,
    ) -> None:
        """Serve nothing yet.

        Args:
            resolve: Returns the addresses of a name.
            connect: Connects to an address.
            is_inside: Returns whether some of the addresses are not of the internet.
        """
        self._resolve = resolve
        self._connect = connect
        self._is_inside = is_inside
        self._slots = asyncio.Semaphore(_AT_ONCE_MAX)

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: ProxyUser
    ) -> None:
        """Serve one connection of *user* to its end."""
        try:
            # One side went away, and the other one sees the end.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with self._slots:
                    await self._serve(reader, writer, user)
        finally:
            await _closed(writer)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: ProxyUser
    ) -> None:
        try:
            request = await _read_request(reader)
        except ContactRefused as error:
            writer.write(_answer(error))
            return

        def note(refusal: str = "") -> None:
            user.note(Contact(request.host, request.port, refusal))

        try:
            back, to = await self._opened(request, user)
        except ContactRefused as error:
            note(str(error))
            writer.write(_answer(error))
            return
        try:
            if not request.is_tunnel:
                note()
                to.write(request.head)
                await _one_request(reader, request.body_bytes, back, to, writer)
                return
            writer.write(_ESTABLISHED)
            tunnel = _Tunnel(reader, writer, back, to)
            try:
                await tunnel.begin(request)
                note()
                await tunnel.carry()
            except BadHelloError as error:
                note(f"the connection to {request.host} is not passed on: {error}")
        finally:
            await _closed(to)

    async def _opened(self, request: ProxyRequest, user: ProxyUser) -> _Streams:
        """Return a connection to the host of *request*.

        Raises:
            ContactRefused: It is not allowed, or cannot be reached.
        """
        host, port = request.host, request.port
        if reason := await user.decide(host, port):
            raise ContactRefused(reason)
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                addresses = await self._resolve(host)
        except TimeoutError:
            addresses = ()
        if not addresses:
            raise ContactRefused(f"{host} has no address", "502 Bad Gateway")
        if self._is_inside(addresses):
            raise ContactRefused(f"{host} leads to an address inside your own network")
        failure = ""
        for address in dict.fromkeys(addresses):
            try:
                async with asyncio.timeout(_CONNECT_LIMIT_S):
                    return await self._connect(address, port)
            except OSError as error:  # a TimeoutError too
                failure = error.strerror or "no answer"
        raise ContactRefused(f"{host} cannot be reached: {failure}", "502 Bad Gateway")


class _Tunnel:
    """The bytes of a CONNECT, both ways; it ends with its command, or before."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        to: asyncio.StreamWriter,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._back = back
        self._to = to
        self._records: ClientRecords | None = None
        self._fault: BadHelloError | None = None

    async def begin(self, request: ProxyRequest) -> None:
        """Read the client's first bytes, and pass them on if they are for the host of *request*.

        Ports that only a rule opens carry any protocol.

        Raises:
            BadHelloError: It is not.
        """
        if request.port not in (HTTP_PORT, HTTPS_PORT, SSH_PORT):
            return
        first, name = b"", None
        try:
            async with asyncio.timeout(_HEAD_LIMIT_S):
                while name is None:
                    piece = await self._reader.read(_CHUNK)
                    if not piece:
                        raise BadHelloError("it ended before its first message")
                    first += piece
                    is_ssh = request.port == SSH_PORT
                    name = _ssh(first, request.host) if is_ssh else server_name(first)
        except TimeoutError as error:
            raise BadHelloError("its first message did not come") from error
        if name != request.host:
            raise BadHelloError(f"it asks for another server, {(name or '')[:80]!r}")
        if request.port != SSH_PORT:
            self._records = ClientRecords(request.host)
            self._records.take(first)
        self._to.write(first)

    async def carry(self) -> None:
        """Pass everything on, until both sides have ended.

        Raises:
            BadHelloError: The client asks for another server; both sides have been cut.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copied(self._reader, self._to, self._check))
            tasks.create_task(_copied(self._back, self._writer))
        if self._fault:
            raise self._fault

    def _check(self, piece: bytes) -> bool:
        try:
            if self._records:
                self._records.take(piece)
        except BadHelloError as error:
            self._fault = error
            self._to.transport.abort()
            self._writer.transport.abort()
            return False
        return True


def _ssh(first: bytes, host: str) -> str | None:
    """Return *host* if *first* begins the protocol of SSH; None for more bytes."""
    if not _SSH.startswith(first[: len(_SSH)]):
        raise BadHelloError("it does not begin with SSH")
    return host if len(first) >= len(_SSH) else None


async def _read_request(reader: asyncio.StreamReader) -> ProxyRequest:
    try:
        async with asyncio.timeout(_HEAD_LIMIT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        return parse_request(head)
    except (BadHostError, BadRequestError, asyncio.LimitOverrunError) as error:
        is_long = isinstance(error, asyncio.LimitOverrunError)
        about = "its head is too long" if is_long else error
        raise ContactRefused(f"the request is not passed on: {about}", "400 Bad Request") from error


def _answer(error: ContactRefused) -> bytes:
    body = f"agent-cli: {error}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {error.status}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _one_request(
    reader: asyncio.StreamReader,
    body_bytes: int,
    back: asyncio.StreamReader,
    to: asyncio.StreamWriter,
    writer: asyncio.StreamWriter,
) -> None:
    """Pass a body of *body_bytes* on, and the answer back; nothing that follows the body."""
    async with asyncio.TaskGroup() as tasks:
        answering = tasks.create_task(_copied(back, writer))
        sending = tasks.create_task(_body(reader, body_bytes, to, writer))
        await answering
        sending.cancel()


async def _body(
    reader: asyncio.StreamReader,
    body_bytes: int,
    to: asyncio.StreamWriter,
    writer: asyncio.StreamWriter,
) -> None:
    with contextlib.suppress(OSError):
        while body_bytes and (piece := await reader.read(min(_CHUNK, body_bytes))):
            body_bytes -= len(piece)
            to.write(piece)
            await to.drain()
        if await reader.read(1):
            # A further request: the client must open a connection of its own for it.
            to.transport.abort()
            writer.transport.abort()


async def _copied(
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
    check: Callable[[bytes], bool] = lambda _piece: True,
) -> None:
    with contextlib.suppress(OSError):
        while (piece := await source.read(_CHUNK)) and check(piece):
            sink.write(piece)
            await sink.drain()
    with contextlib.suppress(OSError, RuntimeError):  # the other side is gone
        sink.write_eof()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):  # a TimeoutError too
        async with asyncio.timeout(_CLOSE_LIMIT_S):
            await writer.wait_closed()
    writer.transport.abort()
