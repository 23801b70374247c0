"""A private temporary directory that does not outlive this process.

After a SIGKILL the next process that creates one removes it. A lock on the directory tells whether
its owner lives, because the kernel releases it with the owner.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

_PREFIX = "agent-cli-run-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFolder:
    """A directory only its user may enter; removed with this object, or with the process."""

    def __init__(self) -> None:
        """Make it, and remove what programs left that were killed.

        Raises:
            OSError: There is no room, or no right to make one.
        """
        _sweep()
        self.path, lock = _make()
        self._remove = weakref.finalize(self, _give_up, self.path, lock)

    def remove(self) -> None:
        """Delete it with all that is in it. May be called again."""
        self._remove()


def _make() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until it is locked, somebody who sweeps may take it for a dead program's.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, _DIRECTORY)
            if _take(lock) and path.exists():
                return path, lock
            os.close(lock)


def _take(directory: int) -> bool:
    """Lock the open *directory*; return False when somebody holds it."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep() -> None:
    """Remove what belongs to this user and to no living program."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        # Another user's, another sweeper's, or gone: none of our business.
        with contextlib.suppress(OSError):
            lock = os.open(path, _DIRECTORY)
            if os.fstat(lock).st_uid == os.geteuid() and _take(lock):
                _give_up(path, lock)
            else:
                os.close(lock)


def _give_up(path: Path, lock: int) -> None:
    _open_up(path)
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _open_up(top: Path) -> None:
    """Give ourselves the right to empty every directory below *top*: commands may take it away."""
    for folder, names, _ in os.walk(top):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
