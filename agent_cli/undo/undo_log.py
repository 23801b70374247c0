"""The undo log of a command: its records in order, and the files that it is about to lose.

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


class UndoLog(ChangeLog):
    """A log whose every record of a lost file has the file itself beside it, or says why not.

    Attributes:
        count: How many records it has; those of times do not count.
        touched: Every recorded path, with the number of its last record.
        outside: The recorded files that have names outside the workspace.
        space: The room for kept files.
        losses: What may be lost without a question.
    """

    def __init__(self, folder: str, log: int, space: KeptSpace, losses: LossLimit) -> None:
        """Record to the open file *log*; kept files go to *folder*."""
        super().__init__(log)
        self._folder = folder
        self.space = space
        self.losses = losses
        self.outside = OutsideNames()
        self.count = 0
        self._prefix = f"{os.getpid():x}-"
        self.touched: dict[str, int] = {}

    def keep_name(
        self,
        path: str,
        found: os.stat_result,
        held: int = -1,
        *,
        is_replaced: bool = False,
        leaves: bool = False,
    ) -> None:
        """Record that *path* goes, and keep the file.

        Args:
            path: The name that goes.
            found: The file.
            held: A descriptor of the folder around it; -1: open it.
            is_replaced: Whether another file takes its name.
            leaves: Whether the file stays, under a name outside the workspace.

        Raises:
            OSError: The record cannot be written.
            Refused: The file is to stay.
        """
        state = State.of(found)
        if state.is_folder:
            self.add("folder", path, "", state, kept_files.attributes_of(path))
            return
        why = self.why_given_up or self.space.why_no_link(found)
        self.losses.before(path, found, why, is_overwritten=is_replaced)
        if why:
            self.add_lost(path, why, state)
            return
        kept = self._next_kept()
        try:
            is_linked = kept_files.keep_link(path, kept, held)
        except FileNotFoundError:
            return
        except OSError as error:
            self.add_lost(path, os.strerror(error.errno or errno.EIO), state)
            return
        attributes = None if is_linked else kept_files.attributes_of(path)
        if is_linked or self._copy(path, found, kept):
            self._add_kept("gone", path, kept, state, attributes)
        if is_linked and (leaves or self.outside.holds(found)):
            self.outside.add(found, path, kept, at=self.count)

    def keep_content(self, path: str, found: os.stat_result) -> bool:
        """Record that the content of *path* changes, and keep it; return whether it is kept.

        Raises:
            OSError: The record cannot be written.
            Refused: The content is to stay.
        """
        why = self.why_given_up or self.space.why_no_copy(found)
        self.losses.before(path, found, why, is_overwritten=True)
        kept, attributes = self._next_kept(), kept_files.attributes_of(path)
        if is_kept := self._copy(path, found, kept):
            self._add_kept("write", path, kept, State.of(found), attributes)
        return is_kept

    def add(
        self,
        kind: str,
        path: str,
        to: str = "",
        state: State | None = None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        """Add the record of a change that is made now, and count it.

        Raises:
            OSError: The disk is full.
        """
        self.count += 1
        self.touched[path] = self.count
        if kind in ("moved", "swap"):
            self.touched[to] = self.count
        self.write(kind, path, to, state, attributes)

    def add_lost(self, path: str, why: str, state: State) -> None:
        """Record that *path* is lost, for the reason *why*; raises as `add` does."""
        self.mark_incomplete()
        self.add("lost", path, why, state)

    def _copy(self, path: str, found: os.stat_result, kept: str) -> bool:
        """Copy a file; record it as lost and return False if that cannot be done."""
        why = ""
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            why = "it is no regular file"
        elif not (why := self.why_given_up or self.space.why_no_copy(found)):
            try:
                kept_files.keep_copy(path, kept)
            except FileNotFoundError:
                return False
            except OSError as error:
                why = os.strerror(error.errno or errno.EIO)
        if why:
            self.add_lost(path, why, State.of(found))
        return not why

    def _add_kept(
        self, kind: str, path: str, kept: str, state: State, attributes: dict[str, str] | None
    ) -> None:
        try:
            self.add(kind, path, os.path.basename(kept), state, attributes)
        except OSError:
            os.unlink(kept)  # or it would take room for nothing
            raise

    def _next_kept(self) -> str:
        # A second keeper of the same command may go on in this folder. Long names: the kernel
        # searches a block of the folder for room, and finds it sooner where few names fill one.
        return f"{self._folder}/{self._prefix}{self.count + 1:040x}"


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
