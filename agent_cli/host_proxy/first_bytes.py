"""Read the first bytes of a client of the proxy: a request, and the server's name in TLS.

A request is CONNECT, or one for an http address. Anything unusual is refused: an honest client
sends none of it, and each form that two programs read differently is a way around a rule.

Source: RFC 8446 sections 4.1.2 (ClientHello), 4.1.4 (a second one) and 5.1 (records), RFC 6066
section 3 (server_name), RFC 9849 (encrypted ClientHello).
"""

import re
from typing import Final

from agent_cli.system.addresses import HTTP_PORT, parse_authority
from agent_cli.system.records import dataclass

HEAD_BYTES_MAX: Final = 32 * 1024

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
# They belong to one connection, or to the proxy; the rest is the host's.
_DROPPED: Final = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authorization", b"proxy-authenticate", b"host", b"expect", b"http2-settings"),
    )
)

_HANDSHAKE, _CLIENT_HELLO = 0x16, 1
_RECORD_KINDS: Final = (0x14, 0x15, _HANDSHAKE, 0x17)
_HEADER_BYTES, _RECORD_BYTES_MAX = 5, 16 * 1024 + 2048
_SERVER_NAME: Final = 0
# They carry a second name that is encrypted.
_HIDDEN_NAMES: Final = (0xFE0D, 0xFFCE)
_PEEKED_BYTES: Final = 4


class BadRequestError(ValueError):
    """The proxy does not pass on the request; the message says why."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """One request.

    Attributes:
        host: A lowercase name with a dot; never an address.
        is_tunnel: CONNECT; else one http request, which is answered and ends the connection.
        head: The bytes for the host; empty for a tunnel.
        body_bytes: The length of the body that follows; no byte more is passed on.
    """

    host: str
    port: int
    is_tunnel: bool
    head: bytes = b""
    body_bytes: int = 0


def parse_request(head: bytes) -> ProxyRequest:
    """Parse the head of a request, with the empty line at its end.

    Raises:
        BadHostError, BadRequestError: It is refused.
    """
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, target, version = _request_line(lines[0])
    headers = [_header(line) for line in lines[1:]]
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if method == b"CONNECT":
        host, port = parse_authority(target)
        if any(parse_authority(value, default=port) != (host, port) for value in hosts):
            raise BadRequestError("its Host is not the host that it connects to")
        if _body_bytes(headers):
            raise BadRequestError("a CONNECT has no body")
        return ProxyRequest(host, port, is_tunnel=True)
    if not target.lower().startswith("http://"):
        raise BadRequestError("only CONNECT and http:// addresses are passed on")
    authority, slash, path = target[len("http://") :].partition("/")
    if "#" in target:
        raise BadRequestError("its address has a part behind #")
    host, port = parse_authority(authority, default=HTTP_PORT)
    if any(parse_authority(value, default=HTTP_PORT) != (host, port) for value in hosts):
        raise BadRequestError("its Host is not the host of its address")
    body_bytes = _body_bytes(headers)
    new_head = _passed_on(method, slash + path or "/", version, authority, headers)
    return ProxyRequest(host, port, is_tunnel=False, head=new_head, body_bytes=body_bytes)


def _request_line(line: bytes) -> tuple[bytes, str, bytes]:
    parts = line.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadRequestError("it is not a request of HTTP/1.1")
    method, target, version = parts
    if not _TOKEN.fullmatch(method) or not all(0x21 <= byte <= 0x7E for byte in target):
        raise BadRequestError("its first line has a character that does not belong there")
    return method, target.decode("ascii"), version


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadRequestError("a header is not written as name: value")
    return name.lower(), value.strip(b" \t")


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise BadRequestError("a body without a length is not passed on over http; use https")
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise BadRequestError("the length of its body is not certain")
    return int(next(iter(lengths), b"0"))


def _passed_on(
    method: bytes, path: str, version: bytes, authority: str, headers: list[tuple[bytes, bytes]]
) -> bytes:
    named = {
        part.strip().lower()
        for name, value in headers
        if name in (b"connection", b"proxy-connection")
        for part in value.split(b",")
    }
    kept = [(name, value) for name, value in headers if name not in _DROPPED | named]
    if b"content-length" in named:
        raise BadRequestError("the length of its body is not certain")
    lines = [
        b"%s %s %s" % (method, path.encode(), version),
        b"Host: " + authority.lower().encode(),
        *(b"%s: %s" % each for each in kept),
        b"Connection: close",
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


class BadHelloError(ValueError):
    """The bytes are not TLS that is passed on; the message says why."""


def server_name(data: bytes) -> str | None:
    """Return the lowercase name of the server that the ClientHello in *data* asks for.

    Returns:
        None if more bytes are needed.

    Raises:
        BadHelloError: It is none, or names no server, several, or a hidden one.
    """
    message = _message(data)
    if message is None:
        return None
    try:
        return _name(_Reader(message))
    except IndexError as error:
        raise BadHelloError("its first TLS message is not complete in itself") from error


class ClientRecords:
    """Follows the records of a client, and refuses a further ClientHello for another server.

    A server may ask for a second one, in plain text: without a look at it, the first could name an
    allowed server, and the second another one of the same machine.
    """

    def __init__(self, name: str) -> None:
        """Expect *name* in each ClientHello."""
        self._name = name
        self._begun = b""
        self._left = 0

    def take(self, data: bytes) -> None:
        """Look at *data*, the next bytes of the client.

        Raises:
            BadHelloError: They are not to be passed on.
        """
        while data:
            if self._left:
                skipped = min(self._left, len(data))
                self._left -= skipped
                data = data[skipped:]
                continue
            self._begun += data
            data = b""
            if (record := _first_record(self._begun)) is None:
                return
            kind, length = record
            held = len(self._begun) - _HEADER_BYTES
            if kind == _HANDSHAKE and held < min(length, _PEEKED_BYTES):
                return
            if kind == _HANDSHAKE and self._is_hello(length):
                if held < length:
                    return
                if server_name(self._begun[: _HEADER_BYTES + length]) != self._name:
                    raise BadHelloError("its second TLS message asks for another server")
            self._left, data, self._begun = length, self._begun[_HEADER_BYTES:], b""

    def _is_hello(self, length: int) -> bool:
        """Return whether a record may begin a ClientHello; once in 65,536 an encrypted one does."""
        start = self._begun[_HEADER_BYTES : _HEADER_BYTES + _PEEKED_BYTES]
        return start[:1] == bytes([_CLIENT_HELLO]) and (length < _PEEKED_BYTES or start[1] == 0)


class _Reader:
    """Reads fields; IndexError beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def take(self, length: int) -> bytes:
        if length > len(self._data):
            raise IndexError
        taken, self._data = self._data[:length], self._data[length:]
        return taken

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length))

    def vector(self, length_bytes: int) -> "_Reader":
        return _Reader(self.take(self.number(length_bytes)))


