"""Replace files that only their user can read; a crash leaves the old or the new content whole.

Files of the user's projects are another matter (agent_cli_tools/atomic_write.py): they keep their
mode, owner and hard links, and are compared with what was read before.
"""

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import write_all
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import private_dir

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEVER_SYNCED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_DRAFT: Final = late_pattern(r"\.(.+)\.[0-9a-f]{16}")


def write_private(path: Path, data: bytes) -> None:
    """Replace the content of *path* by *data*, or leave it as it is.

    The data is written to a draft in the same folder, synced, and given the name *path*; then the
    folder is synced. The file has mode 0600, whatever it had before. A symlink at *path* is
    replaced, its target stays as it is. Missing folders are created for their user alone. Several
    threads and processes may write the same path: the last one wins. Only a kill in mid-write
    leaves the draft; `target_name` tells its name from others.

    Raises:
        OSError: It is not written, or may not outlive a power failure.
    """
    private_dir(path.parent)
    replace_content(path, data, mode=0o600)


def replace_content(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace the content of *path* by *data* as `write_private` does, in a folder that exists.

    Args:
        path: The file.
        data: Its new content.
        mode: The mode afterwards; None keeps that of the file, and a new one gets 0644 less umask.

    Raises:
        OSError: It is not written, or may not outlive a power failure.
    """
    # Random, because a file written under a shared name may get the data of another writer.
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    if mode is None and path.exists():
        mode = path.stat().st_mode & 0o777
    try:
        with os.fdopen(os.open(draft, _NEW, 0o644 if mode is None else 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            sync_file(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def append_all(descriptor: int, data: bytes) -> None:
    """Append *data* to an open file and sync it; a disk that fills up leaves the file as it was.

    Raises:
        OSError: It is not written, or may not outlive a power failure.
    """
    size = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, data)
    except OSError:
        os.ftruncate(descriptor, size)  # or what comes next would continue the part
        raise
    sync_file(descriptor)


def target_name(name: str) -> str:
    """Return the name of the file that the draft *name* was to become; *name* if it is no draft."""
    found = _DRAFT.fullmatch(name)
    return found[1] if found else name


def sync_directory(path: Path) -> None:
    """Sync *path*, so that the name of a new file in it outlives a power failure.

    Raises:
        OSError: It is not synced, although the file system can.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_file(descriptor: int) -> None:
    """Sync an open file or folder, so that it outlives a power failure if its file system can.

    Raises:
        OSError: It is not synced, although the file system can.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems, and some of FUSE, sync no files, or no folders.
        if error.errno not in _NEVER_SYNCED:
            raise


# Wait for the lock of a file that other processes hold for a moment only.

LIMIT_S: Final = 10.0
_POLL_S: Final = 0.01


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone, if no other process has; return whether it is.

    Closing the file ends the lock; `release` ends it at once.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Close a locked file, and end its lock at once.

    A process that is just being started has a copy of every open file until it runs its program.
    With ours closed, the copy would keep the lock for so long.
    """
    with suppress(OSError):  # a network file system that is out of reach
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


@contextmanager
def locked(path: Path, kind: int = fcntl.LOCK_EX) -> Generator[None]:
    """Hold the lock of the file *path*, which is made if it is missing; see `wait_for_lock`."""
    private_dir(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        wait_for_lock(descriptor, path, kind)
        yield
    finally:
        release(descriptor)


@contextmanager
def locked_if_possible(path: Path) -> Generator[None]:
    """Hold the lock of the file *path*, or none where its file system has no locks."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(locked(path))
        yield


def wait_for_lock(descriptor: int, path: Path, kind: int = fcntl.LOCK_EX) -> None:
    """Lock the open file *path*, with LOCK_EX or LOCK_SH; blocks. Closing it ends the lock.

    Raises:
        OSError: Another process holds the lock for longer than the limit, or it cannot be taken.
    """
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                held = "another agent-cli holds the lock"
                raise BlockingIOError(errno.EAGAIN, held, str(path)) from None
            time.sleep(_POLL_S)
        else:
            return
