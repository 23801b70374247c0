"""What a call would do to a file: the changed lines with their numbers and what is around them."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.timeline import Json
from agent_cli.terminal.planned_change import planned_change
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Style

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
    planned = planned_change(given, target)
    if planned is None:
        return []
    new = " (new file)" if planned.is_new else ""
    path = f"path: {reveal(planned.path)}{new}"
    return [Row(path), *_difference(planned.before, planned.after)]


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