def _first_record(data: bytes) -> tuple[int, int] | None:
    """Return the kind and the length of the record that *data* begins with; None for more."""
    if data and data[0] not in _RECORD_KINDS:
        raise BadHelloError("it is not TLS")
    if len(data) < _HEADER_BYTES:
        return None
    length = int.from_bytes(data[3:_HEADER_BYTES])
    if data[1] != 3 or not 0 < length <= _RECORD_BYTES_MAX:
        raise BadHelloError("it is not TLS")
    return data[0], length


def _message(data: bytes) -> bytes | None:
    """Return the body of the ClientHello that *data* begins with; None for more bytes.

    It is alone in its record, as every program sends it: pieces of it in several records, or a
    second message behind it, are ways to be read differently.
    """
    record = _first_record(data)
    if data and data[0] != _HANDSHAKE:
        raise BadHelloError("it does not begin with a ClientHello of TLS")
    if record is None or len(data) < _HEADER_BYTES + record[1]:
        return None
    content = data[_HEADER_BYTES : _HEADER_BYTES + record[1]]
    start, body = content[:_PEEKED_BYTES], content[_PEEKED_BYTES:]
    if start != bytes([_CLIENT_HELLO]) + len(body).to_bytes(3):
        raise BadHelloError("it does not begin with one ClientHello of TLS in a record of its own")
    return body


def _name(hello: _Reader) -> str:
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    extensions = hello.vector(2) if hello else _Reader(b"")
    names: list[_Reader] = []
    while extensions:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in _HIDDEN_NAMES:
            raise BadHelloError("it hides the name of the server (encrypted ClientHello)")
        if kind == _SERVER_NAME:
            names.append(content)
    if len(names) != 1 or hello:
        raise BadHelloError("it does not name one server (SNI)")
    listed = names[0].vector(2)
    kind, name = listed.number(1), listed.vector(2)
    if kind != 0 or listed or names[0]:
        raise BadHelloError("it does not name one server (SNI)")
    return name.take(len(name)).decode("ascii", "replace").lower()
