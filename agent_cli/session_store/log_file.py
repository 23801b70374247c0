"""An append-only file of records: one JSON object per line, checksummed and chained.

    {"sum": checksum of the rest of the line, "prev": the sum of the line before, ...record...}

It knows bytes, disks and locks, not the meaning of a record.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store.codec import JsonObject
from agent_cli.system.fixed_paths import write_all
from agent_cli.system.private_files import release, sync_directory, sync_file
from agent_cli.system.records import dataclass

_SUM_CHARS = 32
_FIRST = "0" * _SUM_CHARS
_HEAD = b'{"sum":"'
_BODY_AT = len(_HEAD) + _SUM_CHARS + 2
_NO_RECORD = "is not a record"
# The line of the session and that of its first prompt: a copy of what is before it is empty.
_BEFORE_PROMPTS = 2


def damaged(session_id: str, fault: str, remedy: str) -> str:
    """Return the sentence about a damaged session."""
    return f"session {session_id} is damaged: {fault}; {remedy}"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the file: a complete record, or its fault. `end` is the offset behind it."""

    number: int
    end: int
    record: JsonObject
    sum: str = ""
    problem: str = ""

    def message(self, session_id: str) -> str:
        """Return the sentence about this damaged line of a session: where it is, and the remedy."""
        return damaged(session_id, self.fault, self.remedy(session_id))

    @property
    def is_foreign(self) -> bool:
        """Whether it has not even the form of a record."""
        return self.problem == _NO_RECORD

    @property
    def fault(self) -> str:
        """Where the fault is and what it is."""
        return f"line {self.number} {self.problem}"

    def remedy(self, session_id: str) -> str:
        """Return the remedy for this damaged line of a session."""
        if self.number <= _BEFORE_PROMPTS:
            return (
                "nothing is before it to go on from: copy what you need out of the file, then"
                f" `agent-cli sessions delete {session_id}`"
            )
        return f"--fork {session_id} goes on from what is before it"


@dataclass(frozen=True, slots=True)
class Log:
    """The complete records from the start of a file to its end, or to the first damaged line.

    `size` is the offset where they end; a line cut off by a crash lies beyond it.
    """

    records: tuple[JsonObject, ...]
    size: int
    last_sum: str
    damage: LogLine | None


class LogFile:
    """A file of records, open and locked for one writer. Appended records are never rewritten."""

    def __init__(self, descriptor: int, log: Log) -> None:
        self._descriptor = descriptor
        self._size = log.size
        self._last_sum = log.last_sum

    @classmethod
    def create(cls, path: Path) -> "LogFile":
        """Create an empty file that only its owner can read.

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
        """Open an existing file to append to it.

        Raises:
            SessionError: Another process has it open or deleted it, or a record in it is damaged.
            OSError: The disk does not let us.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, path, f", or go on with a copy (`agent-cli --fork {path.stem}`)")
            log = read_log(path)  # under the lock: another process may have appended
            if log.damage:
                raise SessionError(log.damage.message(path.stem))
        except BaseException:
            release(descriptor)
            raise
        return cls(descriptor, log), log

    def append(self, records: Sequence[JsonObject], *, sync: bool) -> None:
        """Append all of *records*; after a failure the next append overwrites a partial line.

        Raises:
            OSError: They are not written, or with *sync* may not be on the disk.
        """
        previous = self._last_sum
        lines: list[bytes] = []
        for record in records:
            line, previous = _line(record, previous)
            lines.append(line)
        data = b"".join(lines)
        # A torn line, of a killed process or of an append that filled the disk.
        if os.fstat(self._descriptor).st_size != self._size:
            os.ftruncate(self._descriptor, self._size)
        write_all(self._descriptor, data)
        if sync:
            sync_file(self._descriptor)
        self._size += len(data)
        self._last_sum = previous

    @property
    def is_deleted(self) -> bool:
        """Whether the file has no name any more: what is appended goes with this process."""
        return os.fstat(self._descriptor).st_nlink == 0

    def close(self) -> None:
        """Close the file and release its lock."""
        release(self._descriptor)


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock of the file at *path*, damaged or not: nothing appends to it meanwhile.

    Raises:
        SessionError: Another process has it open, or deleted it.
        OSError: The disk does not let us.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        _lock(descriptor, path)
        yield
    finally:
        release(descriptor)


def read_log(path: Path) -> Log:
    """Return the complete records of *path* up to the first damage.

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
    """Yield every complete line of *data*, damaged ones too, but not a torn last line."""
    previous: str | None = _FIRST
    start = 0
    for number, text in enumerate(data.split(b"\n")[:-1], start=1):
        start += len(text) + 1
        line = _parse(text, number, start)
        if not line.problem and previous not in (None, line.record.get("prev")):
            line = LogLine(number, start, {}, line.sum, "does not follow the line before it")
        # After a damaged line the expected chain value is unknown.
        previous = line.sum or None
        yield line


def _parse(text: bytes, number: int, end: int) -> LogLine:
    digest = text[len(_HEAD) : len(_HEAD) + _SUM_CHARS]
    body = text[_BODY_AT:]
    if text[:_BODY_AT] != _HEAD + digest + b'",':
        return LogLine(number, end, {}, problem=_NO_RECORD)
    if _sum(body).encode() != digest:
        return LogLine(number, end, {}, problem="does not match its checksum")
    try:
        return LogLine(number, end, json.loads(b"{" + body), digest.decode())
    except (ValueError, RecursionError):
        return LogLine(number, end, {}, problem="is not JSON although its checksum matches")


def _line(record: JsonObject, previous: str) -> tuple[bytes, str]:
    """Return a record's line and its sum."""
    # default: a plugin may put any object into its details; its text is kept then.
    text = json.dumps({"prev": previous, **record}, separators=(",", ":"), default=str)
    body = text[1:].encode("ascii")
    digest = _sum(body)
    return b'%b%b",%b\n' % (_HEAD, digest.encode(), body), digest


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_SUM_CHARS]


def _lock(descriptor: int, path: Path, otherwise: str = "") -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionError(
            f"session {path.stem} is open in another agent-cli: close it there first{otherwise}"
        ) from None
    if os.fstat(descriptor).st_nlink == 0:  # after we opened the file, before we had the lock
        raise SessionError(f"session {path.stem} was deleted a moment ago")
