"""Guard missing paths that cannot be mounted over: move away a file that appears there.

Imports little: see `launcher`.
"""

import contextlib
import ctypes
import os
import sys
import time

_SETTLE_S = 2.0  # delay before a new file is moved: tools write several files at once
_IN_CREATE, _IN_MOVED_TO, _IN_ONLYDIR = 0x100, 0x80, 0x01000000
_EVENTS_BYTES = 65_536
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guard:
    """Paths that must not be created; `moved` lists each file that appeared with its new path."""

    def __init__(self, paths: list[str], aside: str) -> None:
        self._paths = paths
        self._aside = aside
        self._due: dict[str, float] = {}
        self.moved: list[tuple[str, str]] = []
        wanted = paths and sys.platform == "linux"
        self.descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if wanted else -1
        self._watch()

    def next_due_s(self) -> float | None:
        """Return the seconds until the next file has to be moved; None if there is none."""
        now = time.monotonic()
        return max(0.0, min(self._due.values()) - now) if self._due else None

    def look(self) -> None:
        """Note new files, and move those whose delay is over."""
        if self.descriptor >= 0 and self._has_events():
            self._watch()
        now = time.monotonic()
        for path in [path for path, due in self._due.items() if due <= now]:
            del self._due[path]
            self._move(path)

    def _has_events(self) -> bool:
        try:
            return bool(os.read(self.descriptor, _EVENTS_BYTES))
        except BlockingIOError:
            return False

    def finish(self) -> None:
        """Move all files that appeared."""
        for path in self._paths:
            self._move(path)

    def close(self) -> None:
        """Stop watching; the kernel takes several milliseconds for it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _watch(self) -> None:
        if self.descriptor >= 0:
            for folder in {_nearest(parent) for parent in set(map(os.path.dirname, self._paths))}:
                mask = _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR
                _LIBC.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        due = time.monotonic() + _SETTLE_S
        for path in filter(os.path.lexists, self._paths):
            self._due.setdefault(path, due)

    def _move(self, path: str) -> None:
        if os.path.lexists(path):
            with contextlib.suppress(OSError):
                from pathlib import Path  # noqa: PLC0415 - rare

                from agent_cli.system.aside import move_aside  # noqa: PLC0415 - rare

                self.moved.append((path, str(move_aside(Path(path), Path(self._aside)))))


def _nearest(folder: str) -> str:
    """Return *folder*, or the nearest existing folder above it."""
    while not os.path.isdir(folder):  # noqa: PTH112
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder
