"""Find files by their other names: hard links of secrets, and secrets that a command moved.

A secret is masked by a mount on its path. Inside the sandbox the mount moves with the file, but the
next command gets new mounts, made from names; so known files are also searched by inode.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from agent_cli.system.records import dataclass

Inode: TypeAlias = tuple[int, int]
_ENTRIES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a file at one moment; renaming the file does not change it."""

    inode: Inode
    links: int
    changed_ns: int
    size: int


class OtherNames:
    """Remembers files, and finds them below some folders under other names."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._known: dict[Path, _State] = {}
        self._links: dict[Path, Inode] = {}
        self._looked_for: frozenset[Inode] = frozenset()

    def add_folder(self, folder: Path) -> None:
        """Search one more folder; known files are searched for again."""
        self._folders = (*self._folders, folder)
        self._looked_for = frozenset()

    def known(self) -> list[Path]:
        """Return all existing names of the remembered and found files."""
        found = {path: state.inode for path, state in self._known.items()} | self._links
        return [path for path, inode in found.items() if _inode(path) == inode]

    def remember(self, paths: Iterable[Path], *, is_changed: bool) -> None:
        """Remember *paths*, and search for their hard links if there may be new ones.

        Args:
            paths: Real paths.
            is_changed: Whether a folder changed since the last call.
        """
        for path in paths:
            if state := _state(path):
                self._known[path] = state
        linked = frozenset(each.inode for each in self._known.values() if each.links > 1)
        if linked and (is_changed or not linked <= self._looked_for):
            self._links = {path: state.inode for path, state in self._find(linked)}
        self._looked_for = linked

    def follow(self) -> None:
        """Find remembered files that were moved; forget those that were deleted."""
        gone = {path: state for path, state in self._known.items() if _inode(path) != state.inode}
        if not gone:
            return
        self._known = {path: each for path, each in self._known.items() if path not in gone}
        wanted = {state.inode: state for state in gone.values()}
        for path, state in self._find(wanted):
            before = wanted[state.inode]
            # Inode numbers of deleted files are reused; a moved file has its old time and size.
            if (state.changed_ns, state.size) == (before.changed_ns, before.size):
                self._known[path] = state

    def _find(self, wanted: Collection[Inode]) -> Iterator[tuple[Path, _State]]:
        numbers = {number for _device, number in wanted}
        for entry in _entries(self._folders):
            # The listing includes the inode number, so only possible matches need a stat().
            if entry.inode() in numbers:
                state = _state(Path(entry.path))
                if state and state.inode in wanted:
                    yield Path(entry.path), state


def linked_files(folder: Path) -> list[Path]:
    """Return the files in *folder* that have other hard links, perhaps in the workspace."""
    try:
        return [
            Path(entry.path)
            for entry in os.scandir(folder)
            if entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_nlink > 1
        ]
    except OSError:
        return []  # A file, or missing.


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
    # The link count of a folder is its number of subfolders.
    links = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    return _State((found.st_dev, found.st_ino), links, found.st_mtime_ns, found.st_size)


def _inode(path: Path) -> Inode | None:
    state = _state(path)
    return state.inode if state else None
