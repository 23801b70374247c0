"""Keep a file as it is: by a hard link, a clone or a copy; reversal.py has it copied back.

What is kept for an undo must never make the command's writes fail, so the disk stays free. Kept
files hold space that the command has freed. While the disk is nearly full, nothing more is kept,
and what is kept is given up, the oldest first. A log that lost files so says it by its mode, since
a full disk takes a mode, but no line.

Imports little: see `system/launcher`.
"""

import _thread
import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Generator, Iterator
from fcntl import fcntl, ioctl

from agent_cli.system.keeper import LOCK
from agent_cli.undo.records import INCOMPLETE, LOG, State

LINK_REFUSED = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""With these, a file system has no hard link for a file; a copy may do."""
_CLONE = 0x40049409  # FICLONE
_PART_BYTES = 1 << 30
_READ_BYTES = 1 << 20
NAME_CHARS = 50
"""Of up to four bytes, of the 255 of a name."""
_IS_LINUX = sys.platform == "linux"
# Looking up names needs fewer rights than listing a folder; macOS has no such flag.
_LOOKUP = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", 0)
_GET_PATH, _PATH_BYTES_MAX = 50, 1024  # F_GETPATH of macOS

FLOOR_BYTES = 64_000_000
_FILLED_BYTES_PER_S = 8e9
_LOOK_SOONEST_S, _LOOK_LATEST_S = 0.005, 1.0
NEARLY_FULL = "the disk is nearly full"
_COMMANDS = "commands"

Inode = tuple[int, int]
StrPath = str | os.PathLike[str]


def keep_link(path: str, kept: str, held: int = -1) -> bool:
    """Give the file at *path* one more name; return False if another file system forbids it.

    *held* is a descriptor of the folder around it; -1: open it.
    """
    try:
        if held >= 0:
            name = path.rpartition("/")[2]
            os.link(name, kept, src_dir_fd=held, follow_symlinks=False)
            return True
        with _folder_of(path) as folder:
            os.link(os.path.basename(path), kept, src_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in LINK_REFUSED:
            raise
        return False
    return True


def keep_copy(path: str, kept: str) -> None:
    """Copy the content of a regular file, or of a link, to the new file *kept*.

    Raises:
        OSError: It cannot be read or written; then there is no *kept*.
    """
    reads = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _folder_of(path) as folder:
        try:
            source = os.open(os.path.basename(path), reads, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            os.symlink(os.readlink(os.path.basename(path), dir_fd=folder), kept)
            return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(kept, flags, 0o600)
        try:
            copy_content(source, target)
        except BaseException:
            os.unlink(kept)
            raise
        finally:
            os.close(target)
    finally:
        os.close(source)


@contextlib.contextmanager
def _folder_of(path: str) -> Generator[int]:
    """Open the folder around *path*, which no link on the way may have led elsewhere.

    The command, or another one, may put a link there between our look and our opening.

    Raises:
        FileNotFoundError: The folder is another one by now.
    """
    above = os.path.dirname(path)
    folder = os.open(above, _LOOKUP)
    try:
        if _path_of(folder) != above:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        yield folder
    finally:
        os.close(folder)


def _path_of(folder: int) -> str:
    """Return the path of an open folder."""
    if _IS_LINUX:
        return os.readlink(f"/proc/self/fd/{folder}")
    return os.fsdecode(fcntl(folder, _GET_PATH, bytes(_PATH_BYTES_MAX)).partition(b"\0")[0])


def copy_content(source: int, target: int) -> None:
    """Copy all of an open file to the empty file *target*; holes stay holes.

    Raises:
        OSError: It cannot be read, or the disk is full.
    """
    with contextlib.suppress(OSError):  # most file systems cannot
        ioctl(target, _CLONE, source)
        return
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(target, at, os.SEEK_SET)
        while at < end:
            got = _pass(source, target, at, end - at)
            if got == 0:
                return
            at += got


def give_copy(kept: StrPath, name: str, folder: int) -> None:
    """Put a copy of the file *kept* at *name* in an open folder, where nothing is.

    Raises:
        OSError: It cannot be written.
    """
    if os.path.islink(kept):
        os.symlink(os.readlink(kept), name, dir_fd=folder)
    else:
        copy_to(kept, name, folder)


def copy_to(kept: StrPath, name: str, folder: int) -> None:
    """Put a copy of *kept* at *name*, at once; a draft left by a kill is written again."""
    new = f".{name[:NAME_CHARS]}-{os.lstat(kept).st_ino}.undo"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fill(kept, os.open(new, flags, 0o600, dir_fd=folder))
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)


def fill(kept: StrPath, target: int) -> None:
    """Write the content of *kept* into the open file *target*, and close that."""
    try:
        source = os.open(kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(target, 0)
            copy_content(source, target)
        finally:
            os.close(source)
    finally:
        os.close(target)


def is_begun_copy(kept: str, path: str) -> bool:
    """Return whether the file at *path* is what a stopped `fill` leaves: a part, then zeros."""
    try:
        with open(kept, "rb") as whole, open(path, "rb", opener=_unfollowed) as half:
            while part := half.read(_READ_BYTES):
                if not whole.read(len(part)).startswith(part.rstrip(b"\0")):
                    return False
    except OSError:
        return False
    return True


def _unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _pass(source: int, target: int, at: int, size: int) -> int:
    """Copy up to *size* bytes from *at* to where *target* stands; return how many."""
    if _IS_LINUX:  # elsewhere it is for sockets
        return os.sendfile(target, source, at, min(size, _PART_BYTES))
    return os.write(target, os.pread(source, min(size, _READ_BYTES), at))


def attributes_of(path: str) -> dict[str, str]:
    """Return the extended attributes of *path*, in hexadecimal; {} where there are none."""
    if not _IS_LINUX:  # Python knows them on Linux alone
        return {}
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names}
    except OSError:
        return {}


def set_state(path: str, state: State, attributes: dict[str, str] | None) -> None:
    """Give the file at *path* the owner, mode, attributes and times of *state*."""
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != (state.owner, state.group):
        with contextlib.suppress(PermissionError):
            os.chown(path, state.owner, state.group, follow_symlinks=False)
        found = os.lstat(path)
    if not stat.S_ISLNK(state.mode):
        if found.st_mode != state.mode:
            os.chmod(path, stat.S_IMODE(state.mode))
        if attributes is not None:
            set_attributes(path, attributes)
    os.utime(path, ns=(state.read_ns, state.changed_ns), follow_symlinks=False)


def set_attributes(path: str, attributes: dict[str, str]) -> None:
    """Give *path* just these extended attributes, as far as this user may."""
    if not _IS_LINUX:
        return
    present = attributes_of(path)
    for name in present.keys() - attributes.keys():
        with contextlib.suppress(OSError):
            os.removexattr(path, name, follow_symlinks=False)
    for name, value in attributes.items():
        if present.get(name) != value:
            with contextlib.suppress(OSError):
                os.setxattr(path, name, bytes.fromhex(value), follow_symlinks=False)


class KeptSpace:
    """The space that kept files may take on the disk of *folder*, the log of one command.

    *store* is the folder of all sessions' records; "" for a log on its own. Larger files than
    *copy_bytes_max* are not copied.
    """

    def __init__(self, folder: str, store: str, *, copy_bytes_max: int) -> None:
        self._folder = folder
        self._store = store
        self._copy_bytes_max = copy_bytes_max
        self._given_up_s = 0.0
        self._has_room_until_s = 0.0
        self._looking = _thread.allocate_lock()

    def why_no_link(self, found: os.stat_result) -> str:
        """Return why a deleted file may not be kept by a link, or ""."""
        if found.st_nlink > 1 or not size_of(found) or self._has_room():
            return ""
        return NEARLY_FULL

    def why_no_copy(self, found: os.stat_result) -> str:
        """Return why a file may not be kept by a copy, or ""."""
        size = size_of(found)
        if size > self._copy_bytes_max:
            return "it is larger than undo.max_mb"
        return NEARLY_FULL if size and self._free() - size < FLOOR_BYTES else ""

    def look(self) -> float:
        """Give kept files up while the disk is nearly full; return the seconds to the next look."""
        # The name of a large file is gone before its space is free, so that a call that waits
        # for space must wait for the thread that frees it.
        if not self._looking.acquire(timeout=_LOOK_LATEST_S):
            return _LOOK_LATEST_S
        try:
            now = time.monotonic()
            if self._has_room(now):
                return max(self._has_room_until_s - now, _LOOK_SOONEST_S)
            if now - self._given_up_s > _LOOK_LATEST_S:
                self._give_up()
                self._given_up_s = time.monotonic()
            return _LOOK_LATEST_S
        finally:
            self._looking.release()

    def _has_room(self, now: float | None = None) -> bool:
        """Return whether the disk is not nearly full; ask the disk when it could be by now."""
        now = now or time.monotonic()
        if now >= self._has_room_until_s:
            spare = self._free() - FLOOR_BYTES
            if spare < 0:
                return False
            self._has_room_until_s = now + min(spare / _FILLED_BYTES_PER_S, _LOOK_LATEST_S)
        return True

    def _give_up(self) -> None:
        others = sorted(_logs_in(self._store)) if self._store else []
        for folder in [*(path for _at, path in others), self._folder]:
            drop_images(folder)
            if self._free() >= FLOOR_BYTES:
                return

    def _free(self) -> int:
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return FLOOR_BYTES
        return found.f_bavail * found.f_frsize


def inode_of(found: os.stat_result) -> Inode:
    """Return the device and inode of a file, the same for all its names."""
    return found.st_dev, found.st_ino


def size_of(found: os.stat_result) -> int:
    """Return the bytes that a file takes on the disk."""
    return found.st_blocks * 512


def drop_images(folder: str) -> None:
    """Remove the kept files of the log in *folder*, and mark the log as incomplete."""
    with contextlib.suppress(OSError):
        names = set(os.listdir(folder)) - {LOG, LOCK}
        if not names:
            return
        os.chmod(f"{folder}/{LOG}", INCOMPLETE)
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}/{name}")


def _logs_in(store: str) -> Iterator[tuple[float, str]]:
    """Yield each folder with a log, and when it was last written."""
    for session in _entries(store):
        for each in _entries(f"{session}/{_COMMANDS}"):
            with contextlib.suppress(OSError):
                yield os.stat(f"{each}/{LOG}").st_mtime, each


def _entries(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []
