"""Walk, delete and digest directory trees of any depth, and move files aside without losing them.

`os.walk` and `shutil.rmtree` call themselves for each level, and fail with a RecursionError after a
thousand of them.
"""

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import DIRECTORY, directory_at, is_directory

_FILES_MAX: Final = 100_000
# What tools keep there is no result of a change that anybody made.
_LEFT_OUT: Final = frozenset({".git", ".hg", "node_modules", ".venv", "__pycache__"})
_CACHE_MARK: Final = "CACHEDIR.TAG"  # in .pytest_cache, .mypy_cache, .ruff_cache, target, ...

_ASIDE_S: Final = 30 * 24 * 3600.0
_NAME_MAX: Final = 60  # characters of up to four bytes, of the 255 bytes of a name


def walk(top: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder with the names of its folders and its other entries, as `os.walk`.

    Links are not followed. Names removed from the list of folders are not searched.
    """
    waiting = [os.fspath(top)]
    while waiting:
        folder = waiting.pop()
        folders, others, links = list[str](), list[str](), set[str]()
        # It may have been removed, its path may be too long, or it may not be read.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                (folders if is_directory(entry) else others).append(entry.name)
                if entry.is_symlink():
                    links.add(entry.name)
        yield folder, folders, others
        below = (name for name in reversed(folders) if name not in links)
        waiting += [os.path.join(folder, name) for name in below]  # noqa: PTH118 - for speed


def remove_tree(path: Path | str, *, dir_fd: int | None = None) -> None:
    """Delete *path*, a link as such, with all below it, as far as that is possible.

    A path relative to the open folder *dir_fd* is never looked up through a link.
    """
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode):
            os.unlink(path, dir_fd=dir_fd)
            return
        top = _opened(path, dir_fd)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path, dir_fd=dir_fd)
        return
    # Some file systems cannot move every folder.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True, dir_fd=dir_fd)


def _empty(top: int) -> None:
    """Delete the content of the open folder *top*.

    Folders are moved into it before they are emptied. So no path gets too long, and at most three
    of them are open.
    """
    waiting = _unlinked(top)
    names = (f"{os.urandom(8).hex()}-{number}" for number in iter(int, 1))
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):  # e.g. a folder of another user
            folder = _opened(name, top)
            try:
                for inner in _unlinked(folder):
                    moved = next(names)
                    with contextlib.suppress(OSError):  # the same
                        # Moving a folder takes the right to write to it; root has it anyway.
                        os.close(_opened(inner, folder))
                        os.rename(inner, moved, src_dir_fd=folder, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _unlinked(folder: int) -> list[str]:
    """Delete all but folders in the open *folder*; return the names of the folders."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
    return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]


def _opened(path: Path | str, dir_fd: int | None) -> int:
    """Return a descriptor of a folder, after giving us the rights to change it.

    Raises:
        OSError: It is no folder, or another user's.
    """
    try:
        folder = os.open(path, DIRECTORY, dir_fd=dir_fd)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        unread = os.open(path, os.O_PATH | DIRECTORY, dir_fd=dir_fd)
        try:
            Path(f"/proc/self/fd/{unread}").chmod(stat.S_IRWXU)
        finally:
            os.close(unread)
        folder = os.open(path, DIRECTORY, dir_fd=dir_fd)
    if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(folder, stat.S_IRWXU)
    return folder


def file_time_ns() -> int:
    """Return the time that a file gets which changes now, in nanoseconds since the epoch.

    Linux takes it from a clock that is up to ten milliseconds behind that of `time`.
    """
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if coarse is None else time.clock_gettime_ns(coarse)


def tree_state(root: Path, *, since_ns: int | None = None) -> str:
    """Return a digest of the names, sizes, times and modes of the files below *root*.

    Folders that say that they are caches are left out.

    Returns:
        "" if there are more than 100,000 files, a folder cannot be read, or a file was changed at
        *since_ns*, a time of `file_time_ns`, or later.
    """
    digest = sha256()
    left = _FILES_MAX
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            if any(entry.name == _CACHE_MARK for entry in entries):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _LEFT_OUT:
                        pending.append(entry.path)
                    continue
                left -= 1
                facts = entry.stat(follow_symlinks=False)
                if since_ns is not None and facts.st_mtime_ns >= since_ns:
                    return ""
                line = f"{entry.path}\0{facts.st_size} {facts.st_mtime_ns} {facts.st_mode}\n"
                digest.update(line.encode(errors="surrogateescape"))
        except OSError:
            return ""
        if left < 0:
            return ""
    return digest.hexdigest()


def move_aside(path: Path, folder: Path) -> Path:
    """Move *path* into a new folder below *folder*, a link as such; return the new path.

    The folders above *path* may be swapped meanwhile.
    If *folder* is on another disk, *path* gets another name in its own folder instead: a command
    may have made it as large as its disk.

    Raises:
        OSError: It is gone, its folder was replaced by a link, or it cannot be moved.
    """
    target = new_folder(folder) / path.name
    try:
        with directory_at(path.parent) as parent:
            os.rename(path.name, target, src_dir_fd=parent)
    except OSError as error:
        target.parent.rmdir()
        if error.errno != errno.EXDEV:
            raise
        return _renamed(path)
    return target


def _renamed(path: Path) -> Path:
    new = other_name(path.name)
    with directory_at(path.parent) as parent:
        os.rename(path.name, new, src_dir_fd=parent, dst_dir_fd=parent)
    return path.with_name(new)


def other_name(name: str) -> str:
    """Return a name for a file *name* that stays in its folder, and that no program looks for."""
    return f"{name[:_NAME_MAX]}.moved-{os.urandom(4).hex()}"


def forget_old(folder: Path) -> None:
    """Delete the folders in *folder* that have not changed for more than a month.

    A folder in use is kept, since its modification time is updated.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _ASIDE_S
            if is_old and entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)


def new_folder(folder: Path) -> Path:
    """Create a folder named by the current time, with a random suffix if that name is taken."""
    now = time.strftime("%Y-%m-%dT%H-%M-%S")
    name = now
    while True:
        made = folder / name
        try:
            made.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            name = f"{now}.{os.urandom(4).hex()}"
        else:
            return made
