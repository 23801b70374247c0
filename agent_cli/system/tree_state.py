"""A digest of the files below a directory, by their sizes and times: did anything change?"""

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

_FILES_MAX: Final = 100_000
# What tools keep there is no result of a change that anybody made.
_LEFT_OUT: Final = frozenset({".git", ".hg", "node_modules", ".venv", "__pycache__"})
_CACHE_MARK: Final = "CACHEDIR.TAG"  # in .pytest_cache, .mypy_cache, .ruff_cache, target, ...


def file_time_ns() -> int:
    """Return the time that a file gets which changes now, in nanoseconds since the epoch.

    Linux takes it from a clock that is up to ten milliseconds behind that of `time`.
    """
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if coarse is None else time.clock_gettime_ns(coarse)


def tree_state(root: Path, files_max: int = _FILES_MAX, *, since_ns: int | None = None) -> str:
    """Return a digest of the names, sizes, times and modes of the files below *root*.

    Folders that say that they are caches are left out.

    Returns:
        "" if there are more than *files_max*, a folder cannot be read, or a file was changed at
        *since_ns*, a time of `file_time_ns`, or later.
    """
    digest = sha256()
    left = files_max
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            if any(entry.name == _CACHE_MARK for entry in entries):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _LEFT_OUT:
                        pending.append(entry.path)
                    continue
                left -= 1
                facts = entry.stat(follow_symlinks=False)
                if since_ns is not None and facts.st_mtime_ns >= since_ns:
                    return ""
                line = f"{entry.path}\0{facts.st_size} {facts.st_mtime_ns} {facts.st_mode}\n"
                digest.update(line.encode(errors="surrogateescape"))
        except OSError:
            return ""
        if left < 0:
            return ""
    return digest.hexdigest()
