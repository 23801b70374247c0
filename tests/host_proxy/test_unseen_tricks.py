"""Ways around the proxy of the sandbox, written without a look at those of `tricks.py`.

Each has a marker that must not arrive at the server behind the proxy, or that must not be reached.
"""

import asyncio
import ssl
import struct
from collections.abc import Sequence

import pytest

from agent_cli.system.addresses import are_inside
from tests.host_proxy.test_proxy import around, connect_to
from tests.tables import each_row

GOOD = "registry.example"
BAD = "evil.example"


def client_hello(name: str | None) -> bytes:
    """Return what OpenSSL sends first to the server *name*, as one record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def with_names(*names: bytes, kinds: Sequence[int] = (), cut: int = 0) -> bytes:
    """Return a ClientHello whose server_name extension lists *names*, of *kinds* (0: host)."""
    kinds = kinds or [0] * len(names)
    listed = b"".join(
        bytes([kind]) + struct.pack(">H", len(name)) + name
        for kind, name in zip(kinds, names, strict=True)
    )
    content = struct.pack(">H", len(listed) - cut) + listed
    return hello_of(extension(0, content))


def extension(kind: int, content: bytes) -> bytes:
    return struct.pack(">HH", kind, len(content)) + content


def sni(name: str) -> bytes:
    listed = b"\0" + struct.pack(">H", len(name)) + name.encode()
    return extension(0, struct.pack(">H", len(listed)) + listed)


def hello_of(extensions: bytes, *, version: bytes = b"\3\3", record: bytes = b"\3\1") -> bytes:
    body = (
        version + b"r" * 32 + b"\0" + b"\0\2\x13\1" + b"\1\0"
        + struct.pack(">H", len(extensions)) + extensions
    )  # fmt: skip
    message = b"\1" + len(body).to_bytes(3) + body
    return b"\x16" + record + struct.pack(">H", len(message)) + message


def in_pieces(hello: bytes, *sizes: int) -> bytes:
    """Return the message of *hello* in several records of *sizes*, the rest in the last one."""
    content, out = hello[5:], b""
    for size in (*sizes, len(content)):
        piece, content = content[:size], content[size:]
        if piece:
            out += b"\x16\3\1" + struct.pack(">H", len(piece)) + piece
    return out


def get(target: str, *headers: str, version: str = "HTTP/1.1", method: str = "GET") -> bytes:
    lines = [f"{method} {target} {version}", *headers, "X-Marker: crossed", "", ""]
    return "\r\n".join(lines).encode("latin-1")


def connect(authority: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"CONNECT {authority} {version}", *headers, "", ""]).encode("latin-1")


_BAD_HELLO, _GOOD_HELLO = hello_of(sni(BAD)), hello_of(sni(GOOD))

# What follows a CONNECT to the allowed host: nothing of it may arrive.
HELLOS = {
    "another name": _BAD_HELLO,
    "openssl, another name": client_hello(BAD),
    "openssl, no name": client_hello(None),
    "openssl, an address": client_hello("127.0.0.1"),
    "no extensions": hello_of(b""),
    "no extension block": (b"\x16\3\1\0\x2d\1\0\0\x29\3\3" + b"r" * 32 + b"\0\0\2\x13\1\1\0"),
    "two names": with_names(GOOD.encode(), BAD.encode()),
    "two names, the bad first": with_names(BAD.encode(), GOOD.encode()),
    "the same name twice": with_names(GOOD.encode(), GOOD.encode()),
    "a name of an unknown kind": with_names(GOOD.encode(), kinds=[1]),
    "a second name of another kind": with_names(GOOD.encode(), BAD.encode(), kinds=[0, 9]),
    "an empty name": with_names(b""),
    "no names": with_names(),
    "two extensions": hello_of(sni(GOOD) + sni(BAD)),
    "two extensions, the bad first": hello_of(sni(BAD) + sni(GOOD)),
    "two equal extensions": hello_of(sni(GOOD) + sni(GOOD)),
    "a longer name": with_names(f"{GOOD}.{BAD}".encode()),
    "a name below": with_names(f"a.{GOOD}".encode()),
    "a trailing dot": with_names(f"{GOOD}.".encode()),
    "two trailing dots": with_names(f"{GOOD}..".encode()),
    "a NUL inside": with_names(f"{GOOD}\0.{BAD}".encode()),
    "a NUL at the end": with_names(f"{GOOD}\0".encode()),
    "a space at the end": with_names(f"{GOOD} ".encode()),
    "a newline": with_names(f"{GOOD}\n{BAD}".encode()),
    "a port": with_names(f"{GOOD}:443".encode()),
    "a user": with_names(f"{GOOD}@{BAD}".encode()),
    "a wildcard": with_names(b"*.example"),
    "a fullwidth letter": with_names("registry.example".replace("e", "ｅ", 1).encode()),
    "a cyrillic letter": with_names("rеgistry.example".encode()),
    "latin-1": with_names(b"registry.exampl\xe9"),
    "a list that ends early": with_names(GOOD.encode(), BAD.encode(), cut=len(BAD) + 3),
    "a list that ends late": with_names(GOOD.encode(), cut=-4),
    "a name longer than its list": hello_of(
        extension(0, struct.pack(">H", 5) + b"\0" + struct.pack(">H", 40) + GOOD.encode())
    ),
    "bytes behind the list": hello_of(
        extension(0, sni(GOOD)[4:] + b"\0" + struct.pack(">H", len(BAD)) + BAD.encode())
    ),
    "an encrypted hello": hello_of(sni(GOOD) + extension(0xFE0D, b"\0" * 40)),
    "an encrypted hello before": hello_of(extension(0xFE0D, b"\1") + sni(GOOD)),
    "an older encrypted name": hello_of(sni(GOOD) + extension(0xFFCE, BAD.encode())),
    "an extension beyond the end": hello_of(sni(GOOD) + struct.pack(">HH", 16, 900) + BAD.encode()),
    "half an extension": hello_of(sni(GOOD) + b"\0\x10\0"),
    "split after a byte": in_pieces(_BAD_HELLO, 1),
    "split after the header": in_pieces(_BAD_HELLO, 4),
    "split inside the name": in_pieces(_BAD_HELLO, len(_BAD_HELLO) - 10),
    "one byte a record": in_pieces(_BAD_HELLO, *([1] * 30)),
    "the good one split, the bad behind": in_pieces(_GOOD_HELLO, 4) + _BAD_HELLO,
    "two messages in a record": (
        b"\x16\3\1"
        + struct.pack(">H", len(_GOOD_HELLO) + len(_BAD_HELLO) - 10)
        + _GOOD_HELLO[5:]
        + _BAD_HELLO[5:]
    ),
    "an empty record first": b"\x16\3\1\0\0" + _BAD_HELLO,
    "an alert first": b"\x15\3\1\0\2\1\0" + _BAD_HELLO,
    "a change of cipher first": b"\x14\3\3\0\1\1" + _BAD_HELLO,
    "data first": b"\x17\3\3\0\1x" + _BAD_HELLO,
    "a heartbeat first": b"\x18\3\3\0\1x" + _BAD_HELLO,
    "SSL 2": b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + b"x" * 37,
    "SSL 2 with another name": b"\x80\x40\1\0\2" + BAD.encode(),
    "record version 2": hello_of(sni(BAD), record=b"\2\0"),
    "record version 0x0399": hello_of(sni(BAD), record=b"\3\x99"),
    "a record too long": b"\x16\3\1\xff\xff" + _BAD_HELLO,
    "a message shorter than its record": (
        b"\x16\3\1" + struct.pack(">H", len(_GOOD_HELLO) - 5 + 6) + _GOOD_HELLO[5:] + b"\1evil."
    ),
    "a server hello": b"\x16\3\1\0\4\2\0\0\0",
    "http": f"GET / HTTP/1.1\r\nHost: {BAD}\r\n\r\n".encode(),
    "http for the good host": f"GET / HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode(),
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a second CONNECT": connect(f"{BAD}:443"),
    "ssh": b"SSH-2.0-OpenSSH_9\r\n",
    "smtp": b"EHLO evil.example\r\nSTARTTLS\r\n",
    "a proxy line": f"PROXY TCP4 1.2.3.4 5.6.7.8 1 443\r\n{BAD}".encode(),
    "a proxy line of bytes": b"\r\n\r\n\0\r\nQUIT\n" + BAD.encode(),
    "socks 4a": b"\4\1\1\xbb\0\0\0\1\0" + BAD.encode() + b"\0",
    "socks 5": b"\5\1\0",
    "git": b"0032git-upload-pack /x\0host=evil.example\0",
    "spaces before": b"   " + _BAD_HELLO,
    "a newline before": b"\r\n" + _BAD_HELLO,
}


@each_row("hello", HELLOS.values(), ids=HELLOS)
async def test_nothing_but_tls_for_the_allowed_name_gets_through(hello: bytes) -> None:
    """Threat 18: no byte of it reaches the server."""
    async with around() as it:
        it.allows_all = True
        await it.talk(connect_to(GOOD), hello, ends=True)

        assert it.received == b""


# What follows the allowed hello in the same tunnel.
SECOND = {
    "another name": _BAD_HELLO,
    "openssl": client_hello(BAD),
    "no name": hello_of(b""),
    "behind a change of cipher": b"\x14\3\3\0\1\1" + _BAD_HELLO,
    "behind two changes of cipher": b"\x14\3\3\0\1\1" * 2 + _BAD_HELLO,
    "behind early data": b"\x17\3\3\0\5early" + _BAD_HELLO,
    "behind much early data": b"\x17\3\3\x40\0" + b"e" * 0x4000 + _BAD_HELLO,
    "split after a byte": in_pieces(_BAD_HELLO, 1),
    "split after three bytes": in_pieces(_BAD_HELLO, 3),
    "split after the header": in_pieces(_BAD_HELLO, 4),
    "split inside the name": in_pieces(_BAD_HELLO, len(_BAD_HELLO) - 10),
    "two in a record": (
        b"\x16\3\3"
        + struct.pack(">H", len(_GOOD_HELLO) + len(_BAD_HELLO) - 10)
        + _GOOD_HELLO[5:]
        + _BAD_HELLO[5:]
    ),
    "an encrypted hello": hello_of(sni(GOOD) + extension(0xFE0D, BAD.encode())),
    "behind an empty record": b"\x16\3\3\0\0" + _BAD_HELLO,
    "another version": hello_of(sni(BAD), record=b"\3\3"),
    "http": f"GET / HTTP/1.1\r\nHost: {BAD}\r\n\r\n".encode(),
}


@each_row("at_once", [True, False])
@each_row("second", SECOND.values(), ids=SECOND)
async def test_second_hello_for_another_name_does_not_arrive(second: bytes, at_once: bool) -> None:
    """Threat 18: a server may ask for one, in plain text."""
    async with around() as it:
        it.allows_all = True
        pieces = [_GOOD_HELLO + second] if at_once else [_GOOD_HELLO, second]
        await it.talk(connect_to(GOOD), *pieces, ends=True)

        assert BAD.encode() not in it.received
        assert b"evil" not in it.received


_AUTHORITIES = (
    *("127.0.0.1:443", "2130706433:443", "0x7f000001:443", "017700000001:443", "127.1:443"),
    *("0177.0.0.1:443", "0x7f.0.0.1:443", "127.0.0.1.:443", "0:443", "0.0.0.0:443", "1.1.1.1:443"),
    *("[::1]:443", "[::ffff:127.0.0.1]:443", "[::]:443", "[fe80::1%25lo]:443", "::1:443"),
    *("[0:0:0:0:0:0:0:1]:443", "[::ffff:7f00:1]:443", "[2606:4700::1111]:443", "[v1.x]:443"),
    *("localhost:443", "localhost.:443", "a.localhost:443", "foo.local:443", "x.internal:443"),
    *(f"{GOOD}.:443", f"{GOOD}:0443", f"{GOOD}:", f"{GOOD}", f"{GOOD}:https", f"{GOOD}:0"),
    *(f"{GOOD}:65536", f"{GOOD}:443:22", f"{GOOD}:-443", f"{GOOD}:+443", f"{GOOD}:4_43"),
    *(f"{GOOD}:٤٤٣".encode().decode("latin-1"), f"{GOOD}%00.{BAD}:443", f"{GOOD}%2e:443"),
    *(f"user@{GOOD}:443", f"{GOOD}@{BAD}:443", f"{GOOD}\\@{BAD}:443", f"{GOOD}#{BAD}:443"),
    *(f"{GOOD}/../{BAD}:443", f"{GOOD}?{BAD}:443", f"{GOOD},{BAD}:443", f"{GOOD};{BAD}:443"),
    *(f"https://{GOOD}:443", f"//{GOOD}:443", f"/{GOOD}:443", "*.example:443", "*:443", ":443"),
    *(f"{GOOD}\t:443", f"{GOOD}\0:443", f"{GOOD}\x0b:443", f"{GOOD}\x85:443", f"{GOOD}\xa0:443"),
    *("registry。example:443".encode().decode("latin-1"), "xn--:443", "registry..example:443"),
    *(".registry.example:443", "-registry.example:443", "registry-.example:443"),
    *(f"{'a' * 64}.example:443", f"{'a.' * 130}example:443", "registry.example.1:443"),
)  # fmt: skip


@each_row("authority", _AUTHORITIES)
async def test_unusual_authority_connects_to_nothing(authority: str) -> None:
    """Threat 18: addresses in any notation, and names that two programs read differently."""
    async with around() as it:
        it.allows_all, it.ports = True, range(65_536)
        answer = await it.talk(connect(authority), ends=True)

        assert it.connected == []
        assert answer.startswith(b"HTTP/1.1 400 ")


_TARGET = f"http://{GOOD}/"
REQUESTS = {
    "another host": get(_TARGET, f"Host: {BAD}"),
    "two hosts": get(_TARGET, f"Host: {GOOD}", f"Host: {BAD}"),
    "two hosts, the bad first": get(_TARGET, f"Host: {BAD}", f"Host: {GOOD}"),
    "a host with a tab": get(_TARGET, f"Host:\t{BAD}"),
    "a folded host": get(_TARGET, f"Host: {GOOD}", f" {BAD}"),
    "a folded header": get(_TARGET, f"X: y\r\n\tHost: {BAD}"),
    "a space before the colon": get(_TARGET, f"Host : {BAD}"),
    "another port in the host": get(_TARGET, f"Host: {GOOD}:8080"),
    "a list of hosts": get(_TARGET, f"Host: {GOOD}, {BAD}"),
    "a bare newline": get(_TARGET, f"X: y\nHost: {BAD}"),
    "a bare return": get(_TARGET, f"X: y\rHost: {BAD}"),
    "a NUL in a header": get(_TARGET, f"X: y\0Host: {BAD}"),
    "origin form": get("/", f"Host: {GOOD}"),
    "origin form, another host": get("/", f"Host: {BAD}"),
    "asterisk form": get("*", f"Host: {GOOD}", method="OPTIONS"),
    "authority form": get(f"{GOOD}:80", f"Host: {GOOD}"),
    "https": get(f"https://{GOOD}/", f"Host: {GOOD}"),
    "ftp": get(f"ftp://{GOOD}/"),
    "file": get("file:///etc/passwd"),
    "gopher": get(f"gopher://{GOOD}/"),
    "no slashes": get(f"http:{GOOD}/"),
    "one slash": get(f"http:/{GOOD}/"),
    "three slashes": get(f"http:///{GOOD}/"),
    "a user": get(f"http://{GOOD}@{BAD}/"),
    "a user and a password": get(f"http://u:p@{GOOD}/"),
    "a backslash": get(f"http://{GOOD}\\@{BAD}/"),
    "a backslash as slash": get(f"http:\\\\{GOOD}/"),
    "a question mark": get(f"http://{GOOD}?@{BAD}/"),
    "a fragment": get(f"http://{GOOD}#@{BAD}/"),
    "a fragment behind": get(f"{_TARGET}#@{BAD}/"),
    "a trailing dot": get(f"http://{GOOD}./"),
    "an address": get("http://127.0.0.1/"),
    "a decimal address": get("http://2130706433/"),
    "an octal address": get("http://0177.0.0.01/"),
    "an address of v6": get("http://[::1]/"),
    "percent signs in the host": get("http://registry%2eexample/"),
    "chunked": get(_TARGET, "Transfer-Encoding: chunked", method="POST"),
    "chunked, in capitals": get(_TARGET, "TRANSFER-ENCODING: CHUNKED", method="POST"),
    "chunked and a length": get(
        _TARGET, "Content-Length: 4", "Transfer-Encoding: chunked", method="POST"
    ),
    "identity": get(_TARGET, "Transfer-Encoding: identity", method="POST"),
    "two lengths": get(_TARGET, "Content-Length: 4", "Content-Length: 40", method="POST"),
    "two equal lengths": get(_TARGET, "Content-Length: 4", "Content-Length: 4", method="POST"),
    "a list of lengths": get(_TARGET, "Content-Length: 4, 4", method="POST"),
    "a signed length": get(_TARGET, "Content-Length: +4", method="POST"),
    "a negative length": get(_TARGET, "Content-Length: -4", method="POST"),
    "a length in hex": get(_TARGET, "Content-Length: 0x4", method="POST"),
    "a length that goes with the connection": get(
        _TARGET, "Content-Length: 4", "Connection: content-length", method="POST"
    ),
    "HTTP/2.0": get(_TARGET, version="HTTP/2.0"),
    "HTTP/0.9": f"GET {_TARGET}\r\n\r\n".encode(),
    "http/1.1": get(_TARGET, version="http/1.1"),
    "two spaces": f"GET  {_TARGET} HTTP/1.1\r\n\r\n".encode(),
    "a tab": f"GET\t{_TARGET} HTTP/1.1\r\n\r\n".encode(),
    "spaces in the address": f"GET {_TARGET}a b HTTP/1.1\r\n\r\n".encode(),
    "a method with a space": f"GE T {_TARGET} HTTP/1.1\r\n\r\n".encode(),
    "newlines only": f"GET {_TARGET} HTTP/1.1\nHost: {BAD}\n\n\r\n\r\n".encode(),
    "an empty line first": f"\r\n\r\nGET {_TARGET} HTTP/1.1\r\nHost: {BAD}\r\n\r\n".encode(),
    "a CONNECT with a body": connect(f"{GOOD}:443", "Content-Length: 5") + b"evil!",
    "a CONNECT with another host": connect(f"{GOOD}:443", f"Host: {BAD}:443"),
    "a CONNECT with another port": connect(f"{GOOD}:443", f"Host: {GOOD}:22"),
    "a CONNECT of chunks": connect(f"{GOOD}:443", "Transfer-Encoding: chunked"),
    "connect": connect(f"{GOOD}:443").replace(b"CONNECT", b"connect"),
}


@each_row("request_", REQUESTS.values(), ids=REQUESTS)
async def test_unusual_request_connects_to_nothing(request_: bytes) -> None:
    """Threat 18: what two programs may read differently is passed to neither."""
    async with around() as it:
        it.allows_all = True
        answer = await it.talk(request_, ends=True)

        assert it.connected == []
        assert answer.startswith(b"HTTP/1.1 400 ")


BEHIND = {
    "pipelined": get(_TARGET, f"Host: {GOOD}") + get(f"http://{BAD}/", f"Host: {BAD}"),
    "pipelined origin form": get(_TARGET) + get("/", f"Host: {BAD}"),
    "kept alive": get(_TARGET, "Connection: keep-alive") + get("/", f"Host: {BAD}"),
    "behind a body": get(_TARGET, "Content-Length: 3", method="POST") + b"abc"
    + get("/", f"Host: {BAD}"),
    "HTTP/1.0 kept alive": get(_TARGET, "Connection: keep-alive", version="HTTP/1.0")
    + get("/", f"Host: {BAD}"),
    "an upgrade": get(_TARGET, "Upgrade: websocket", "Connection: Upgrade") + BAD.encode(),
    "an upgrade to HTTP/2": get(
        _TARGET, "Upgrade: h2c", "HTTP2-Settings: AAMAAABk", "Connection: Upgrade, HTTP2-Settings"
    )
    + BAD.encode(),
    "a CONNECT behind": get(_TARGET) + connect(f"{BAD}:443"),
    "a hidden length": get(_TARGET, "Content-Length: 0", method="POST")
    + get("/", f"Host: {BAD}"),
}  # fmt: skip


@each_row("request_", BEHIND.values(), ids=BEHIND)
async def test_what_follows_a_request_is_not_passed_on(request_: bytes) -> None:
    """Threat 18: a second request on the connection would go to the first one's server."""
    async with around() as it:
        await it.talk(request_.replace(GOOD.encode(), b"allowed.example"), ends=True)
        await asyncio.sleep(0)

        assert BAD.encode() not in it.received
        assert b"Upgrade" not in it.received
        assert it.received.count(b"HTTP/1.") <= 1


