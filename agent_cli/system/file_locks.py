"""Wait for the lock of a file that other processes hold for a moment only."""

import errno
import fcntl
import time
from pathlib import Path
from typing import Final

LIMIT_S: Final = 10.0
_POLL_S: Final = 0.01


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone, if no other process has; return whether it is.

    Closing the file ends the lock.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
