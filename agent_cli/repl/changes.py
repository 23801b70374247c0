"""What an edit would do to a file: each change with its line numbers and what stands around it."""

import stat
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.terminal.sanitize import reveal
from agent_cli.timeline import Json

_FILE_BYTES_MAX: Final = 1_000_000
_PLACES_MAX: Final = 20
_AROUND: Final = 2
_BETWEEN: Final = "      ⋮"


class _Replacement(NamedTuple):
    old: str
    new: str
    everywhere: bool


def changes_of(given: Json, workspace: Path) -> list[str]:
    """Return the lines that show what an edit's input changes in the file as it is now.

    Returns:
        Nothing where that is not certain: not an edit, no plain text file, or a text that is not
        there exactly as often as the edit says. Then the input itself has to be shown.
    """
    match given:
        case {"path": str(path), "edits": [*edits], **rest} if edits and not rest:
            text = _read(workspace / path)
        case _:
            return []
    rows = [f"path: {reveal(path)}"]
    for edit in edits:
        replacement = _replacement(edit)
        places = [*_places(text, replacement)] if text and replacement else []
        if not text or not replacement or not places:
            return []
        for at in places:
            rows += [*([_BETWEEN] if len(rows) > 1 else []), *_change(text, at, replacement)]
        text = text.replace(replacement.old, replacement.new)
    return rows


def _read(path: Path) -> str | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES_MAX:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):  # not there, not ours, not UTF-8, no path at all
        return None


def _replacement(edit: Json) -> _Replacement | None:
    match edit:
        case {"old": str(old), "new": str(new), **rest} if old and old != new:
            everywhere = rest.pop("all", False)
            return None if rest else _Replacement(old, new, everywhere is True)
        case _:
            return None


def _places(text: str, replacement: _Replacement) -> Iterator[int]:
    """Yield where *text* changes; nothing when that is not as often as it should be."""
    count = text.count(replacement.old)
    if count != 1 and not (replacement.everywhere and count <= _PLACES_MAX):
        return
    end = 0
    for _ in range(count):
        at = text.index(replacement.old, end)
        end = at + len(replacement.old)
        yield at


def _change(text: str, at: int, replacement: _Replacement) -> Iterator[str]:
    """Yield the whole lines a replacement touches, before and after, between their neighbours."""
    end = at + len(replacement.old)
    begins = text.rfind("\n", 0, at) + 1
    ends = text.find("\n", end)
    ends = len(text) if ends < 0 else ends
    before = text[begins:ends].split("\n")
    after = (text[begins:at] + replacement.new + text[end:ends]).split("\n")
    first = text.count("\n", 0, begins) + 1
    same = sum(1 for _ in takewhile(_alike, zip(before, after, strict=False)))
    before, after, first = before[same:], after[same:], first + same
    tail = sum(1 for _ in takewhile(_alike, zip(before[::-1], after[::-1], strict=False)))
    before, after = before[: len(before) - tail], after[: len(after) - tail]

    lines = text.removesuffix("\n").split("\n")
    behind = first - 1 + len(before)
    for number in range(max(0, first - 1 - _AROUND), first - 1):
        yield _row(number + 1, " ", lines[number])
    for number, line in enumerate(before, first):
        yield _row(number, "-", line)
    for number, line in enumerate(after, first):
        yield _row(number, "+", line)
    for number in range(behind, min(behind + _AROUND, len(lines))):
        yield _row(number + 1 + len(after) - len(before), " ", lines[number])


def _alike(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _row(number: int, mark: str, line: str) -> str:
    return f"{number:>5} {mark} {reveal(line)}"
