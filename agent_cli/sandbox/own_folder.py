"""A private temporary directory that does not outlive this process.

After a SIGKILL, the next process that creates one removes it. The owner holds a lock on the
directory, which the kernel releases when the owner dies.
"""

import contextlib
import fcntl
import os
import tempfile
import weakref
from pathlib import Path

from agent_cli.system.fixed_paths import DIRECTORY
from agent_cli.system.trees import remove_tree

_PREFIX = "agent-cli-run-"


class OwnFolder:
    """A directory that only its user may enter; removed with this object, or with the process."""

    def __init__(self) -> None:
        """Create the directory, and remove the directories of killed processes.

        Raises:
            OSError: The disk is full, or creating one is not permitted.
        """
        remove_left_folders()
        self.path, lock = _make()
        self._remove = weakref.finalize(self, _give_up, self.path, lock)

    def remove(self) -> None:
        """Delete the directory with its content. May be called again."""
        self._remove()


def remove_left_folders() -> None:
    """Remove the directories of this user whose processes have ended, killed with -9 for example.

    Any number of processes may do so at once.
    """
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        # Skip a directory of another user, or one that another process is removing.
        with contextlib.suppress(OSError):
            lock = os.open(path, DIRECTORY)
            if os.fstat(lock).st_uid == os.geteuid() and _take(lock):
                _give_up(path, lock)
            else:
                os.close(lock)


def _make() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until it is locked, another process that sweeps may take it for abandoned.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, DIRECTORY)
            if _take(lock) and path.exists():
                return path, lock
            os.close(lock)


def _take(directory: int) -> bool:
    """Lock the open *directory*; return False if another process holds the lock."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _give_up(path: Path, lock: int) -> None:
    remove_tree(path)
    os.close(lock)
