"""A digest of the files below a directory, by their sizes and times: did anything change?"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

_FILES_MAX: Final = 100_000
# What tools keep there is no result of a change that anybody made.
_LEFT_OUT: Final = frozenset({".git", ".hg", "node_modules", ".venv", "__pycache__"})


def tree_state(root: Path, files_max: int = _FILES_MAX) -> str:
    """Return a digest of the names, sizes, times and modes of the files below *root*.

    Returns:
        "" if there are more than *files_max*, or a folder cannot be read: then it is unknown.
    """
    digest = sha256()
    left = files_max
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _LEFT_OUT:
                        pending.append(entry.path)
                    continue
                left -= 1
                facts = entry.stat(follow_symlinks=False)
                line = f"{entry.path}\0{facts.st_size} {facts.st_mtime_ns} {facts.st_mode}\n"
                digest.update(line.encode(errors="surrogateescape"))
        except OSError:
            return ""
        if left < 0:
            return ""
    return digest.hexdigest()
