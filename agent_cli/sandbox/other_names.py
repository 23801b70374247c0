"""The same file by another name: hard links of secrets, and secrets that a command moved.

A mask lies on a path. Inside the sandbox it moves with the file, but the next command gets new
masks, made from names; so what is known by its name is looked for by its inode as well.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Inode: TypeAlias = tuple[int, int]
_ENTRIES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class _State:
    """A file at one moment; renaming it changes none of this."""

    inode: Inode
    links: int
    changed_ns: int
    size: int


class OtherNames:
    """Remembers files, and finds them below some folders by other names than they had."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._known: dict[Path, _State] = {}
        self._links: dict[Path, Inode] = {}
        self._looked_for: frozenset[Inode] = frozenset()

    def add_folder(self, folder: Path) -> None:
        """Look below one more folder; what is known is looked for anew."""
        self._folders = (*self._folders, folder)
        self._looked_for = frozenset()

    def known(self) -> list[Path]:
        """Return what was remembered or found and is there, by all its names."""
        found = {path: state.inode for path, state in self._known.items()} | self._links
        return [path for path, inode in found.items() if _inode(path) == inode]

    def remember(self, paths: Iterable[Path], *, is_changed: bool) -> None:
        """Remember *paths*, and look for their hard links where that may find new ones.

        Args:
            paths: Real paths.
            is_changed: Whether names came into being in the folders since the last call.
        """
        for path in paths:
            if state := _state(path):
                self._known[path] = state
        linked = frozenset(each.inode for each in self._known.values() if each.links > 1)
        if linked and (is_changed or not linked <= self._looked_for):
            self._links = {path: state.inode for path, state in self._find(linked)}
        self._looked_for = linked

    def follow(self) -> None:
        """Find what was moved since it was remembered; forget what was deleted."""
        gone = {path: state for path, state in self._known.items() if _inode(path) != state.inode}
        if not gone:
            return
        self._known = {path: each for path, each in self._known.items() if path not in gone}
        wanted = {state.inode: state for state in gone.values()}
        for path, state in self._find(wanted):
            before = wanted[state.inode]
            # The number of a deleted file is soon another's; one that was moved is as it was.
            if (state.changed_ns, state.size) == (before.changed_ns, before.size):
                self._known[path] = state

    def _find(self, wanted: Collection[Inode]) -> Iterator[tuple[Path, _State]]:
        numbers = {number for _device, number in wanted}
        for entry in _entries(self._folders):
            # The number is told with the name; only what may be meant is looked at.
            if entry.inode() in numbers:
                state = _state(Path(entry.path))
                if state and state.inode in wanted:
                    yield Path(entry.path), state


def linked_files(folder: Path) -> list[Path]:
    """Return the files in *folder* that have other names too, perhaps in the workspace."""
    try:
        return [
            Path(entry.path)
            for entry in os.scandir(folder)
            if entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_nlink > 1
        ]
    except OSError:
        return []  # It is a file, or not there.


def _entries(folders: Sequence[Path]) -> "Iterator[os.DirEntry[str]]":
    waiting = [str(folder) for folder in folders]
    count = 0
    while waiting and count < _ENTRIES_MAX:
        try:
            with os.scandir(waiting.pop()) as listed:
                entries = list(listed)
        except OSError:
            continue
        count += len(entries)
        yield from entries
        waiting += [each.path for each in entries if each.is_dir(follow_symlinks=False)]


def _state(path: Path) -> _State | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    # A folder's count is of the folders in it.
    links = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    return _State((found.st_dev, found.st_ino), links, found.st_mtime_ns, found.st_size)


def _inode(path: Path) -> Inode | None:
    state = _state(path)
    return state.inode if state else None
