"""Empty directories where protected files are missing, so that something can be mounted there.

A directory even for a file: git does not see an empty one, and no program takes it for its
settings if we are killed before it is removed. Its time of change, the beginning of all time, tells
the next session that it may be removed.
"""

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_MADE_AT_S = 0


class Placeholders:
    """Held by as many commands as need them; the last to let go removes those still empty.

    Not earlier: removing what is mounted on ends the mount, even in another namespace.
    """

    def __init__(self) -> None:
        self._holders: Counter[Path] = Counter()
        self._lock = threading.Lock()

    def hold(self, missing: Sequence[Path], present: Sequence[Path]) -> tuple[Path, ...]:
        """Create what is *missing*; return what is held and must be given to `release`.

        Of what is *present*, that is taken which is a placeholder already. One whose
        directory does not exist or cannot be written to is left out: nobody else can make it
        either.
        """
        with self._lock:
            held = [path for path in present if path in self._holders or _is_ours(path)]
            held += [path for path in missing if path in self._holders]
            for path in missing:
                # Another command may have made it since it was found missing.
                with contextlib.suppress(OSError):
                    path.mkdir(mode=0o755)
                    held.append(path)
                    os.utime(path, (_MADE_AT_S, _MADE_AT_S))
            self._holders.update(held)
        return tuple(held)

    def release(self, held: Sequence[Path]) -> None:
        """Let go of what `hold` returned."""
        with self._lock:
            self._holders.subtract(held)
            for path in held:
                if self._holders[path] <= 0:
                    del self._holders[path]
                    # Not empty: somebody outside made it theirs.
                    with contextlib.suppress(OSError):
                        path.rmdir()

    def close(self) -> None:
        """Remove what is still held."""
        self.release([path for path, count in self._holders.items() for _ in range(count)])


def _is_ours(path: Path) -> bool:
    """Whether a session that was killed left *path*; putting something there changes its time."""
    return path.is_dir() and path.lstat().st_mtime == _MADE_AT_S
