"""Count the files that a command deletes or overwrites; beyond a limit, ask before the next.

Files that the command itself made do not count, nor those in a folder that can be built again and
that git ignores, nor what a compiler made, nor a file that is overwritten as git holds it; if it is
deleted it counts. Of git's own commands neither what git holds counts, nor what it deletes of its
own. Where nobody can be asked, only what would be missed counts: not what git holds, and not what
changed since the run began; of deleted files only those that the run made are left out, because
`touch` alone changes a file too, and `sed -i` puts a new one in its place. Imports little: see
`system/launcher`.
"""

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from agent_cli.undo.generated import GeneratedFolders, is_compiled
from agent_cli.undo.git_index import HeldFiles, content_id
from agent_cli.undo.kept_files import Inode, inode_of, size_of

_NAMED_MAX = 200
_LIBC = ctypes.CDLL(None)
_HERE, _NO_FOLLOW, _INODE_AND_BIRTH = -100, 0x100, 0x100 | 0x800
_STATX = struct.Struct("=I28xQ40xqI")
"""The fields of `struct statx`: mask, inode, birth."""


class Refused(Exception):
    """A person refused what the command wants to change: the call fails."""


class _Lost(NamedTuple):
    """A file that counts: its size on the disk, and the id of its content, b"" if unneeded."""

    path: str
    size: int
    content: bytes


class LossLimit:
    """The limit of one command; asks a person once at most.

    Attributes:
        is_refused: Whether all further changes of the workspace fail.
        generated: The folders that can be built again.
        own_files: The devices and inodes of files that the command made and gave another's name, as
            git does with its index.
        caller: The thread whose call is being recorded.
    """

    def __init__(
        self,
        files_max: int,
        bytes_max: int,
        ask: Callable[[dict[str, Any]], bool] | None,
        generated: GeneratedFolders,
        *,
        alone_since_ns: int = 0,
        replaced: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Count nothing yet; 0 is no limit, and without *ask* nobody is asked.

        *ask* takes the fields of a `logs.CommandQuestion`, and blocks. *alone_since_ns* and
        *replaced*: see `launching.Watched`.
        """
        self._files_max, self._bytes_max = files_max, bytes_max
        self._ask = ask if files_max or bytes_max else None
        self._alone_since_ns = alone_since_ns
        self._replaced = replaced
        self._held = HeldFiles()
        self._lost: list[_Lost] = []
        self._bytes = 0
        self._free: set[str] = set()
        self.is_refused = False
        self.own_files: set[Inode] = set()
        self.caller = 0
        self._was_beyond = False
        self.generated = generated

    @property
    def can_ask(self) -> bool:
        """Whether a person is still to be asked."""
        return self._ask is not None

    def before(
        self, path: str, found: os.stat_result, why_unkept: str = "", *, is_overwritten: bool
    ) -> None:
        """Count a file before it is lost; *why_unkept* says why an undo cannot bring it back.

        What is overwritten in `.git`, and what git deletes there, does not count, or each commit
        would, which may pack the repository.

        Raises:
            Refused: It is to stay.
        """
        if self._ask is None or self.generated.around(path) in self._free:
            return
        if inode_of(found) in self.own_files:
            return
        is_by_git = self._is_by_git()
        if "/.git/" in path and (is_overwritten or is_by_git) and not why_unkept:
            return
        if self._alone_since_ns and self._is_of_the_run(path, found, is_overwritten=is_overwritten):
            return
        if not why_unkept and is_compiled(path):
            return
        if why_unkept and self._lost and self._lost[-1].path == path:
            self._bytes -= self._lost.pop().size  # the same call again, whose record failed
        size = size_of(found)
        # What a formatter overwrites is in git; what is deleted is a surprise all the same.
        is_edited = is_overwritten and not why_unkept
        held = self._held if self._alone_since_ns or is_by_git or is_edited else None
        # The index is read by then, so this costs less than to note the content of each file.
        if held and self._was_beyond and held.holds(path, found):
            return
        if self._is_beyond(size, why_unkept):
            # Only now: git is asked about few folders, and not for each command.
            self._was_beyond = True
            self._lost = [each for each in self._lost if not self._is_spared(each)]
            self._bytes = sum(each.size for each in self._lost)
            if self._is_free(path) or (held and held.holds(path, found)):
                return
            if self._is_beyond(size, why_unkept):
                self._settle(path, size, why_unkept)
                return
        self._lost.append(_Lost(path, size, content_id(path, found) if held else b""))
        self._bytes += size

    def _is_of_the_run(self, path: str, found: os.stat_result, *, is_overwritten: bool) -> bool:
        kept = None if is_overwritten else self._replaced.get(path)
        if kept is not None:  # as it was before the run, git may hold it
            with contextlib.suppress(OSError):
                return self._held.held_before(path, content_id(kept, os.lstat(kept)))
            return False
        # No later than now: the clock was set back, or an archive's times lie in the future.
        if not self._alone_since_ns <= found.st_mtime_ns <= time.time_ns():
            return False
        # Or `touch` would be enough before any `rm`.
        born_ns = None if is_overwritten else _born_ns(path, found)
        return born_ns is None or born_ns >= self._alone_since_ns

    def _is_beyond(self, size: int, why_unkept: str) -> bool:
        return bool(
            why_unkept
            or (self._files_max and len(self._lost) >= self._files_max)
            or (self._bytes_max and self._bytes + size > self._bytes_max)
        )

    def _is_spared(self, lost: _Lost) -> bool:
        """Return whether a file that counted so far does not have to."""
        is_held = lost.content and self._held.held_before(lost.path, lost.content)
        return bool(is_held) or self._is_free(lost.path)

    def _is_by_git(self) -> bool:
        """Return whether git itself makes the call."""
        try:
            program = os.readlink(f"/proc/{self.caller}/exe")  # noqa: PTH115 - imports little
        except OSError:
            return False
        return program.endswith("/git")

    def _is_free(self, path: str) -> bool:
        """Return whether *path* is in a folder that can be built again and that git ignores."""
        while folder := self.generated.around(path):
            if folder in self._free:
                return True
            question = {
                "folder": folder,
                "ignores_itself": self.generated.ignores_itself(folder),
                "is_certain": self.generated.is_certain(folder),
            }
            if self._ask and self._ask(question):
                self._free.add(folder)
            else:
                self.generated.reject(folder)
        return False

    def _settle(self, path: str, size: int, why_unkept: str) -> None:
        """Ask the person, who is not asked again about this command.

        Raises:
            Refused: They refuse.
        """
        question = {
            "files": len(self._lost),
            "bytes": self._bytes,
            "paths": [each.path for each in self._lost[:_NAMED_MAX]],
            "next": path,
            "next_bytes": size,
            "why_unkept": why_unkept,
        }
        ask, self._ask = self._ask, None
        if ask and not ask(question):
            self.is_refused = True
            raise Refused


def _born_ns(path: str, found: os.stat_result) -> int | None:
    """Return when a file was made; None if its file system does not know, or it is another now."""
    fields = ctypes.create_string_buffer(256)
    with contextlib.suppress(AttributeError):  # a C library before 2018
        _LIBC.statx(_HERE, os.fsencode(path), _NO_FOLLOW, _INODE_AND_BIRTH, fields)
    mask, inode, seconds, nanoseconds = _STATX.unpack_from(fields)
    if mask & _INODE_AND_BIRTH != _INODE_AND_BIRTH or inode != found.st_ino:
        return None
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
