"""Parse the head of a request to the proxy: CONNECT, or a request for an http address.

Anything unusual is refused: an honest client sends none of it, and each form that two programs read
differently is a way around a rule.
"""

import re
from typing import Final

from agent_cli.system.addresses import is_internal_host
from agent_cli.system.records import dataclass

HEAD_BYTES_MAX: Final = 32 * 1024
HTTP_PORT, HTTPS_PORT, SSH_PORT = 80, 443, 22

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label begins with a letter: "127.1" and "2130706433" are addresses to some programs.
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?=[a-z]){_LABEL}")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_PORT_MAX: Final = 65_535
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_SHOWN_CHARS: Final = 80
# They belong to one connection, or to the proxy; the rest is the host's.
_DROPPED: Final = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authorization", b"proxy-authenticate", b"host", b"expect", b"http2-settings"),
    )
)


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
        BadRequestError: It is refused.
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


def parse_authority(text: str, *, default: int | None = None) -> tuple[str, int]:
    """Return the host and the port of *text*; *default* is the port that may be left out.

    Raises:
        BadRequestError: It is no name of a host on the internet, or no port.
    """
    host, colon, written = text.partition(":")
    if not colon and default is not None:
        return parse_host(host), default
    if not _PORT.fullmatch(written) or int(written) > _PORT_MAX:
        raise BadRequestError(f"{text[:_SHOWN_CHARS]!r} is not a host and a port")
    return parse_host(host), int(written)


def parse_host(text: str) -> str:
    """Return the name *text* in lowercase.

    Raises:
        BadRequestError: It is an address, or no name of a host on the internet.
    """
    name = text.lower() if text.isascii() else ""
    if not _NAME.fullmatch(name) or is_internal_host(name):
        raise BadRequestError(
            f"{text[:_SHOWN_CHARS]!r} is not the name of a host on the internet; addresses are not"
            " passed on"
        )
    return name


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
