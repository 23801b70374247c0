"""The records of what a command was about to change, one JSON line each, and the log of them.

    made     nothing was there                       undo: take it away
    came     something from outside the workspace    undo: move it aside, never delete it
    gone     a name goes; its file is kept           undo: give the same file its name again
    write    content goes; a copy is kept            undo: write it into the same file
    meta     mode, owner, times, attributes change   undo: set them
    moved    a name becomes another                  undo: rename it back
    swap     two names change places                 undo: the same again
    folder   a folder goes                           undo: make it
    times    an entry of a folder changes            undo: set the folder's times, at the end
    lost     a file could not be kept: `to` says why

A record tells what a call *would* do: it may have failed, and then its undo must do nothing.
The first line of a log has a `Header`, and the last one, if the command's keeper could write it, an
`End`. Imports little: see `system/launcher`.
"""

import contextlib
import errno
import json
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from agent_cli.undo.git_index import index_entries

LOG = "log.jsonl"
EDITION = 1
INCOMPLETE = 0o400
"""The mode of a log that misses something: a full disk can still take a mode, but no line."""

_THE_REST = "what the command changed after that"

_quoted = json.encoder.encode_basestring_ascii


class State(NamedTuple):
    """A file as it was."""

    mode: int
    owner: int
    group: int
    size: int
    read_ns: int
    changed_ns: int
    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "State":
        """Return the state of a file that `os.lstat` found."""
        return cls(
            mode=found.st_mode,
            owner=found.st_uid,
            group=found.st_gid,
            size=found.st_size,
            read_ns=found.st_atime_ns,
            changed_ns=found.st_mtime_ns,
            device=found.st_dev,
            inode=found.st_ino,
        )

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)


class ChangeRecord(NamedTuple):
    """A change that a call was about to make; see above.

    Attributes:
        at_ns: When, in nanoseconds of the clock on the wall.
        to: The other name of a move; the name of the kept file; why a file is lost.
        attributes: Extended attributes, in hexadecimal.
    """

    kind: str
    at_ns: int
    path: str
    to: str = ""
    state: State | None = None
    attributes: dict[str, str] | None = None

    def line(self) -> bytes:
        """Return the line of the log."""
        # By hand: an encoder takes three times as long, for each change of each file.
        kind, at_ns, path, to, state, attributes = self
        numbers = f"[{','.join(map(str, state))}]" if state else "null"
        rest = json.dumps(attributes) if attributes is not None else "null"
        line = f'["{kind}",{at_ns},{_quoted(path)},{_quoted(to)},{numbers},{rest}]\n'
        return line.encode()

    @classmethod
    def parse(cls, found: list[Any]) -> "ChangeRecord":
        """Return the record that a line holds."""
        kind, at_ns, path, to, state, attributes = found
        return cls(kind, at_ns, path, to, State(*state) if state else None, attributes)


def signature_at(path: str) -> list[int] | None:
    """Return a signature that changes with the file at *path*; None for no file.

    Not the inode: a restored file may have another one. Of a folder only that it is one. Of git's
    index not the times: `git status` alone sets them.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return [found.st_mode]
    if is_git_index(path):
        with (
            contextlib.suppress(OSError, ValueError, IndexError, struct.error),
            open(path, "rb") as index,
        ):
            return [found.st_mode, _entries(index.read())]
    return [found.st_mode, found.st_size, found.st_mtime_ns]


def is_git_index(path: str) -> bool:
    """Return whether *path* is the index of a repository, which `git status` alone writes anew."""
    return path.endswith("/index") and "/.git/" in path


def is_git_object(path: str) -> bool:
    """Return whether *path* is in a store of git's objects, which others may refer to by now."""
    return repository_of_object(path) != ""


def repository_of_object(path: str) -> str:
    """Return git's folder of the repository that has the object *path*; "" if it is none.

    That of a submodule is in `.git/modules`.
    """
    before, _, inside = path.partition("/.git/")
    folders, store, _ = f"/{inside}".partition("/objects/")
    return f"{before}/.git{folders}" if store else ""


def made_in_git(records: Iterable[ChangeRecord]) -> frozenset[str]:
    """Return the folders and files of git that were made, and the `.git` folders."""
    made = (record.path for record in records if record.kind == "made")
    return frozenset(path for path in made if "/.git/" in f"{path}/")


