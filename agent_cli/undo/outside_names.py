"""Files of the workspace that a command links or moves to names outside the workspace.

A change under such a name also changes the file in the workspace, or its kept copy if that is a
hard link, although no path of the workspace is named. Imports little: see `system/launcher`.
"""

import os
from typing import NamedTuple

from agent_cli.undo import kept_files


class OutsideName(NamedTuple):
    """A file of ours: its path when *at* records were written, and its link in the log, or ""."""

    path: str
    kept: str
    at: int


class OutsideNames:
    """The files with names outside, by device and inode; false while there are none."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], list[OutsideName]] = {}

    def __bool__(self) -> bool:
        return bool(self._files)

    def add(self, found: os.stat_result, path: str, kept: str = "", *, at: int) -> None:
        """Note that the file *path* has a name outside; *kept* is its link if it is gone here."""
        names = self._files.setdefault((found.st_dev, found.st_ino), [])
        if kept:
            names[:] = [each for each in names if each.path != path]
        names.append(OutsideName(path, kept, at))

    def renamed(self, found: os.stat_result, old: str, new: str, *, at: int) -> None:
        """Note that a file has another name in the workspace."""
        names = self._files.get((found.st_dev, found.st_ino), [])
        names[:] = [OutsideName(new, "", at) if each.path == old else each for each in names]

    def holds(self, found: os.stat_result) -> bool:
        """Return whether a file has a name outside."""
        return (found.st_dev, found.st_ino) in self._files

    def take(self, found: os.stat_result) -> list[OutsideName]:
        """Return what is known of a file, and forget it: it is about to be changed."""
        return self._files.pop((found.st_dev, found.st_ino), [])


def copy_kept(kept: str) -> None:
    """Put a copy in place of the link *kept*, whose file is about to be changed.

    Raises:
        OSError: There is no room; the link is as before.
    """
    new = f"{kept}.new"
    kept_files.keep_copy(kept, new)
    kept_files.set_attributes(new, kept_files.attributes_of(kept))
    os.rename(new, kept)
