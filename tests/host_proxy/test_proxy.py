"""The proxy of the sandbox: what it passes on, and 200 ways around it that lead nowhere."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agent_cli.host_proxy.proxy import Contact, HostProxy
from agent_cli.system.addresses import are_inside
from tests.host_proxy import tricks
from tests.host_proxy.tricks import ALLOWED, GOOD_HELLO, hello, records
from tests.tables import each_row

PUBLIC = "93.184.216.34"
LIMIT_S = 20.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = f"GET http://{ALLOWED}/a?b HTTP/1.1\r\nHost: {ALLOWED}\r\nX-Y: z\r\n".encode()


@dataclass
class Around:
    """A proxy that allows `ALLOWED` on its usual ports, and a server in place of all others.

    Attributes:
        allows_all: It allows every host instead.
        addresses: The answers of the resolver in turn; the last one stays.
        connected: Where the proxy connected to.
        received: What arrived there.
    """

    port: int = 0
    addresses: list[Sequence[str]] = field(default_factory=lambda: [[PUBLIC]])
    resolved: list[str] = field(default_factory=list[str])
    connected: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    received: bytes = b""
    contacts: list[Contact] = field(default_factory=list[Contact])
    ports: Sequence[int] = (80, 443)
    allows_all: bool = False

    async def decide(self, host: str, port: int) -> str:
        return (
            ""
            if self.allows_all or (host == ALLOWED and port in self.ports)
            else f"no rule allows {host}"
        )

    def note(self, contact: Contact) -> None:
        self.contacts.append(contact)

    async def resolve(self, host: str) -> Sequence[str]:
        self.resolved.append(host)
        return self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]

    async def talk(self, *pieces: bytes, ends: bool = False) -> bytes:
        """Send *pieces*, each after some answer to the one before; return all answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        answer = b""
        async with asyncio.timeout(LIMIT_S):
            with contextlib.suppress(ConnectionError):
                for number, piece in enumerate(pieces):
                    if number:
                        answer += await reader.read(65_536)
                    writer.write(piece)
                    await writer.drain()
                if ends:
                    writer.write_eof()
                answer += await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def around(answer: bytes = ANSWER) -> AsyncGenerator[Around]:
    """Run both; the server answers each piece with *answer*."""
    it = Around()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                it.received += piece
                writer.write(answer)
                if b"Connection: close" in piece:
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    its_port = server.sockets[0].getsockname()[1]

    async def connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        it.connected.append((address, port))
        return await asyncio.open_connection("127.0.0.1", its_port)

    proxy = HostProxy(resolve=it.resolve, connect=connect, is_inside=are_inside)
    front = await asyncio.start_server(
        lambda reader, writer: proxy.serve(reader, writer, it), "127.0.0.1", limit=32 * 1024
    )
    it.port = front.sockets[0].getsockname()[1]
    async with server, front:
        yield it


def connect_to(host: str = ALLOWED, port: int = 443) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


async def test_tunnel_carries_tls_for_the_name_that_was_asked_for() -> None:
    async with around() as it:
        answer = await it.talk(connect_to(), hello(ALLOWED), ends=True)

    assert answer.endswith(ANSWER)
    assert it.connected == [(PUBLIC, 443)]
    assert it.contacts == [Contact(ALLOWED, 443)]


async def test_request_is_passed_on_without_what_is_the_proxys() -> None:
    async with around() as it:
        head = GET + b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\r\n"
        answer = await it.talk(head)

    assert answer == ANSWER
    assert it.received == (
        f"GET /a?b HTTP/1.1\r\nHost: {ALLOWED}\r\nx-y: z\r\nConnection: close\r\n\r\n".encode()
    )


async def test_refusal_says_why_and_asks_no_resolver() -> None:
    """A name in a query to a resolver is data that left."""
    async with around() as it:
        answer = await it.talk(connect_to("secret-data.evil.example.net"))

    assert answer.endswith(b"\r\n\r\nagent-cli: no rule allows secret-data.evil.example.net\n")
    assert it.resolved == []
    assert [contact.refusal for contact in it.contacts] == [
        "no rule allows secret-data.evil.example.net"
    ]


async def test_no_head_leads_anywhere_but_to_an_allowed_host() -> None:
    heads = list(tricks.heads())
    passed: list[bytes] = []
    async with around() as it:
        for head in heads:
            answer = await it.talk(head, ends=True)
            if it.connected or answer.startswith(b"HTTP/1.1 2"):
                passed.append(head)
            it.connected.clear()

    assert passed == []
    assert len(heads) >= 150


