"""Read the server's name in what a client sends in TLS, before and after its first message.

Source: RFC 8446 sections 4.1.2 (ClientHello), 4.1.4 (a second one) and 5.1 (records), RFC 6066
section 3 (server_name), RFC 9849 (encrypted ClientHello).
"""

from typing import Final

_HANDSHAKE, _CLIENT_HELLO = 0x16, 1
_RECORD_KINDS: Final = (0x14, 0x15, _HANDSHAKE, 0x17)
_HEADER_BYTES, _RECORD_BYTES_MAX = 5, 16 * 1024 + 2048
_SERVER_NAME: Final = 0
# They carry a second name that is encrypted.
_HIDDEN_NAMES: Final = (0xFE0D, 0xFFCE)
_PEEKED_BYTES: Final = 4


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
