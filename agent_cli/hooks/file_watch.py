"""Find the changes of files for FileChanged hooks: a look once a second, and the records of calls.

What the looks see is not taken from the records, so that no change is told twice.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

EVERY_S: Final = 1.0
FILES_MAX: Final = 1_000
CALL_FILES_MAX: Final = 100

_STARS: Final = frozenset("*?[")
_Stamp: TypeAlias = tuple[int, int, int]
_log = logger(__name__)


class FileChange(NamedTuple):
    """A file that came, changed or went since the last look."""

    path: Path
    what: Literal["add", "change", "unlink"]


class CallChanges(Protocol):
    """Port to the records of what tools and hooks change; its methods block."""

    def take(self) -> Iterable[Sequence[FileChange]]:
        """Return, once for each call that has ended, what it changed."""
        ...

    def take_own(self) -> Mapping[Path, tuple[int, int] | None]:
        """Return the files that FileChanged hooks changed, once, each as they left it.

        Its size, and its time in nanoseconds; None for no file.
        """
        ...

    @property
    def records_hooks(self) -> bool:
        """Whether all that FileChanged hooks change comes from `take_own`."""
        ...

    def is_masked(self, path: Path) -> bool:
        """Return whether commands in the sandbox do not see *path*."""
        ...


@dataclass(slots=True)
class FileWatch:
    """The watched files and their state at the last look.

    Attributes:
        root: The folder that relative paths are in.
        names: Names of files in `root` that are always watched; a folder of such a name is not.
        wants: Returns whether a hook runs for a path.
        changes: What calls changed elsewhere; None if that is not recorded.
    """

    root: Path
    names: Collection[str]
    wants: Callable[[Path], bool] = lambda _path: True
    changes: CallChanges | None = None
    _paths: tuple[Path, ...] = ()
    _seen: dict[Path, _Stamp] = field(default_factory=dict[Path, _Stamp])

    def watch(self, paths: Iterable[str]) -> None:
        """Watch *paths* beside the names, in place of the earlier *paths*.

        Of a folder, the files directly in it count.
        """
        self._paths = tuple(self.root / os.path.expanduser(path) for path in paths)[:FILES_MAX]  # noqa: PTH111
        # A change of a file that was watched before is still to be told.
        self._seen = {**dict(self._stamps()), **self._seen}

    def look(self) -> list[FileChange]:
        """Return the changes since the last look; blocks."""
        before, self._seen = self._seen, dict(self._stamps())
        known = [path for path in before if path in self._seen]
        found = [
            *(FileChange(path, "add") for path in self._seen if path not in before),
            *(FileChange(path, "change") for path in known if before[path] != self._seen[path]),
            *(FileChange(path, "unlink") for path in before if path not in self._seen),
        ]
        if self.changes is None:
            return found
        own = self.changes.take_own()
        found = [each for each in found if own.get(each.path, ()) != self._left(each.path)]
        for call in self.changes.take():
            found += self._of_call(call, self.changes)
        return found

    def note_hooks_ran(self, path: Path) -> None:
        """Take *path* as it is now for the work of its hooks, if that is not recorded; blocks.

        Or a hook that changes its own file would run again with each look.
        """
        if self.changes is None or self.changes.records_hooks or path not in self._seen:
            return
        with suppress(OSError, ValueError):
            self._seen[path] = _stamp(path)

    def _left(self, path: Path) -> tuple[int, int] | None:
        stamp = self._seen.get(path)
        return stamp and (stamp[1], stamp[0])

    def _of_call(self, call: Sequence[FileChange], changes: CallChanges) -> list[FileChange]:
        folders = {*self._paths}
        files = folders | {*self._named()}
        elsewhere = [
            each for each in call if each.path not in files and each.path.parent not in folders
        ]
        hooked = [each for each in elsewhere if self.wants(each.path)]
        seen: list[FileChange] = []
        for at, each in enumerate(hooked):
            if len(seen) == CALL_FILES_MAX:
                _log.info("changed files not told to hooks", files=len(hooked) - at)
                break
            if not changes.is_masked(each.path):
                seen.append(each)
        return seen

    def _named(self) -> Iterator[Path]:
        return (self.root / name for name in self.names)

    def _stamps(self) -> Iterator[tuple[Path, _Stamp]]:
        inside = (file for path in self._paths for file in _files_at(path))
        found = dict.fromkeys((*self._named(), *inside))
        # Those known first: a file beyond the limit must not push out one that is still there.
        known = (path for path in self._seen if path in found)
        left = FILES_MAX
        for file in dict.fromkeys((*known, *found)):
            try:
                yield file, _stamp(file)
            except (OSError, ValueError):
                continue
            left -= 1
            if not left:
                return


def _stamp(file: Path) -> _Stamp:
    about = file.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError
    return about.st_mtime_ns, about.st_size, about.st_ino


def _files_at(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [Path(entry.path) for entry in entries if entry.is_file()]
    except (OSError, ValueError):
        return [path]


def names_of(path: Path, root: Path) -> tuple[str, str]:
    """Return the names of *path* that matchers are compared with: its own, and that below *root*.

    Outside *root* the second is the whole path.
    """
    return path.name, str(path.relative_to(root) if path.is_relative_to(root) else path)


def is_plain(written: str) -> bool:
    """Return whether an entry of a matcher is the name of a file, neither path nor pattern.

    It may be that of a file in the root alone, with a slash in front.
    """
    return "/" not in written.removeprefix("/") and not _is_pattern(written)


def _is_pattern(written: str) -> bool:
    return written.endswith("/") or not _STARS.isdisjoint(written)


def covers_file(written: str, names: Sequence[str]) -> bool:
    """Return whether one entry of a matcher covers a file that has these *names*."""
    if not _is_pattern(written):
        return written in (*names, f"/{names[-1]}")
    return _pattern(written).match_file(names[-1].lstrip("/"))


def pattern_fault(written: str) -> str:
    """Return why *written* cannot be compared with files, or ""."""
    try:
        if _is_pattern(written):
            _pattern(written)
    except (ValueError, re.error) as error:
        return f"its matcher {written!r} is not a valid pattern ({error}); correct it"
    return ""


@lru_cache
def _pattern(written: str) -> "GitIgnoreSpec":
    from agent_cli.system.path_patterns import path_patterns  # where a hook has one

    return path_patterns([written])