def is_kept_object(made: frozenset[str], record: ChangeRecord) -> bool:
    """Return whether *record* made an object of a repository that stays."""
    repository = repository_of_object(record.path) if record.kind == "made" else ""
    return repository != "" and repository not in made


def _entries(index: bytes) -> int:
    """Return a checksum of the entries of git's index, without what it caches about the files.

    Raises:
        ValueError: It is none that we know; struct.error: it is cut off.
    """
    sum = zlib.crc32(b"")
    for each in index_entries(index):
        sum = zlib.crc32(each.mode, sum)
        sum = zlib.crc32(each.content + each.flags + each.path, sum)
    return sum


class ChangeLog:
    """The open log of one command: `UndoLog` if its calls are stopped, else `NamedCopies`.

    Attributes:
        why_given_up: Why nothing more is recorded; "" while it is.
    """

    def __init__(self, log: int) -> None:
        """Write to the open file *log*."""
        self._log = log
        self.why_given_up = ""

    def write_line(self, line: bytes) -> None:
        """Add a line to the log.

        Raises:
            OSError: The disk is full.
        """
        if (written := os.write(self._log, line)) < len(line):
            with contextlib.suppress(OSError):
                os.write(self._log, b"\n")  # the reader skips the part before it
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({written} bytes)")

    def note_fault(self, why: str, about: str = "a file") -> None:
        """Record that a change was not recorded, also where the log can take no line."""
        self.mark_incomplete()
        with contextlib.suppress(OSError):
            self.write("lost", about, why)

    def give_up(self, why: str) -> None:
        """Record nothing more: a log with a hole is worse than one that ends."""
        if not self.why_given_up:
            self.why_given_up = why

    def close(self, end: dict[str, object] | None = None) -> None:
        """Close the log, with a last line."""
        if self.why_given_up:
            self.note_fault(self.why_given_up, _THE_REST)
        with contextlib.suppress(OSError):  # a full disk
            if end:
                self.write_line(json.dumps(end, separators=(",", ":")).encode() + b"\n")
        os.close(self._log)

    def mark_incomplete(self) -> None:
        """Mark the log as one that lost files."""
        with contextlib.suppress(OSError):
            os.fchmod(self._log, INCOMPLETE)

    def write(
        self,
        kind: str,
        path: str,
        to: str = "",
        state: State | None = None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        """Add the record of a change that is made now.

        Raises:
            OSError: The disk is full.
        """
        if self.why_given_up and kind != "lost":
            return  # the call has gone on by now: what was kept may be too new
        self.write_line(ChangeRecord(kind, time.time_ns(), path, to, state, attributes).line())


class Moves:
    """The renamed folders of one command, in the order of its records."""

    def __init__(self) -> None:
        self._moves: dict[str, list[tuple[int, str]]] = {}

    def add(self, number: int, old: str, new: str) -> None:
        """Note that record *number* gives the folder *old* the name *new*."""
        self._moves.setdefault(old, []).append((number, new))

    def called_now(self, path: str, number: int) -> str:
        """Return the present name of *path*, which was last recorded by record *number*."""
        while True:
            above = path
            while above := above.rpartition("/")[0]:
                later = [each for each in self._moves.get(above, ()) if each[0] > number]
                if later:
                    number, to = later[0]
                    path = to + path.removeprefix(above)
                    break
            else:
                return path


def follow_times(times: dict[str, State], record: ChangeRecord) -> None:
    """Note the times that folders are to have in the end, under their names in the end."""
    match record.kind:
        case "times" | "folder" | "meta" if record.state and record.state.is_folder:
            times[record.path] = record.state
        case "made" | "came":
            times.pop(record.path, None)
        case "moved":
            _rename(times, {record.to: record.path})
        case "swap":
            _rename(times, {record.to: record.path, record.path: record.to})
        case _:
            pass


def _rename(times: dict[str, State], names: dict[str, str]) -> None:
    renamed: dict[str, State] = {}
    for path, state in times.items():
        for now, then in names.items():
            if f"{path}/".startswith(f"{now}/"):
                renamed[then + path.removeprefix(now)] = state
                break
        else:
            renamed[path] = state
    times.clear()
    times.update(renamed)
