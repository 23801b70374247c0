"""Keep the files that a command names before it starts: where its calls cannot be stopped.

All are kept, and looked at again when all its processes have ended. Then only what changed stays in
the log, which reads like the log of a watched command. What the command changed besides is not
known. Imports little: see `system/launcher`.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from agent_cli.system.fixed_paths import write_all
from agent_cli.undo import kept_files
from agent_cli.undo.kept_files import Inode, KeptSpace, inode_of
from agent_cli.undo.records import (
    INCOMPLETE,
    LOG,
    ChangeLog,
    ChangeRecord,
    State,
    is_git_object,
    signature_at,
)

_NEW = f"{LOG}.new"
_WRITTEN_IN_PLACE = "it was written to in place"
_NEVER_KEPT = "its kind of file is not kept"


class _Kept(NamedTuple):
    """A file as it was: its record, and the names in it if it is a folder."""

    record: ChangeRecord
    names: frozenset[str]


class NamedCopies(ChangeLog):
    """The log of one command, with what it names."""

    def __init__(self, folder: str, log: int, space: KeptSpace, named: dict[str, Any]) -> None:
        """Write to the open file *log*, and keep files in *folder*.

        *named* has the fields of `launching.NamedFiles`.
        """
        super().__init__(log)
        self._folder = folder
        self._space = space
        self._named = named
        self._header = b""
        self._kept: dict[str, _Kept] = {}
        self._unkept: dict[str, tuple[str, _Stamp | None]] = {}
        self._changed_ns: dict[Inode, int] = {}
        self._times: dict[str, ChangeRecord] = {}
        self._prefix = f"{os.getpid():x}-"

    def keep(self, header: bytes) -> None:
        """Begin the log, and keep all files.

        Raises:
            OSError: The log cannot be written.
        """
        self._header = header
        self.write_line(header)
        for path, why in self._named["unkept"].items():
            self._unkept[path] = (why, _stamp(path))
        for path in (*self._named["paths"], *self._named["absent"]):
            self._note_times(path.rpartition("/")[0])
        for path in self._named["paths"]:
            try:
                why = self._keep(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                why = os.strerror(error.errno or 0)
            if why:
                self._unkept[path] = (why, _stamp(path))
                self.mark_incomplete()
                self.write("lost", path, why)

    def end(self) -> None:
        """Leave in the log what changed, with how it is now."""
        records = [*self._changes(), *self._new_files()]
        lost = [*self._losses()]
        times = self._changed_times() if records else ()
        after = {each.path: signature_at(each.path) for each in records}
        end: dict[str, object] = {"end": time.time_ns(), "after": after}
        lines = [each.line() for each in (*times, *records, *lost)]
        with contextlib.suppress(OSError):  # a full disk: then the log says too much
            self._rewrite([self._header, *lines], is_incomplete=bool(lost))
        self.close(end)
        still = {each.to for each in records}
        for each in self._kept.values():
            if each.record.to and each.record.to not in still:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._folder}/{each.record.to}")

    def _keep(self, path: str) -> str:
        """Keep *path*, and record it; return why it is not kept, or ""."""
        found = os.lstat(path)
        attributes = kept_files.attributes_of(path)
        if stat.S_ISDIR(found.st_mode):
            self._note("folder", path, "", found, attributes, frozenset(os.listdir(path)))
            return ""
        kept = f"{self._prefix}{len(self._kept) + 1:040x}"
        is_link = stat.S_ISLNK(found.st_mode)
        # Git appends to files of its own.
        is_replaced = self._named["by_link"] and ("/.git/" not in path or is_git_object(path))
        if (is_link or is_replaced) and kept_files.keep_link(path, f"{self._folder}/{kept}"):
            self._note("gone", path, kept, os.lstat(path), attributes)
            return ""
        if not (is_link or stat.S_ISREG(found.st_mode)):
            return _NEVER_KEPT
        if why := self._space.why_no_copy(found):
            return why
        kept_files.keep_copy(path, f"{self._folder}/{kept}")
        self._note("gone" if is_link else "write", path, kept, found, attributes)
        return ""

    def _note(
        self,
        kind: str,
        path: str,
        kept: str,
        found: os.stat_result,
        attributes: dict[str, str],
        names: frozenset[str] = frozenset(),
    ) -> None:
        record = ChangeRecord(kind, time.time_ns(), path, kept, State.of(found), attributes)
        self.write_line(record.line())
        self._kept[path] = _Kept(record, names)
        # One more name of a file sets this time for all its names.
        self._changed_ns[inode_of(found)] = found.st_ctime_ns

    def _note_times(self, folder: str) -> None:
        found = _found(folder)
        if found and folder not in self._times:
            record = ChangeRecord("times", time.time_ns(), folder, "", State.of(found))
            self._times[folder] = record
            self.write_line(record.line())

    def _changed_times(self) -> Iterator[ChangeRecord]:
        for folder, record in self._times.items():
            now = _found(folder)
            if now and record.state and now.st_mtime_ns != record.state.changed_ns:
                yield record

    def _changes(self) -> Iterator[ChangeRecord]:
        """Yield the records of what is not as it was."""
        for path, (record, _names) in self._kept.items():
            state = record.state
            assert state
            now = _found(path)
            is_same = now and inode_of(now) == (state.device, state.inode)
            if now is None or not is_same:
                if self._is_whole(record):
                    yield record
            elif now.st_ctime_ns == self._changed_ns[state.device, state.inode]:
                continue
            elif record.kind == "folder":
                if State.of(now)._replace(read_ns=0) != state._replace(read_ns=0):
                    yield record
            elif (now.st_size, now.st_mtime_ns) == (state.size, state.changed_ns):
                yield record._replace(kind="meta", to="")
            elif self._is_whole(record):
                yield record

    def _is_whole(self, record: ChangeRecord) -> bool:
        """Return whether a kept file has the content of before: a link may have been written to."""
        if record.kind != "gone":
            return True
        kept, state = _found(f"{self._folder}/{record.to}"), record.state
        assert state
        if kept and (kept.st_size, kept.st_mtime_ns) == (state.size, state.changed_ns):
            return True
        self._unkept[record.path] = (_WRITTEN_IN_PLACE, None)
        return False

    def _new_files(self) -> Iterator[ChangeRecord]:
        """Yield a record for each file that was not there, a folder before what is in it."""
        for path in self._named["absent"]:
            yield from _made(path)
        for path, (record, names) in self._kept.items():
            now = _found(path)
            is_folder = now is not None and stat.S_ISDIR(now.st_mode)
            if record.kind == "folder" and not is_folder:
                yield from _made(path)
            elif record.kind == "folder":
                for name in sorted(_names(path) - names):
                    yield from _made(f"{path}/{name}")
            elif is_folder:  # in place of a file
                yield from (each for each in _made(path) if each.path != path)

    def _losses(self) -> Iterator[ChangeRecord]:
        """Yield a record of each path that is not kept and may have changed."""
        for path, (why, before) in self._unkept.items():
            if before is None or before.is_folder or _stamp(path) != before:
                yield ChangeRecord("lost", time.time_ns(), path, why)

    def _rewrite(self, lines: list[bytes], *, is_incomplete: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        new = os.open(f"{self._folder}/{_NEW}", flags, 0o600)
        try:
            write_all(new, b"".join(lines))
            if is_incomplete:
                os.fchmod(new, INCOMPLETE)
            os.rename(f"{self._folder}/{_NEW}", f"{self._folder}/{LOG}")
        except OSError:
            os.close(new)
            raise
        os.close(self._log)
        self._log = new


class _Stamp(NamedTuple):
    """The facts of a file that differ after a change."""

    is_folder: bool
    inode: int
    size: int
    changed_ns: int


def _stamp(path: str) -> _Stamp | None:
    found = _found(path)
    if found is None:
        return None
    is_folder = stat.S_ISDIR(found.st_mode)
    return _Stamp(is_folder, found.st_ino, found.st_size, found.st_ctime_ns)


def _found(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _made(path: str) -> Iterator[ChangeRecord]:
    """Yield a record for *path* and all in it, if it is there."""
    found = _found(path)
    if found is None:
        return
    yield ChangeRecord("made", time.time_ns(), path)
    if stat.S_ISDIR(found.st_mode):
        for name in sorted(_names(path)):
            yield from _made(f"{path}/{name}")


def _names(folder: str) -> frozenset[str]:
    """Return the names in *folder*; none if the command made it unreadable, or it is gone."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()
