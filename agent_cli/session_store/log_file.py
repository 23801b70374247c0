"""An append-only file of records: one JSON object a line, checksummed and chained to the last.

    {"sum": checksum of the rest of the line, "prev": the sum of the line before, ...record...}

Knows bytes, disks and locks, not what a record means.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store.codec import JsonObject

_SUM_CHARS = 32
_FIRST = "0" * _SUM_CHARS
_HEAD = b'{"sum":"'
_BODY_AT = len(_HEAD) + _SUM_CHARS + 2


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the file: a whole record, or what is wrong with it. `end` is its last byte + 1."""

    number: int
    end: int
    record: JsonObject
    sum: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """The whole records from the start of a file to its end, or to the first damaged line.

    `size` is where they end; a line the program was still writing when it ended is beyond it.
    """

    records: tuple[JsonObject, ...]
    size: int
    last_sum: str
    damage: LogLine | None


class LogFile:
    """A file of records, open and locked for one writer. What was appended is never rewritten."""

    def __init__(self, descriptor: int, log: Log) -> None:
        self._descriptor = descriptor
        self._size = log.size
        self._last_sum = log.last_sum

    @classmethod
    def create(cls, path: Path) -> "LogFile":
        """Create an empty file only its owner can read.

        Raises:
            OSError: The disk does not let us.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            path.unlink()  # so that another attempt can create it
            raise
        return cls(descriptor, Log((), 0, _FIRST, None))

    @classmethod
    def open(cls, path: Path) -> tuple["LogFile", Log]:
        """Open a file to go on with it.

        Raises:
            SessionError: Another process has it open, or a record in it is damaged.
            OSError: The disk does not let us.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, path)
            log = read_log(path)  # only now: what another process wrote must be in it
            if log.damage:
                raise SessionError(
                    f"session {path.stem} is damaged: line {log.damage.number}"
                    f" {log.damage.problem}; --fork {path.stem} goes on from what is before it"
                )
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, log), log

    def append(self, records: Sequence[JsonObject], *, sync: bool) -> None:
        """Append all of *records*, or none as far as later appends are concerned.

        Raises:
            OSError: They are not saved, or with *sync* may not be on the disk.
        """
        previous, lines = self._last_sum, []
        for record in records:
            line, previous = _line(record, previous)
            lines.append(line)
        data = b"".join(lines)
        # A torn line: of a process that was killed, or of an append that the disk cut short.
        if os.fstat(self._descriptor).st_size != self._size:
            os.ftruncate(self._descriptor, self._size)
        _write_all(self._descriptor, data)
        if sync:
            os.fsync(self._descriptor)
        self._size += len(data)
        self._last_sum = previous

    def close(self) -> None:
        """Give the file and its lock back."""
        os.close(self._descriptor)


def read_log(path: Path) -> Log:
    """Return the whole records of *path* up to the first damage.

    Raises:
        OSError: The file cannot be read.
    """
    records: list[JsonObject] = []
    size, last_sum = 0, _FIRST
    for line in scan(path.read_bytes()):
        if line.problem:
            return Log(tuple(records), size, last_sum, line)
        records.append(line.record)
        size, last_sum = line.end, line.sum
    return Log(tuple(records), size, last_sum, None)


def scan(data: bytes) -> Iterator[LogLine]:
    """Yield every whole line of *data*, damaged ones too; a torn last line is none."""
    previous: str | None = _FIRST
    start = 0
    for number, text in enumerate(data.split(b"\n")[:-1], start=1):
        start += len(text) + 1
        line = _parse(text, number, start)
        if not line.problem and previous not in (None, line.record.get("prev")):
            line = LogLine(number, start, {}, line.sum, "does not follow the line before it")
        # Behind a damaged line nobody knows what the chain should say.
        previous = line.sum or None
        yield line


def _parse(text: bytes, number: int, end: int) -> LogLine:
    digest = text[len(_HEAD) : len(_HEAD) + _SUM_CHARS]
    body = text[_BODY_AT:]
    if text[:_BODY_AT] != _HEAD + digest + b'",':
        return LogLine(number, end, {}, problem="is not a record")
    if _sum(body).encode() != digest:
        return LogLine(number, end, {}, problem="does not match its checksum")
    try:
        return LogLine(number, end, json.loads(b"{" + body), digest.decode())
    except ValueError:
        return LogLine(number, end, {}, problem="is not JSON, whatever its checksum says")


def _line(record: JsonObject, previous: str) -> tuple[bytes, str]:
    """Return a record's line and its sum."""
    # default: a plugin without types may put anything into its details; its text is kept then.
    text = json.dumps({"prev": previous, **record}, separators=(",", ":"), default=str)
    body = text[1:].encode("ascii")
    digest = _sum(body)
    return b'%b%b",%b\n' % (_HEAD, digest.encode(), body), digest


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_SUM_CHARS]


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionError(
            f"session {path.stem} is open in another agent-cli: close it there first, or go on"
            f" with a copy (--fork {path.stem})"
        ) from None


def _write_all(descriptor: int, data: bytes) -> None:
    # A disk that fills up takes a part first, and says why only when asked again.
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_directory(path: Path) -> None:
    """Make sure that a new file's name is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_private(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file only its owner can read, whole or not at all, and on the disk when we return.

    Raises:
        OSError: It is not written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        try:
            for part in parts:
                _write_all(descriptor, part)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
