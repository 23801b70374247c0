"""Empty directories where protected files are missing, so that something can be mounted there.

A directory even for a file: git does not see an empty one, and no program takes it for its
settings if we are killed before it is removed. Its time of change, the beginning of all time, tells
the next session that it may be removed; a lock on it, that a session which lives needs it.
"""

import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_MADE_AT_S = 0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 10


class Placeholders:
    """Held by as many commands as need them; the last to let go removes those still empty.

    Not earlier: removing what is mounted on ends the mount, even in another namespace.
    """

    def __init__(self) -> None:
        self._holders: Counter[Path] = Counter()
        self._locks: dict[Path, int] = {}
        self._lock = threading.Lock()

    def hold(self, missing: Sequence[Path], present: Sequence[Path]) -> tuple[Path, ...]:
        """Create what is *missing*; return what is held and must be given to `release`.

        Of what is *present*, that is taken which is a placeholder already, perhaps of another
        session. One whose directory does not exist or cannot be written to is left out: nobody
        else can make it either.
        """
        with self._lock:
            wanted = [path for path in present if path in self._holders or _is_ours(path)]
            wanted += missing
            held = [path for path in wanted if self._is_held(path)]
            self._holders.update(held)
        return tuple(held)

    def release(self, held: Sequence[Path]) -> None:
        """Let go of what `hold` returned."""
        with self._lock:
            self._holders.subtract(held)
            for path in held:
                if self._holders[path] <= 0:
                    del self._holders[path]
                    if path in self._locks:  # else `close` has come in between
                        _let_go(path, self._locks.pop(path))

    def close(self) -> None:
        """Remove what is still held."""
        self.release([path for path, count in self._holders.items() for _ in range(count)])

    def _is_held(self, path: Path) -> bool:
        if path not in self._locks:
            # Another command may have put something there since it was found missing.
            with contextlib.suppress(OSError):
                self._locks[path] = _locked(path)
        return path in self._locks


def _locked(path: Path) -> int:
    """Return a descriptor of the placeholder *path*, made if it is missing, with our lock on it."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o755)
            os.utime(path, (_MADE_AT_S, _MADE_AT_S))
        try:
            descriptor = os.open(path, _DIRECTORY)
        except FileNotFoundError:
            continue  # Another session has just removed it.
        # Refused, another session is just removing it, and it is to be made anew.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        os.close(descriptor)
    # Better protected without a lock than not at all.
    return os.open(path, _DIRECTORY)


def _let_go(path: Path, descriptor: int) -> None:
    """Remove the placeholder unless another session needs it, or somebody made it theirs."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.rmdir()
    os.close(descriptor)


def _is_ours(path: Path) -> bool:
    """Whether a session made *path*; putting something there changes its time."""
    return path.is_dir() and path.lstat().st_mtime == _MADE_AT_S
