"""Ways to a server that no rule allows, past a proxy that allows `ALLOWED` alone."""

import contextlib
import ssl
import struct
from collections.abc import Iterator
from itertools import product

ALLOWED = "good.example.com"
EVIL = "evil.example.net"

# Notations of this machine and of internal ones, and names that are none of the internet.
ADDRESSES = (
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1"),
    *("0177.0.0.1", "017700000001", "127.0.0.1.", "[::1]", "::1", "[::ffff:127.0.0.1]", "[::]"),
    *(
        "[::ffff:7f00:1]",
        "[fe80::1%25eth0]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0",
        "0.0.0.0",
    ),
    *(
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "1.1.1.1",
        "8.8.8.8",
    ),
    *("[2606:4700::1111]", "1.1", "016777216.1", "0x1.0x1.0x1.0x1", "localhost", "a.localhost"),
    *("metadata.google.internal", "printer.local", "router.lan", "host.docker.internal", "x.corp"),
    *("intranet", "a.home.arpa", "１２７.０.０.１", "127。0。0。1", "ⓔvil.example.net", "a.test"),
)
_SPELLINGS = (
    *(
        f"{EVIL}",
        f"{ALLOWED}.{EVIL}",
        f"{ALLOWED}@{EVIL}",
        f"{EVIL}#@{ALLOWED}",
        f"{EVIL}?{ALLOWED}",
    ),
    *(f"{ALLOWED}%00.{EVIL}", f"{ALLOWED}%2e{EVIL}", f"{ALLOWED}\\@{EVIL}", f"{ALLOWED}%40{EVIL}"),
    *(f"{ALLOWED}.", f".{ALLOWED}", f"{ALLOWED}..", f"{ALLOWED},{EVIL}", f"{ALLOWED};{EVIL}"),
    *(f"user:pass@{ALLOWED}", f"{ALLOWED}:80:443", f"{ALLOWED}%", f"xn--{ALLOWED}", f"-{ALLOWED}"),
    *(
        f"{EVIL}:443@{ALLOWED}",
        f"{'a' * 64}.example.com",
        f"{'a.' * 130}com",
        f"{ALLOWED}\x00{EVIL}",
    ),
    *(f"{ALLOWED}\t{EVIL}", f"sub.{ALLOWED}", "example.com", "good.example.co", "com"),
)
_PORTS = ("0", "00443", "+443", "-1", "65536", "443.0", " 443", "", "0x1bb", "４４３", "443 ", "25")


def heads() -> Iterator[bytes]:
    """Yield heads of requests none of which may lead to a connection."""
    for host in (*ADDRESSES, *_SPELLINGS):
        yield f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode()
        yield f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    for port in _PORTS:
        yield f"CONNECT {ALLOWED}:{port} HTTP/1.1\r\n\r\n".encode()
    for other in ("22", "8443", "5432", "6379"):
        yield f"GET http://{ALLOWED}:{other}/ HTTP/1.1\r\n\r\n".encode()
    good = f"http://{ALLOWED}/".encode()
    yield from (
        b"GET / HTTP/1.1\r\nHost: good.example.com\r\n\r\n",
        b"GET https://good.example.com/ HTTP/1.1\r\n\r\n",
        b"GET ftp://good.example.com/ HTTP/1.1\r\n\r\n",
        b"GET //good.example.com/ HTTP/1.1\r\n\r\n",
        b"GET http:/good.example.com/ HTTP/1.1\r\n\r\n",
        b"GET http:\\\\good.example.com/ HTTP/1.1\r\n\r\n",
        b"GET unix:/run/docker.sock HTTP/1.1\r\n\r\n",
        b"CONNECT good.example.com HTTP/1.1\r\n\r\n",
        b"CONNECT http://good.example.com:443/ HTTP/1.1\r\n\r\n",
        b"CONNECT good.example.com:443 HTTP/2.0\r\n\r\n",
        b"CONNECT good.example.com:443\r\n\r\n",
        b"CONNECT  good.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT good.example.com:443 evil.example.net:443 HTTP/1.1\r\n\r\n",
        b"CONNECT good.example.com:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x05\x01\x00" + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01" + b"\r\n\r\n",
        b"GET " + good + b"#@evil.example.net HTTP/1.1\r\n\r\n",
        b"GET " + good + b"\x7f HTTP/1.1\r\n\r\n",
        b"GET " + good + b"\xc0\xaf HTTP/1.1\r\n\r\n",
        b"G\x00T " + good + b" HTTP/1.1\r\n\r\n",
        b"GET " + good + b" HTTP/1.1" + b"\r\nX: y" * 9_000 + b"\r\n\r\n",
    )
    hosts = (EVIL, f"{EVIL}:80", f"{ALLOWED}:8080", "127.0.0.1", "", f"{ALLOWED}, {EVIL}", "ⓔ")
    for host, request in product(hosts, (b"GET " + good, b"CONNECT good.example.com:443")):
        yield request + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    for header in (
        *("Host: good.example.com\r\nHost: evil.example.net", "Transfer-Encoding: chunked"),
        *("Transfer-Encoding: identity", "Transfer-Encoding : chunked", " folded: x", "no colon"),
        *("Content-Length: 1\r\nContent-Length: 2", "Content-Length: +1", "Content-Length: 1, 1"),
        *("Content-Length: 0x1", "Content-Length: -1", "Content-Length: 1\r\nContent-Length: 1"),
        *("X: a\nHost: evil.example.net", "X: a\rHost: evil.example.net", "X\x00: a", "X: a\x00b"),
        *("Connection: content-length\r\nContent-Length: 3", "Host : evil.example.net", ": x"),
        *("Content-Length: 1\r\nTransfer-Encoding: chunked", "X: a\x0bHost: evil.example.net"),
    ):
        yield b"POST " + good + b" HTTP/1.1\r\n" + header.encode() + b"\r\n\r\n"


