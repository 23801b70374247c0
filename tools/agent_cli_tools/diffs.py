"""Unified diffs of two texts, for people."""

from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple

from agent_cli.contracts.timeline import Json
from agent_cli.system.alignment import align, common_start, grouped
from agent_cli.system.records import dataclass

_CONTEXT_LINES = 3
_SHOWN_LINES_MAX = 400
_SHOWN_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff without file names, and the numbers of lines added and removed.

    `text` is for the screen, `whole` leaves nothing out. `first` and `last` are the changed lines'
    numbers in the new text.
    """

    text: str
    whole: str
    added: int
    removed: int
    first: int
    last: int

    def details(self, path: str) -> Json:
        """Return the diff as data for the screen."""
        return {
            "kind": "diff",
            "path": path,
            "diff": self.text,
            "added": self.added,
            "removed": self.removed,
        }


def diff(before: str, after: str, *, lines_max: int | None = _SHOWN_LINES_MAX) -> Diff:
    """Return the diff of two texts; line endings count, but are not shown.

    Args:
        lines_max: Maximum number of lines on the screen; None leaves none out.
    """
    old, new = lines_of(before), lines_of(after)
    blocks = align(old, new)
    changes = [block for block in blocks if block.kind != "equal"]
    rows: list[_Row] = []
    for group in grouped(blocks, around=_CONTEXT_LINES):
        first, last = group[0], group[-1]
        ranges = f"-{_range(first.a_start, last.a_end)} +{_range(first.b_start, last.b_end)}"
        rows.append(_Row("", f"@@ {ranges} @@"))
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                rows += _marked(" ", old[a:a_end])
            else:
                starts = [*map(_shown_from, old[a:a_end], new[b:b_end])]
                rows += _marked("-", old[a:a_end], starts)
                rows += _marked("+", new[b:b_end], starts)
    lines = [row.mark + _part(row.line, row.start) for row in rows]
    return Diff(
        text="\n".join(lines) if lines_max is None else _shortened(lines, lines_max),
        whole="\n".join(row.mark + row.line for row in rows),
        added=sum(change.b_end - change.b_start for change in changes),
        removed=sum(change.a_end - change.a_start for change in changes),
        first=changes[0].b_start + 1 if changes else 0,
        last=max(changes[-1].b_end, changes[-1].b_start + 1) if changes else 0,
    )


def lines_of(text: str) -> list[str]:
    """Return the lines of *text* with their endings, LF or CRLF, as `read` and git count them.

    `str.splitlines` also splits at U+2028 and form feeds, which occur within lines of source.
    """
    return list(StringIO(text, newline="\n"))


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


class _Row(NamedTuple):
    """A line behind its mark; the screen shows a long one from `start` on."""

    mark: str
    line: str
    start: int = 0


def _marked(mark: str, lines: Sequence[str], starts: Sequence[int] = ()) -> list[_Row]:
    begins = [*starts, *[0] * len(lines)]
    return [_Row(mark, line.rstrip("\r\n"), begins[at]) for at, line in enumerate(lines)]


def _part(line: str, start: int) -> str:
    end = start + _SHOWN_CHARS_MAX
    return f"{'…' if start else ''}{line[start:end]}{'…' if len(line) > end else ''}"


def _shown_from(old: str, new: str) -> int:
    """Return where to begin with two versions of a long line, to show where they differ."""
    if max(len(old), len(new)) <= _SHOWN_CHARS_MAX:
        return 0
    return max(common_start(old, new) - _SHOWN_CHARS_MAX // 2, 0)


def _shortened(lines: Sequence[str], lines_max: int) -> str:
    if len(lines) <= lines_max:
        return "\n".join(lines)
    more = len(lines) - lines_max
    return "\n".join([*lines[:lines_max], f"… {more} more lines"])
