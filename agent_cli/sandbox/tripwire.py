"""Puts back protected files that a sandbox cannot guard, once the command has ended.

Their content before is kept in memory; what is larger than a setting can be is not guarded.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_FILE_BYTES_MAX = 1_000_000
_FILES_MAX = 300


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was at a path: nothing, a symlink, a file, or a directory of such."""

    kind: str
    content: bytes = b""
    mode: int = 0
    entries: "dict[str, _Kept]" = field(default_factory=dict)


class Tripwire:
    """The state of some paths at the time it was made."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._before = {path: _state(path) for path in paths}

    def restore(self) -> list[str]:
        """Put back what is different now; return a sentence about each path."""
        return list(self._restored())

    def _restored(self) -> Iterator[str]:
        for path, before in self._before.items():
            if _state(path) == before:
                continue
            try:
                _put_back(path, before)
            except OSError as error:
                yield f"{path} was changed, and could not be put back: {error.strerror}"
            else:
                yield f"{path} was changed, and was put back: programs act on what it says"


def _state(path: Path) -> _Kept:
    try:
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            return _Kept("link", os.fsencode(path.readlink()))
        if stat.S_ISDIR(state.st_mode):
            entries = sorted(path.iterdir())[:_FILES_MAX]
            return _Kept("directory", entries={entry.name: _state(entry) for entry in entries})
        if stat.S_ISREG(state.st_mode) and state.st_size <= _FILE_BYTES_MAX:
            return _Kept("file", path.read_bytes(), stat.S_IMODE(state.st_mode))
    except OSError:
        return _Kept("nothing")
    return _Kept("other")


def _put_back(path: Path, before: _Kept) -> None:
    if before.kind == "other":
        return
    if before.kind == "directory" and path.is_dir() and not path.is_symlink():
        for name in {*(entry.name for entry in path.iterdir()), *before.entries}:
            entry = before.entries.get(name, _Kept("nothing"))
            if _state(path / name) != entry:
                _put_back(path / name, entry)
        return
    _remove(path)
    match before.kind:
        case "link":
            path.symlink_to(os.fsdecode(before.content))
        case "file":
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, before.mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(before.content)
        case "directory":
            path.mkdir()
            for name, entry in before.entries.items():
                _put_back(path / name, entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
