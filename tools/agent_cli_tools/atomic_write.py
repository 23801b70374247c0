"""Replace a file atomically: it has either the old or the new content, whatever happens.

All steps are relative to one open directory, which cannot be swapped for a symlink.
"""

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from agent_cli.contracts.errors import ToolError
from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.private_files import sync_file
from agent_cli.system.records import dataclass
from agent_cli.system.temporary_files import is_temporary_name, noted, temporary_name
from agent_cli_tools.textio import failure

_STRAY_AFTER_S = 3600.0


def _no_claim() -> None:
    """Do nothing: this write cannot be stopped."""


def write_atomic(
    path: Path, data: bytes, *, before: bytes | None, claim: Callable[[], None] = _no_claim
) -> None:
    """Write *data* to the real path *path*, or change nothing.

    The new content is written to a temporary file next to it, which then replaces it, keeping mode,
    owner and extended attributes. Where the system allows it, it has a name only for the moment of
    the replacement, because no system call replaces a file by one without a name. A note lets the
    next start of the program remove what a kill in that moment leaves. A file with several hard
    links is written in place, so that they stay linked; only this case is not atomic. Missing
    directories are created for a new file.

    Args:
        path: Had no symlinks when it was checked; if it has one now, nothing is written.
        data: The whole content.
        before: The content on which this change is based; None if there was no file.
        claim: Called right before the change becomes visible; an exception prevents it.

    Raises:
        ToolError: The file changed in the meantime, the disk is full, or it may not be written.
    """
    try:
        with directory_at(path.parent, create=before is None) as dir_fd:
            _Slot(dir_fd, path.parent, path.name).replace(data, before, claim)
    except OSError as error:
        raise failure(error, path) from error


@dataclass(frozen=True, slots=True)
class _Slot:
    """A name in an open directory.

    Attributes:
        dir_fd: The directory.
        folder: Its path when it was opened.
        name: The name.
    """

    dir_fd: int
    folder: Path
    name: str

    def replace(self, data: bytes, before: bytes | None, claim: Callable[[], None]) -> None:
        with self._open_directory() as listing:
            _sweep_strays(listing)
            if before is not None and self._state().st_nlink > 1:
                self._expect(before)
                claim()
                self._write_in_place(data, before)
                return
            self._exchange(data, before, claim)
            # Makes the new name survive a power failure, where the file system supports that.
            with contextlib.suppress(OSError):
                sync_file(listing)

    def _exchange(self, data: bytes, before: bytes | None, claim: Callable[[], None]) -> None:
        like = self if before is not None else None
        unnamed = self._unnamed(data, like)
        temporary = _Slot(self.dir_fd, self.folder, temporary_name())
        with unnamed or nullcontext(), noted(self.folder / temporary.name):
            try:
                if unnamed is None:
                    temporary._write_new(data, like)
                self._expect(before)
                claim()
                if unnamed is not None:
                    temporary._name(unnamed, data, like)
                os.replace(
                    temporary.name, self.name, src_dir_fd=self.dir_fd, dst_dir_fd=self.dir_fd
                )
            except BaseException:
                temporary._remove()
                raise

    @contextmanager
    def _open_directory(self) -> Generator[int]:
        # The descriptor may be opened for lookups only.
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.dir_fd)
        try:
            yield listing
        finally:
            os.close(listing)

    def _open(self, flags: int, mode: int = 0o600) -> int:
        # A named pipe that replaced the file may have no reader, and opening it would block.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self.name, flags, mode, dir_fd=self.dir_fd)

    def _state(self) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.dir_fd, follow_symlinks=False)

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.dir_fd)

    def _expect(self, before: bytes | None) -> None:
        """Refuse to overwrite changes made by others since the check."""
        try:
            with os.fdopen(self._open(os.O_RDONLY), "rb") as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                now = file.read() if is_file else b""
        except FileNotFoundError:
            now = None
        if now != before:
            raise ToolError(
                f"{self.name} was changed by someone else at this moment, so nothing was written."
                " Read it again and repeat the change."
            )

    def _unnamed(self, data: bytes, like: "_Slot | None") -> BinaryIO | None:
        """Return a whole file without a name; None where the system has none, or the disk is full.

        Network file systems have no unnamed files. Whatever fails, a named file is tried, and its
        error told.
        """
        if sys.platform == "linux":
            with contextlib.suppress(OSError), contextlib.ExitStack() as failed:
                flags = os.O_WRONLY | os.O_TMPFILE
                file = os.fdopen(os.open(".", flags, _mode(like), dir_fd=self.dir_fd), "wb")
                failed.callback(file.close)
                _fill(file, data, like)
                failed.pop_all()
                return file
        return None

    def _name(self, unnamed: BinaryIO, data: bytes, like: "_Slot | None") -> None:
        with contextlib.suppress(OSError):  # there may be no /proc to name it by
            os.link(f"/proc/self/fd/{unnamed.fileno()}", self.name, dst_dir_fd=self.dir_fd)
            return
        self._write_new(data, like)

    def _write_new(self, data: bytes, like: "_Slot | None") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(self._open(flags, _mode(like)), "wb") as file:
            _fill(file, data, like)

    def _write_in_place(self, data: bytes, before: bytes) -> None:
        with os.fdopen(self._open(os.O_RDWR), "r+b", buffering=0) as file:
            try:
                _overwrite(file, data)
            except OSError:
                # Most likely the disk is full; the old content did fit.
                _overwrite(file, before)
                raise


def _sweep_strays(directory: int) -> None:
    """Remove temporary files that a killed process left in *directory* over an hour ago."""
    limit = time.time() - _STRAY_AFTER_S
    with os.scandir(directory) as entries:
        strays = [entry for entry in entries if is_temporary_name(entry.name)]
    for stray in strays:
        with contextlib.suppress(OSError):
            if stray.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(stray.name, dir_fd=directory)


def _mode(like: _Slot | None) -> int:
    """Return 0666 for a new file, less the umask; a copy is private until it has its original's."""
    return 0o666 if like is None else 0o600


def _fill(file: BinaryIO, data: bytes, like: _Slot | None) -> None:
    """Write the whole content to a new file, with the attributes of *like*, and sync it."""
    file.write(data)
    file.flush()
    if like is not None:
        with os.fdopen(like._open(os.O_RDONLY), "rb") as original:
            _copy_attributes(original.fileno(), file.fileno())
    sync_file(file.fileno())


def _copy_attributes(source: int, target: int) -> None:
    state, own = os.fstat(source), os.fstat(target)
    if (own.st_uid, own.st_gid) != (state.st_uid, state.st_gid):
        # Only root may change the owner; otherwise the file becomes ours, as with an editor.
        with contextlib.suppress(PermissionError):
            os.fchown(target, state.st_uid, state.st_gid)
    os.fchmod(target, stat.S_IMODE(state.st_mode))
    for name in _attributes(source):
        with contextlib.suppress(OSError):  # some only root may set
            os.setxattr(target, name, os.getxattr(source, name))


def _attributes(file: int) -> list[str]:
    """Return the names of the extended attributes of an open file."""
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # some file systems have none
            return os.listxattr(file)
    return []


def _overwrite(file: BinaryIO, data: bytes) -> None:
    file.seek(0)
    written = 0
    while written < len(data):
        written += file.write(data[written:])
    file.truncate()
    sync_file(file.fileno())
