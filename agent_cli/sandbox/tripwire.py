"""Restore protected files that a sandbox cannot guard, after the command has ended.

Their previous content is kept in memory; files and folders too large for settings are not guarded.

All steps are relative to open folders: a command may have put a link in the place of a folder, and
nothing is to be read or changed where that leads.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from agent_cli.system.fixed_paths import DIRECTORY, directory_at
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.trees import new_folder, other_name, remove_tree

_FILE_BYTES_MAX = 1_000_000
_FOLDER_BYTES_MAX = 20_000_000
_ENTRIES_MAX = 2_000
_DEPTH_MAX = 100
_MISSING = (errno.ENOENT, errno.ENOTDIR)
_UNREAD = (errno.EMFILE, errno.ENFILE)


def _no_entries() -> "dict[str, _Kept]":
    return {}


@dataclass(frozen=True, slots=True)
class _Kept:
    """The previous content of a path: nothing, a symlink, a file, a directory, or "other"."""

    kind: str
    content: bytes = b""
    mode: int = 0
    entries: "dict[str, _Kept]" = field(default_factory=_no_entries)


_NOTHING, _OTHER = _Kept("nothing"), _Kept("other")


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A path with the real folder it was in, and its previous content."""

    path: Path
    folder: Path
    before: _Kept
    may_grow: bool


