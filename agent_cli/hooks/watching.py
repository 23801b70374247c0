"""Watch files for FileChanged hooks: the names in their matchers, and the `watchPaths` of answers.

It compares what the file system says once a second. Of a folder, the files directly in it count.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from agent_cli.system.records import dataclass, field

EVERY_S: Final = 1.0
FILES_MAX: Final = 1_000
_Stamp: TypeAlias = tuple[int, int, int]


class FileChange(NamedTuple):
    """A file that came, changed or went since the last look."""

    path: Path
    what: Literal["add", "change", "unlink"]


@dataclass(slots=True)
class FileWatch:
    """The watched files and their state at the last look.

    Attributes:
        root: The folder that relative paths are in.
        names: Names of files in `root` that are always watched.
    """

    root: Path
    names: Collection[str]
    _paths: tuple[Path, ...] = ()
    _seen: dict[Path, _Stamp] = field(default_factory=dict[Path, _Stamp])

    def watch(self, paths: Iterable[str]) -> None:
        """Watch *paths* beside the names, in place of the earlier *paths*."""
        self._paths = tuple(self.root / os.path.expanduser(path) for path in paths)[:FILES_MAX]  # noqa: PTH111
        # A change of a file that was watched before is still to be told.
        self._seen = {**dict(self._stamps()), **self._seen}

    def look(self) -> list[FileChange]:
        """Return what changed since the last look; blocks."""
        before, self._seen = self._seen, dict(self._stamps())
        known = [path for path in before if path in self._seen]
        return [
            *(FileChange(path, "add") for path in self._seen if path not in before),
            *(FileChange(path, "change") for path in known if before[path] != self._seen[path]),
            *(FileChange(path, "unlink") for path in before if path not in self._seen),
        ]

    def _stamps(self) -> Iterator[tuple[Path, _Stamp]]:
        places = dict.fromkeys((*(self.root / name for name in self.names), *self._paths))
        found = dict.fromkeys(file for place in places for file in _files_at(place))
        # Those known first: a file beyond the limit must not push out one that is still there.
        known = (path for path in self._seen if path in found)
        left = FILES_MAX
        for file in dict.fromkeys((*known, *found)):
            try:
                about = file.stat()
            except (OSError, ValueError):
                continue
            yield file, (about.st_mtime_ns, about.st_size, about.st_ino)
            left -= 1
            if not left:
                return


def _files_at(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [Path(entry.path) for entry in entries if entry.is_file()]
    except (OSError, ValueError):
        return [path]
