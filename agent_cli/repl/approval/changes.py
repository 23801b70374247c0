"""What a call would do to a file: the changed lines with their numbers and what is around them."""

import stat
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.timeline import Json
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Style

_FILE_BYTES_MAX: Final = 1_000_000
# Matching costs the product of the lengths; longer stretches are shown as gone and come.
_MATCHED_LINES_MAX: Final = 1_000
_AROUND: Final = 2


class Row(NamedTuple):
    """A line that is shown to somebody who decides; nothing in it is hidden."""

    text: str
    style: Style = "plain"


_BETWEEN: Final = Row("      ⋮", "dim")
_STYLES: Final[dict[str, Style]] = {" ": "plain", "-": "removed", "+": "added"}
_Opcode: TypeAlias = tuple[str, int, int, int, int]


def changes_of(given: Json, target: Path) -> list[Row]:
    """Return the rows that show what an edit's or a write's input does to *target* as it is now.

    Returns:
        Nothing where that is not certain: another kind of input, no plain text file, or a text that
        is not there exactly as often as an edit says. Then the input itself has to be shown.
    """
    before = _read(target)
    match given:
        case {"path": str(path), "edits": [*edits], **rest} if before is not None and not rest:
            after = _edited(before, edits)
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = "" if before is None and not target.exists() else before
            after = content
        case _:
            return []
    if before is None or after is None:
        return []
    new = "" if target.exists() else " (new file)"
    return [Row(f"path: {reveal(path)}{new}"), *_difference(before, after)]


def _read(path: Path) -> str | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES_MAX:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):  # not there, not ours, not UTF-8, no path at all
        return None


def _edited(text: str, edits: Sequence[Json]) -> str | None:
    """Return *text* after all *edits*, one after the other; None when one may fit elsewhere."""
    for edit in edits:
        match edit:
            case {"old": str(old), "new": str(new), **rest} if old and old != new:
                everywhere = rest.pop("all", False) is True
            case _:
                return None
        count = text.count(old)
        if rest or count == 0 or (count > 1 and not everywhere):
            return None
        text = text.replace(old, new)
    return text


def _difference(before: str, after: str) -> Iterator[Row]:
    if _has_only_crlf(before) and "\r" not in after:  # who replaces such a file keeps its endings
        before = before.replace("\r\n", "\n")
    if before == after:
        yield Row("nothing changes", "dim")
        return
    old, new = _lines(before), _lines(after)
    skipped = max(0, _common(old, new) - _AROUND)
    behind = max(0, _common(old[skipped:][::-1], new[skipped:][::-1]) - _AROUND)
    old, new = old[skipped : len(old) - behind], new[skipped : len(new) - behind]
    for number, group in enumerate(_groups(old, new)):
        if number:
            yield _BETWEEN
        for kind, old_at, old_end, new_at, new_end in group:
            if kind == "equal":
                yield from _rows(" ", new[new_at:new_end], skipped + new_at)
            else:
                yield from _rows("-", old[old_at:old_end], skipped + old_at)
                yield from _rows("+", new[new_at:new_end], skipped + new_at)
    if before and after and before.endswith("\n") != after.endswith("\n"):
        yield Row("a newline at the end " + ("comes" if after.endswith("\n") else "goes"), "dim")


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterable[Sequence[_Opcode]]:
    if max(len(old), len(new)) > _MATCHED_LINES_MAX:
        return [[("replace", 0, len(old), 0, len(new))]]
    return SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines the two have in common at the start."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _has_only_crlf(text: str) -> bool:
    return 0 < text.count("\n") == text.count("\r\n")


def _rows(mark: str, lines: Sequence[str], at: int) -> Iterator[Row]:
    for number, line in enumerate(lines, at + 1):
        yield Row(f"{number:>5} {mark} {reveal(line)}", _STYLES[mark])