class Tripwire:
    """The state of some paths when the object was created."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        may_grow: Callable[[Path], bool] = lambda _path: False,
        is_harmless: Callable[[Path, bytes, bytes], bool] = lambda _path, _old, _new: False,
    ) -> None:
        """Read the paths.

        Args:
            paths: The paths to guard.
            may_grow: Whether new entries of a folder are no change, nor the first content of an
                empty file, which another program was about to write; `added` returns them.
            is_harmless: Whether a file may change from one content to the other.
        """
        folders = {path: real_path(path.parent) for path in paths}
        self._before = [
            _Guarded(path, folders[path], _kept(folders[path], path.name), may_grow(path))
            for path in paths
        ]
        self._is_harmless = is_harmless
        self._left: list[str] = []

    def changed(self) -> "list[Changed]":
        """Return the paths that changed."""
        return [Changed(self, each.path) for each in self._before if self._has_changed(each)]

    def added(self) -> list[Path]:
        """Return what is new where paths may grow, except entries left beside others."""
        found: list[Path] = []
        for each in self._before:
            if each.may_grow:
                with suppress(OSError), directory_at(each.folder) as dir_fd:
                    found += _added(each.path, dir_fd, each.before)
        return [path for path in found if path.name not in self._left]

    def restore(self, aside: Path | None = None, *, only: Path | None = None) -> list[str]:
        """Restore the paths that changed, or *only* one; return a sentence about each.

        What was there is moved to a new folder in *aside*: a user may have changed it as well.
        """
        return list(self._restored(aside, only))

    def _has_changed(self, guarded: _Guarded) -> bool:
        try:
            with directory_at(guarded.folder) as dir_fd:
                return not self._is_as_before(guarded, dir_fd)
        except OSError:
            return os.path.lexists(guarded.path)  # else it was deleted with its folder

    def _is_as_before(self, guarded: _Guarded, dir_fd: int) -> bool:
        name, before = guarded.path.name, guarded.before
        if _is_still(name, dir_fd, before, may_grow=guarded.may_grow):
            return True
        if before.kind != "file":
            return False
        try:
            now = _Reader().state(name, dir_fd)
        except (OSError, _TooLarge):
            return False
        return (now.kind, now.mode) == ("file", before.mode) and self._is_harmless(
            guarded.path, before.content, now.content
        )

    def _restored(self, aside: Path | None, only: Path | None) -> Iterator[str]:
        for each in self._before:
            if only not in (None, each.path):
                continue
            path, folder, before = each.path, each.folder, each.before
            replaced = _Replaced(aside)
            try:
                with directory_at(folder) as dir_fd:
                    if self._is_as_before(each, dir_fd):
                        continue
                    _put_back(path.name, dir_fd, before, replaced, may_grow=each.may_grow)
            except OSError as error:
                if not os.path.lexists(path):  # deleted with its folder
                    continue
                is_unread = error.errno in _UNREAD and not replaced.sentence
                fault = (
                    "could not be checked, and may have changed"
                    if is_unread
                    else "was changed, and could not be put back"
                )
                yield f"{path} {fault}: {_reason(error)}{replaced.sentence}"
            else:
                yield (
                    f"{path} was changed, and was put back: other programs act on its content"
                    f"{replaced.sentence}"
                )
            finally:
                self._left += replaced.beside
                replaced.close()


@dataclass(frozen=True, slots=True)
class Changed:
    """A path that changed while it was guarded."""

    tripwire: Tripwire
    path: Path

    def undone(self, aside: Path) -> Sequence[str]:
        """Put the earlier entry back; return a sentence."""
        return self.tripwire.restore(aside, only=self.path)

    def stays(self, why: str) -> str:
        """Return the sentence for a path that stays changed, and *why*."""
        return f"{self.path} changed while a command ran; it stays as it is now: {why}"

    def consists_of(self, paths: Iterable[Path]) -> bool:
        """Return whether it is a path of *paths*, or holds one."""
        return any(each.is_relative_to(self.path) for each in paths)


class _Replaced:
    """Takes replaced files away."""

    def __init__(self, aside: Path | None) -> None:
        self._aside = aside
        self._folder: Path | None = None
        self.beside: list[str] = []
        self._count = 0

    @property
    def sentence(self) -> str:
        """The end of a sentence that says where the replaced files are kept; "" if none is."""
        where = [f"in {self._folder}"] if self._count else []
        where += [f"beside it, as {name}" for name in self.beside]
        return f"; what was there is {' and '.join(where)}" if where else ""

    def take(self, name: str, dir_fd: int) -> None:
        """Move *name* in the open folder *dir_fd* away; delete it if nothing is to be kept.

        If it cannot leave its folder, as with a folder on another disk, it gets another name there.

        Raises:
            OSError: It cannot be moved.
        """
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            if not self._aside:
                remove_tree(name, dir_fd=dir_fd)
                return
            try:
                self._folder = self._folder or new_folder(self._aside)
                os.rename(name, self._folder / f"{self._count + 1}-{name}", src_dir_fd=dir_fd)
                self._count += 1
            except OSError:
                other = other_name(name)
                os.rename(name, other, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
                self.beside.append(other)

    def close(self) -> None:
        """Remove the folder that nothing could be moved to."""
        if self._folder and not self._count:
            with suppress(OSError):
                self._folder.rmdir()


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return "something else is in the place of its folder"
    return error.strerror or str(error)


def _kept(folder: Path, name: str) -> _Kept:
    try:
        with directory_at(folder) as dir_fd:
            return _Reader().state(name, dir_fd)
    except _TooLarge:
        return _OTHER
    except OSError as error:
        return _NOTHING if error.errno in _MISSING else _OTHER


class _TooLarge(Exception):
    """A folder has too many entries, too many levels or too much in it to keep."""


class _Reader:
    """Reads the state of one path, within limits."""

    def __init__(self) -> None:
        self._entries_left = _ENTRIES_MAX
        self._bytes_left = _FOLDER_BYTES_MAX

    def state(self, name: str, dir_fd: int, depth: int = 0) -> _Kept:
        """Return the state of *name* in the open folder *dir_fd*.

        Raises:
            OSError: It is missing, or cannot be read.
            _TooLarge: It is a folder beyond a limit.
        """
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return _Kept("link", os.fsencode(os.readlink(name, dir_fd=dir_fd)))
        if stat.S_ISDIR(found.st_mode):
            with _opened(name, dir_fd) as folder:
                names = _names(folder, self._entries_left + 1)
                self._entries_left -= len(names)
                if self._entries_left < 0 or depth == _DEPTH_MAX:
                    raise _TooLarge
                return _Kept(
                    "directory",
                    entries={each: self._entry(each, folder, depth + 1) for each in names},
                )
        if stat.S_ISREG(found.st_mode) and found.st_size <= _FILE_BYTES_MAX:
            content = _content(name, dir_fd)
            self._bytes_left -= len(content)
            if self._bytes_left < 0:
                raise _TooLarge
            return _Kept("file", content, stat.S_IMODE(found.st_mode))
        return _OTHER

    def _entry(self, name: str, dir_fd: int, depth: int) -> _Kept:
        try:
            return self.state(name, dir_fd, depth)
        except OSError:  # it may not be read, so it is left alone
            return _OTHER


def _is_still(name: str, dir_fd: int, before: _Kept, *, may_grow: bool = False) -> bool:
    """Return whether *name* is unchanged or not kept; read no more than it had before.

    Raises:
        OSError: It cannot be read, as too many files are open.
    """
    if before.kind == "other":
        return True
    try:
        if before.kind != "directory":
            if _is_directory(name, dir_fd):
                return False
            now = _Reader().state(name, dir_fd)
            return now == before or (may_grow and _is_empty(before) and now.kind == "file")
        with _opened(name, dir_fd) as folder:
            names = set(before.entries)
            if not may_grow:
                names = set(_names(folder, len(before.entries) + 1))
            return names == set(before.entries) and all(
                _is_still(each, folder, entry, may_grow=may_grow)
                for each, entry in before.entries.items()
            )
    except OSError as error:
        if error.errno in _UNREAD:
            raise
        return before.kind == "nothing" and error.errno in _MISSING


def _added(path: Path, dir_fd: int, before: _Kept) -> Iterator[Path]:
    """Yield what *path*, in the open folder *dir_fd*, did not have: entries, or any content."""
    if _is_empty(before):
        with suppress(OSError):
            if os.stat(path.name, dir_fd=dir_fd, follow_symlinks=False).st_size:
                yield path
    if before.kind != "directory":
        return
    with suppress(OSError), _opened(path.name, dir_fd) as folder:
        for name in _names(folder, _ENTRIES_MAX):
            entry = before.entries.get(name)
            if entry is None:
                yield path / name
            else:
                yield from _added(path / name, folder, entry)


def _is_empty(before: _Kept) -> bool:
    return before.kind == "file" and not before.content


def _put_back(
    name: str, dir_fd: int, before: _Kept, replaced: _Replaced, *, may_grow: bool = False
) -> None:
    if before.kind == "directory" and _is_directory(name, dir_fd):
        with _opened(name, dir_fd) as folder:
            for each in {*(() if may_grow else _names(folder)), *before.entries}:
                entry = before.entries.get(each, _NOTHING)
                if not _is_still(each, folder, entry, may_grow=may_grow):
                    _put_back(each, folder, entry, replaced, may_grow=may_grow)
        return
    replaced.take(name, dir_fd)
    match before.kind:
        case "link":
            os.symlink(os.fsdecode(before.content), name, dir_fd=dir_fd)
        case "file":
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, before.mode, dir_fd=dir_fd), "wb") as file:
                os.fchmod(file.fileno(), before.mode)
                file.write(before.content)
        case "directory":
            os.mkdir(name, dir_fd=dir_fd)
            with _opened(name, dir_fd) as folder:
                for each, entry in before.entries.items():
                    _put_back(each, folder, entry, replaced)
        case _:
            if _is_still(name, dir_fd, before):
                return
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _is_directory(name: str, dir_fd: int) -> bool:
    with suppress(FileNotFoundError):
        return stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    return False


@contextmanager
def _opened(name: str, dir_fd: int) -> Generator[int]:
    folder = os.open(name, DIRECTORY, dir_fd=dir_fd)
    try:
        yield folder
    finally:
        os.close(folder)


def _names(folder: int, count_max: int | None = None) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, count_max)]


def _content(name: str, dir_fd: int) -> bytes:
    # Without O_NONBLOCK, opening a named pipe that has just been put there would wait.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=dir_fd), "rb") as file:
        return file.read(_FILE_BYTES_MAX)