def hello(name: str | None) -> bytes:
    """Return what Python's TLS sends first to the server *name*."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def records(message: bytes, *, bytes_max: int = 16_000) -> bytes:
    """Return the handshake *message* in records of at most *bytes_max*."""
    parts = [message[at : at + bytes_max] for at in range(0, len(message), bytes_max)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts)


def _message(body: bytes) -> bytes:
    return b"\x01" + len(body).to_bytes(3) + body


def _names(*names: bytes, kind: int = 0) -> bytes:
    listed = b"".join(bytes([kind]) + struct.pack(">H", len(name)) + name for name in names)
    return struct.pack(">H", len(listed)) + listed


def crafted(*extensions: tuple[int, bytes]) -> bytes:
    """Return a ClientHello message with *extensions*."""
    packed = b"".join(struct.pack(">HH", kind, len(data)) + data for kind, data in extensions)
    start = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    return _message(start + struct.pack(">H", len(packed)) + packed)


GOOD_HELLO = crafted((0, _names(ALLOWED.encode())))
_EVIL_HELLO = crafted((0, _names(EVIL.encode())))
_KEY = b"\x17\x03\x03\x00\x20" + bytes(32)
_CHANGE = b"\x14\x03\x03\x00\x01\x01"


def first_messages() -> Iterator[bytes]:
    """Yield what a client may send first in a tunnel to `ALLOWED`: nothing of it may arrive."""
    good, evil = ALLOWED.encode(), EVIL.encode()
    yield from (hello(EVIL), hello(None), hello(f"sub.{ALLOWED}"), hello("example.com"))
    for extensions in (
        ((0, _names(evil)),),
        ((0, _names(good, evil)),),
        ((0, _names(evil, good)),),
        ((0, _names(good)), (0, _names(evil))),
        ((0, _names(good, kind=1)),),
        ((0, _names()),),
        ((0, b""),),
        ((0, _names(good) + b"\x00"),),
        ((0, _names(good + b".")),),
        ((0, _names(good + b"\x00." + evil)),),
        ((0, _names(b"127.0.0.1")),),
        ((0, _names(good)), (0xFE0D, b"\x00" * 20)),
        ((0, _names(good)), (0xFFCE, b"\x00" * 20)),
        (),
    ):
        yield records(crafted(*extensions))
    yield records(_EVIL_HELLO, bytes_max=7)
    yield records(GOOD_HELLO + _EVIL_HELLO)
    yield records(GOOD_HELLO[:-1]) + records(b"\x00" + _EVIL_HELLO)
    yield from (
        b"GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x02\x00\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\xff\xff\x01",
        b"\x16\x03\x01\x00\x00",
        b"\x17\x03\x03\x00\x01\x00",
        records(b"\x02" + GOOD_HELLO[1:]),
        records(b"\x01\xff\xff\xff"),
        records(_message(GOOD_HELLO[4:] + b"\x00")),
        records(GOOD_HELLO)[:-1],
        b"",
    )


def later_messages() -> Iterator[bytes]:
    """Yield what a client may send behind a good ClientHello: nothing of it may arrive."""
    for before in (b"", _CHANGE, _KEY, _CHANGE + _KEY * 3):
        yield before + records(_EVIL_HELLO)
        yield before + records(_EVIL_HELLO, bytes_max=9)
        yield before + records(_EVIL_HELLO, bytes_max=1)
    yield records(hello(EVIL)[5:])
    yield records(GOOD_HELLO + _EVIL_HELLO)
    yield b"GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"
    yield b"\x16\x02\x00\x00\x05\x01"
