"""Keep the disk free for the command: what is kept for an undo must never make its writes fail.

Kept files hold space that the command has freed. While the disk is nearly full, nothing more is
kept, and what is kept is given up, the oldest first. A log that lost files so says it by its mode,
since a full disk takes a mode, but no line. Imports little: see `system/launcher`.
"""

import contextlib
import os
import time
from collections.abc import Iterator

from agent_cli.system.keeper import LOCK
from agent_cli.undo.records import INCOMPLETE, LOG

FLOOR_BYTES = 64_000_000
_FILLED_BYTES_PER_S = 8e9
_LOOK_SOONEST_S, _LOOK_LATEST_S = 0.005, 1.0
NEARLY_FULL = "the disk is nearly full"
_COMMANDS = "commands"


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
        now = time.monotonic()
        if not self._has_room(now):
            if now - self._given_up_s > _LOOK_LATEST_S:
                self._give_up()
                self._given_up_s = time.monotonic()
            return _LOOK_LATEST_S
        return max(self._has_room_until_s - now, _LOOK_SOONEST_S)

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
