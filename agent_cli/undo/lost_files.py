"""Keep the files that a command is about to lose, each with its record in the log.

A command may link or move a file to a name outside the workspace. A change under that name changes
the file in the workspace too, or its kept copy if that is a hard link, although no path of the
workspace is named.

Imports little: see `system/launcher`.
"""

import errno
import os
import stat
from typing import NamedTuple

from agent_cli.undo import kept_files
from agent_cli.undo.kept_files import Inode, KeptSpace, inode_of
from agent_cli.undo.losses import LossLimit
from agent_cli.undo.records import ChangeLog, State


class LostFiles(ChangeLog):
    """The log of one command, with the files that it keeps.

    Attributes:
        touched: Every recorded path, with the number of its last record.
    """

    def __init__(self, folder: str, log: int, space: KeptSpace, losses: LossLimit) -> None:
        """Record to the open file *log*; kept files go to *folder*."""
        super().__init__(log)
        self._folder = folder
        self._space = space
        self._losses = losses
        self._outside = OutsideNames()
        self._count = 0
        self._prefix = f"{os.getpid():x}-"
        self.touched: dict[str, int] = {}

    def _keep_name(
        self,
        path: str,
        found: os.stat_result,
        held: int = -1,
        *,
        is_replaced: bool = False,
        leaves: bool = False,
    ) -> None:
        state = State.of(found)
        if state.is_folder:
            self._add("folder", path, "", state, kept_files.attributes_of(path))
            return
        why = self._why_given_up or self._space.why_no_link(found)
        self._losses.before(path, found, why, is_overwritten=is_replaced)
        if why:
            self._lost(path, why, state)
            return
        kept = self._next_kept()
        try:
            is_linked = kept_files.keep_link(path, kept, held)
        except FileNotFoundError:
            return
        except OSError as error:
            self._lost(path, os.strerror(error.errno or errno.EIO), state)
            return
        attributes = None if is_linked else kept_files.attributes_of(path)
        if is_linked or self._copies(path, found, kept):
            self._add_kept("gone", path, kept, state, attributes)
        if is_linked and (leaves or self._outside.holds(found)):
            self._outside.add(found, path, kept, at=self._count)

    def _copies(self, path: str, found: os.stat_result, kept: str) -> bool:
        """Copy a file; record it as lost and return False if that cannot be done."""
        why = ""
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            why = "it is no regular file"
        elif not (why := self._why_given_up or self._space.why_no_copy(found)):
            try:
                kept_files.keep_copy(path, kept)
            except FileNotFoundError:
                return False
            except OSError as error:
                why = os.strerror(error.errno or errno.EIO)
        if why:
            self._lost(path, why, State.of(found))
        return not why

    def _lost(self, path: str, why: str, state: State) -> None:
        self._mark_incomplete()
        self._add("lost", path, why, state)

    def _add_kept(
        self, kind: str, path: str, kept: str, state: State, attributes: dict[str, str] | None
    ) -> None:
        try:
            self._add(kind, path, os.path.basename(kept), state, attributes)
        except OSError:
            os.unlink(kept)  # or it would take room for nothing
            raise

    def _add(
        self,
        kind: str,
        path: str,
        to: str = "",
        state: State | None = None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        self._count += 1
        self.touched[path] = self._count
        if kind in ("moved", "swap"):
            self.touched[to] = self._count
        self._write(kind, path, to, state, attributes)

    def _next_kept(self) -> str:
        # A second keeper of the same command may go on in this folder. Long names: the kernel
        # searches a block of the folder for room, and finds it sooner where few names fill one.
        return f"{self._folder}/{self._prefix}{self._count + 1:040x}"


class OutsideName(NamedTuple):
    """A file of ours: its path when *at* records were written, and its link in the log, or ""."""

    path: str
    kept: str
    at: int


class OutsideNames:
    """The files with names outside, by device and inode; false while there are none."""

    def __init__(self) -> None:
        self._files: dict[Inode, list[OutsideName]] = {}

    def __bool__(self) -> bool:
        return bool(self._files)

    def add(self, found: os.stat_result, path: str, kept: str = "", *, at: int) -> None:
        """Note that the file *path* has a name outside; *kept* is its link if it is gone here."""
        names = self._files.setdefault(inode_of(found), [])
        if kept:
            names[:] = [each for each in names if each.path != path]
        names.append(OutsideName(path, kept, at))

    def renamed(self, found: os.stat_result, old: str, new: str, *, at: int) -> None:
        """Note that a file has another name in the workspace."""
        names = self._files.get(inode_of(found), [])
        names[:] = [OutsideName(new, "", at) if each.path == old else each for each in names]

    def holds(self, found: os.stat_result) -> bool:
        """Return whether a file has a name outside."""
        return inode_of(found) in self._files

    def take(self, found: os.stat_result) -> list[OutsideName]:
        """Return the known facts of a file that is about to change, and forget them."""
        return self._files.pop(inode_of(found), [])


def copy_kept(kept: str) -> None:
    """Put a copy in place of the link *kept*, whose file is about to be changed.

    Raises:
        OSError: There is no room; the link is as before.
    """
    new = f"{kept}.new"
    kept_files.keep_copy(kept, new)
    kept_files.set_attributes(new, kept_files.attributes_of(kept))
    os.rename(new, kept)