async def test_addresses_and_internal_names_are_refused_where_every_host_is_allowed() -> None:
    """Whatever a resolver says about them: to some programs they are this machine."""
    async with around() as it:
        it.allows_all = True
        for host in tricks.ADDRESSES:
            await it.talk(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode(), ends=True)
            await it.talk(f"GET http://{host}/ HTTP/1.1\r\n\r\n".encode(), ends=True)

    assert (it.connected, it.resolved) == ([], [])


@each_row("is_split", [False, True])
async def test_no_other_first_message_passes_a_tunnel(*, is_split: bool) -> None:
    passed: list[bytes] = []
    async with around() as it:
        for first in tricks.first_messages():
            cut = 6 if is_split else len(first)
            await it.talk(connect_to() + first[:cut], first[cut:], ends=True)
            if it.received:
                passed.append(first)
            it.received = b""

    assert passed == []


async def test_refusal_of_a_tunnel_names_the_other_server() -> None:
    async with around() as it:
        await it.talk(connect_to(), hello(tricks.EVIL), ends=True)

    assert [contact.refusal for contact in it.contacts] == [
        f"the connection to {ALLOWED} is not passed on: it asks for another server, {tricks.EVIL!r}"
    ]


async def test_no_second_hello_passes_a_tunnel() -> None:
    """A server may ask for a second ClientHello, which may name another server."""
    good = records(GOOD_HELLO)
    messages = list(tricks.later_messages())
    passed: list[bytes] = []
    async with around() as it:
        for later in messages:
            await it.talk(connect_to(), good, later, ends=True)
            if b"evil" in it.received or later in it.received:
                passed.append(later)
            it.received = b""
    firsts = len(list(tricks.first_messages()))

    assert passed == []
    assert len(list(tricks.heads())) + firsts + len(messages) >= 200


async def test_repeated_hello_and_encrypted_records_pass() -> None:
    """After a HelloRetryRequest the same name comes again; a Finished of TLS 1.2 is encrypted."""
    good = records(GOOD_HELLO)
    finished = records(bytes([1, 7, *range(38)]))
    more = b"\x14\x03\x03\x00\x01\x01" + good + finished + b"\x17\x03\x03\x10\x00" + bytes(4096)

    async with around() as it:
        await it.talk(connect_to(), good, more, ends=True)

    assert it.received == good + more


@each_row(
    "inside",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("::1", "::", "fd00::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
async def test_allowed_name_of_an_internal_address_is_refused(inside: str) -> None:
    """Rebinding: also beside a public address, and only one answer of the resolver counts."""
    async with around() as it:
        it.addresses = [[inside]]
        alone = await it.talk(connect_to())
        it.addresses = [[PUBLIC, inside]]
        beside = await it.talk(GET + b"\r\n")
        it.addresses = [[PUBLIC], [inside]]
        await it.talk(connect_to(), records(GOOD_HELLO), ends=True)

    assert b"inside your own network" in alone
    assert b"inside your own network" in beside
    assert it.connected == [(PUBLIC, 443)]
    assert len(it.resolved) == 3


@each_row(
    "more",
    [
        b"GET http://evil.example.net/ HTTP/1.1\r\n\r\n",
        b"GET /second HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
    ],
)
async def test_one_connection_carries_one_request(more: bytes) -> None:
    """What follows a body is a further request to the server, and was judged by no one."""
    async with around() as it:
        await it.talk(GET + b"Content-Length: 3\r\n\r\nabc" + more)

    assert it.received.endswith(b"Connection: close\r\n\r\nabc")


async def test_redirect_is_the_clients_to_follow() -> None:
    """It asks for the other host by itself, and is refused."""
    away = b"HTTP/1.1 302 Found\r\nLocation: http://evil.example.net/\r\nContent-Length: 0\r\n\r\n"
    async with around(away) as it:
        answer = await it.talk(GET + b"\r\n")

    assert answer == away
    assert it.connected == [(PUBLIC, 80)]


async def test_ssh_port_carries_ssh_only() -> None:
    async with around(b"SSH-2.0-server\r\n") as it:
        it.ports = (22,)
        await it.talk(connect_to(port=22), b"GET / HTTP/1.1\r\n\r\n", ends=True)
        refused = it.received
        answer = await it.talk(connect_to(port=22), b"SSH-2.0-client\r\n", ends=True)

    assert refused == b""
    assert it.received == b"SSH-2.0-client\r\n"
    assert answer.endswith(b"SSH-2.0-server\r\n")
