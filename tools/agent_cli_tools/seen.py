"""Record the lines of files that the model has seen, for each content.

Partial reads add up as long as the file does not change in between. Of a notebook, the lines are
those of its sources.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli.system.records import dataclass, field
from agent_cli_tools.notebooks import shown_content
from agent_cli_tools.textio import changed_bytes_max, read_bytes

Lines: TypeAlias = tuple[int, int]
"""A half-open range of line indexes."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """The seen lines of one content; the ranges neither touch nor overlap.

    `is_reported` is True once the model was told that the file holds something else by now.
    """

    digest: str
    count: int
    ranges: tuple[Lines, ...]
    is_reported: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.count or self.ranges == ((0, self.count),)


@dataclass(slots=True)
class SeenFiles:
    """The seen lines by path, and the files once seen as a whole.

    Thread-safe, because calls may read the same file concurrently.
    """

    _lock: Lock = field(default_factory=Lock)
    _sights: dict[Path, _Sight] = field(default_factory=dict[Path, _Sight])
    _whole: set[Path] = field(default_factory=set[Path])
    _edited_unseen: set[Path] = field(default_factory=set[Path])

    def note_all(self, path: Path, raw: bytes) -> None:
        """Record that all of *path* was seen with the content *raw*."""
        self.note_lines(path, raw, [(0, _count(shown_content(path, raw)))])

    def note_lines(self, path: Path, raw: bytes, seen: Iterable[Lines]) -> None:
        """Record that the lines *seen* of *path* were seen with the content *raw*."""
        shown = shown_content(path, raw)
        digest, count = _digest(shown), _count(shown)
        with self._lock:
            earlier = self._sights.get(path)
            ranges = earlier.ranges if earlier and earlier.digest == digest else ()
            self._note(path, _Sight(digest, count, _joined([*ranges, *seen])))

    def note_change(self, path: Path, before: bytes, after: bytes) -> None:
        """Carry the seen lines of *path* over to *after*, the content written by the model."""
        from agent_cli.system.alignment import common_start  # with the first change

        before, after = shown_content(path, before), shown_content(path, after)
        earlier = self._sights.get(path)
        if earlier is None or earlier.digest != _digest(before):
            with self._lock:
                self._edited_unseen.add(path)
            return
        old, new = _lines(before), _lines(after)
        head = common_start(old, new)
        tail = common_start(old[head:][::-1], new[head:][::-1])
        old_end, new_end = len(old) - tail, len(new) - tail
        moved = [(first, min(last, head)) for first, last in earlier.ranges if first < head]
        moved += [
            (max(first, old_end) + new_end - old_end, last + new_end - old_end)
            for first, last in earlier.ranges
            if last > old_end
        ]
        # A file without lines has no ranges, and is seen all the same.
        if earlier.is_whole or any(a <= head and b >= old_end for a, b in earlier.ranges):
            moved.append((head, new_end))
        with self._lock:
            self._note(path, _Sight(_digest(after), len(new), _joined(moved)))

    def once_whole(self, path: Path) -> bool:
        """Return whether all of *path* was ever seen, possibly with another content."""
        return path in self._whole

    def edited_unseen(self, path: Path) -> bool:
        """Return whether the model edited *path* without seeing what others changed in it."""
        return path in self._edited_unseen

    def any_of(self, paths: Iterable[Path]) -> list[Path]:
        """Return the *paths* of files of which some lines were seen, changed since or not."""
        return [path for path in paths if path in self._sights]

    def take_outdated(self, paths: Iterable[Path]) -> list[Path]:
        """Return, once after each time they were seen, the *paths* that hold something else now.

        It blocks.
        """
        return [path for path in self.any_of(paths) if self._is_news(path)]

    def _is_news(self, path: Path) -> bool:
        sight = self._sights[path]
        if sight.is_reported:
            return False
        try:
            raw = read_bytes(path, bytes_max=changed_bytes_max(path))
        except ToolError:  # it is gone, or no longer what was read
            pass
        else:
            if sight.digest == _digest(shown_content(path, raw)):
                return False
        with self._lock:
            if self._sights[path] is not sight:  # seen just now
                return False
            self._sights[path] = replace(sight, is_reported=True)
            return True

    def knows(self, path: Path, raw: bytes) -> bool:
        """Return whether all of *raw*, the content of *path*, was seen."""
        sight = self._sights.get(path)
        if sight is None or not sight.is_whole:
            return False
        return sight.digest == _digest(shown_content(path, raw))

    def _note(self, path: Path, sight: _Sight) -> None:
        self._sights[path] = sight
        self._edited_unseen.discard(path)
        if sight.is_whole:
            self._whole.add(path)


def _joined(ranges: Sequence[Lines]) -> tuple[Lines, ...]:
    joined: list[Lines] = []
    for first, last in sorted(part for part in ranges if part[0] < part[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _lines(raw: bytes) -> list[bytes]:
    lines = raw.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _count(raw: bytes) -> int:
    return raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