@each_row(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.31.255.255"),
        *("192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
        *("255.255.255.255", "::1", "::", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
        *("64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:a00:1::", "fe80::1"),
        *("fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "100::1", "2001:db8::1"),
        *("2001:10::1", "fe80::5efe:10.0.0.1", "2001:470::5efe:127.0.0.1"),
        *("2001:470::200:5efe:10.0.0.1", "3fff::1", "5f00::1"),
    ],
)  # fmt: skip
async def test_allowed_name_that_leads_inside_connects_to_nothing(address: str) -> None:
    """Threat 18: whatever the resolver says, also beside an address of the internet."""
    assert are_inside([address])
    async with around() as it:
        it.allows_all, it.addresses = True, [["93.184.216.34", address]]
        answer = await it.talk(connect_to(GOOD))

        assert it.connected == []
        assert b" 403 " in answer


async def test_name_is_resolved_once_for_a_connection() -> None:
    """Threat 18: rebinding between the check and the connection finds no second look-up."""
    async with around() as it:
        it.allows_all, it.addresses = True, [["93.184.216.34"], ["127.0.0.1"]]
        await it.talk(connect_to(GOOD), _GOOD_HELLO, ends=True)

        assert it.resolved == [GOOD]
        assert it.connected == [("93.184.216.34", 443)]
