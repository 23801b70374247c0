"""Restore protected files that a sandbox cannot guard, after the command has ended.

Their previous content is kept in memory; files and folders too large for settings are not guarded.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from agent_cli.system.regular_files import start_of

_FILE_BYTES_MAX = 1_000_000
_ENTRIES_MAX = 2_000


def _no_entries() -> "dict[str, _Kept]":
    return {}


@dataclass(frozen=True, slots=True)
class _Kept:
    """The previous content of a path: nothing, a symlink, a file, a directory, or "other"."""

    kind: str
    content: bytes = b""
    mode: int = 0
    entries: "dict[str, _Kept]" = field(default_factory=_no_entries)


class Tripwire:
    """The state of some paths when the object was created."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._before = {path: _state(path) for path in paths}

    def restore(self) -> list[str]:
        """Restore the paths that changed; return a sentence about each."""
        return list(self._restored())

    def _restored(self) -> Iterator[str]:
        for path, before in self._before.items():
            try:
                if _is_still(path, before):
                    continue
                _put_back(path, before)
            except OSError as error:
                yield f"{path} was changed, and could not be put back: {error.strerror}"
            else:
                yield f"{path} was changed, and was put back: other programs act on its content"


def _state(path: Path) -> _Kept:
    try:
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            return _Kept("link", os.fsencode(path.readlink()))
        if stat.S_ISDIR(state.st_mode) and not _is_large(path):
            return _Kept("directory", entries={each.name: _state(each) for each in path.iterdir()})
        if stat.S_ISREG(state.st_mode) and state.st_size <= _FILE_BYTES_MAX:
            content = start_of(path, _FILE_BYTES_MAX)
            return _Kept("file", content, stat.S_IMODE(state.st_mode))
    except OSError:
        return _Kept("nothing")
    return _Kept("other")


def _is_large(folder: Path) -> bool:
    """Return whether *folder* has too many entries to keep."""
    sizes = (len(folders) + len(files) for _, folders, files in os.walk(folder))
    return any(total > _ENTRIES_MAX for total in accumulate(sizes))


def _is_still(path: Path, before: _Kept) -> bool:
    """Return whether *path* is unchanged or not kept; read no more than it had before."""
    if before.kind == "other":
        return True
    if before.kind != "directory":
        return not _is_directory(path) and _state(path) == before
    kept = before.entries
    return (
        _is_directory(path)
        and {each.name for each in path.iterdir()} == kept.keys()
        and all(_is_still(path / name, entry) for name, entry in kept.items())
    )


def _put_back(path: Path, before: _Kept) -> None:
    if before.kind == "directory" and _is_directory(path):
        for name in {*(entry.name for entry in path.iterdir()), *before.entries}:
            entry = before.entries.get(name, _Kept("nothing"))
            if not _is_still(path / name, entry):
                _put_back(path / name, entry)
        return
    _remove(path)
    match before.kind:
        case "link":
            path.symlink_to(os.fsdecode(before.content))
        case "file":
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, before.mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, before.mode)
                file.write(before.content)
        case "directory":
            path.mkdir()
            for name, entry in before.entries.items():
                _put_back(path / name, entry)
        case _:
            pass


def _remove(path: Path) -> None:
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_directory(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir()
