"""Open a path that others may swap meanwhile: follow no symlink, wait for no pipe or device.

A path was checked by its target. A symlink may be put in its place before its use, so it is opened
here directory by directory, without following a symlink at any step.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePath

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags of `os.open` for a folder that is no link, to list it or to use it as `dir_fd`."""
_PIECE_BYTES = 65_536

# Looking up names needs fewer rights than listing a directory; macOS has no such flag.
_LOOKUP = DIRECTORY | getattr(os, "O_PATH", 0)


@contextmanager
def directory_at(path: Path, *, create: bool = False) -> Generator[int]:
    """Yield a descriptor of the real directory *path*, for the `dir_fd` of functions in `os`.

    Args:
        path: Absolute; had no symlinks when it was checked.
        create: Create missing directories.

    Raises:
        OSError: It does not exist, or has a symlink now (ELOOP or ENOTDIR).
    """
    dir_fd = os.open(path.anchor, _LOOKUP)
    try:
        for name in path.parts[1:]:
            if create:
                _make(name, dir_fd)
            below = os.open(name, _LOOKUP, dir_fd=dir_fd)
            os.close(dir_fd)
            dir_fd = below
        yield dir_fd
    finally:
        os.close(dir_fd)


def open_file(path: Path, flags: int) -> int:
    """Return a descriptor of the existing real file *path*, opened with *flags*.

    Raises:
        OSError: As `os.open`, or it has a symlink now (ELOOP or ENOTDIR).
    """
    with directory_at(path.parent) as dir_fd:
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)


def names_in(dir_fd: int) -> list[str]:
    """Return the sorted names in the directory *dir_fd*; a directory's name ends in a slash."""
    # The descriptor may be opened for lookups only.
    listing = os.open(".", DIRECTORY, dir_fd=dir_fd)
    try:
        with os.scandir(listing) as entries:
            return sorted(f"{each.name}/" if is_directory(each) else each.name for each in entries)
    finally:
        os.close(listing)


def is_directory(entry: "os.DirEntry[str]") -> bool:
    """Return whether *entry* is a directory or a link to one; False if that cannot be told."""
    try:
        return entry.is_dir()
    except OSError:  # A link to itself, or into an inaccessible directory.
        return False


def _make(name: str, dir_fd: int) -> None:
    try:
        os.mkdir(name, dir_fd=dir_fd)
    except FileExistsError:
        return


def start_of(path: PurePath, bytes_max: int, *, is_real: bool = False) -> bytes:
    """Return the first *bytes_max* bytes of the regular file *path*.

    Args:
        is_real: It is absolute and had no symlinks when it was checked; none is followed now.

    Raises:
        OSError: It cannot be read, is not a regular file, or has a symlink now.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = open_file(Path(path), flags) if is_real else os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # No larger pieces: memory of this size would be taken for each small file.
        pieces: list[bytes] = []
        while bytes_max and (piece := os.read(descriptor, min(bytes_max, _PIECE_BYTES))):
            pieces.append(piece)
            bytes_max -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write *data*, in as many parts as it takes.

    Raises:
        OSError: The reader is gone, or a disk that filled up took a part first.
    """
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
