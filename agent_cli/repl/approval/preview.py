"""The preview of a waiting call: its whole effect, with nothing hidden."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import counted
from agent_cli.repl.approval.changes import BETWEEN, Row, changes_of
from agent_cli.repl.markdown.cells import cells
from agent_cli.repl.markdown.cells import folded as broken
from agent_cli.repl.markdown.highlight import code_tokens
from agent_cli.terminal.planned_change import written_by
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Lines, Style

_EDIT_MARKS: Final[dict[str, tuple[str, Style]]] = {
    "old": ("− ", "removed"),
    "new": ("+ ", "added"),
}
_TAIL_ROWS: Final = 3
_TAB_CELLS: Final = 4
_VALUE_MARGIN: Final = "  │ "
# Replacing fewer rows than this by a note would save next to nothing.
_FOLDED_ROWS_MIN: Final = 3


def preview(call: ToolCall, tools: Sequence[Tool]) -> list[Row]:
    """Return the rows that show the effect of *call*: file changes, a command, or plain values.

    Nothing is left out, and invisible characters appear as escapes.
    """
    target = written_by(call.name, call.input, tools)
    return (changes_of(call.input, target) if target else []) or [*_values(call.input)]


def folded(rows: Sequence[Row], *, rows_max: int, columns: int) -> tuple[Row, ...]:
    """Fold *rows* to about *rows_max* rows of the screen; the end stays visible.

    Rows that fit are unchanged. Otherwise long ones show their beginning and end, with the number
    of rows left out between.
    """
    heights = [_height(row, columns) for row in rows]
    if sum(heights) <= rows_max:
        return tuple(rows)
    tail = _whole_change(rows, len(rows) - _TAIL_ROWS)
    head = _whole_change(rows, max(rows_max - (len(rows) - tail) - 1, 1))
    head = _without_lead(rows, head)
    left_out = rows[head:tail]
    if len(left_out) >= _FOLDED_ROWS_MIN:
        note = Row(f"      … {_amount(left_out)}", "warning")
        cut = [_cut(row, columns) for row in rows]
        return (*cut[:head], note, *cut[tail:])
    shares = _shares(heights, rows_max)
    return tuple(_cut(row, columns * share) for row, share in zip(rows, shares, strict=True))


def _without_lead(rows: Sequence[Row], at: int) -> int:
    """Return the end of the last change before *at*, if the lines behind it lead to the next."""
    if at >= len(rows) or not any(map(_is_changed, rows[at:])):
        return at
    first = next((n for n in range(at - 1, -1, -1) if rows[n] == BETWEEN), 0)
    return at if any(map(_is_changed, rows[first:at])) else first


def _whole_change(rows: Sequence[Row], at: int) -> int:
    """Return the place nearest before *at*, or *at*, that cuts no change of a few lines in two."""
    if not 0 < at < len(rows):
        return at
    start = at
    while start > 0 and _is_changed(rows[start - 1]) and _is_changed(rows[start]):
        start -= 1
    return start if start > 0 and at - start <= _TAIL_ROWS else at


def _is_changed(row: Row) -> bool:
    return row.style in ("added", "removed")


def _amount(rows: Sequence[Row]) -> str:
    """Return how much is in *rows*: changes and places of a diff, or lines of another text."""
    changed = [_is_changed(row) for row in rows]
    changes = sum(now and not before for before, now in pairwise([False, *changed]))
    places = 0
    for is_same_place, place in groupby(rows, key=lambda row: row != BETWEEN):
        places += is_same_place and any(map(_is_changed, place))
    if not changes or all(changed):  # of one change, a part is shown
        return f"{len(rows):,} more lines"
    where = f" in {places:,} places" if places > 1 else ""
    return f"{counted(changes, 'more change')}{where}"


def _shares(heights: Sequence[int], rows_max: int) -> list[int]:
    """Return the number of screen rows for each row: short rows leave room for long rows."""
    shares = [1] * len(heights)
    left = rows_max
    shortest_first = sorted(range(len(heights)), key=heights.__getitem__)
    for count, at in zip(range(len(heights), 0, -1), shortest_first, strict=True):
        shares[at] = max(1, min(heights[at], left // count))
        left -= shares[at]
    return shares


def _height(row: Row, columns: int) -> int:
    return -(-cells(_shown(row)) // columns) or 1


def write_rows(rows: Sequence[Row], writer: Lines) -> None:
    """Write *rows*, grouped by style; a row stays one line, whatever its characters."""
    pending: list[str] = []
    for at, row in enumerate(rows):
        text = f"{row.text} · {row.beside}" if row.beside else row.text
        pending.append(text.replace("\n", "\\n"))
        if at + 1 == len(rows) or rows[at + 1].style != row.style:
            writer.aside("\n".join(pending), row.style)
            pending.clear()


def _values(given: Json) -> Iterator[Row]:
    for name, value in given.items() if isinstance(given, dict) else [("input", given)]:
        match name, value:
            case "command", str():
                # Like a shell's continuation prompt: further lines are not separate commands.
                lines = reveal(value).split("\n")
                kinds_of = [*code_tokens(lines, "bash")] or [()] * len(lines)
                for number, (line, kinds) in enumerate(zip(lines, kinds_of, strict=True)):
                    begin = ">" if number else "$"
                    yield Row(line, tokens=kinds).moved(2)._replace(text=f"{begin} {line}")
            case "content", str():
                yield from _marked("+ ", value, "added")
            case "edits", [*edits]:
                for edit in edits:
                    yield from _edit(edit)
            case _, str():
                first, *others = reveal(value).split("\n")
                yield Row(f"{name}: {first}" if not others else f"{name}:")
                # Indented, so that no line looks like another value.
                yield from (Row(f"{_VALUE_MARGIN}{line}") for line in (first, *others) if others)
            case _:
                yield Row(f"{name}: {_literal(value)}")


def _edit(edit: Json) -> Iterator[Row]:
    if not isinstance(edit, dict):
        yield Row(_literal(edit))
        return
    for name, value in edit.items():
        if name in _EDIT_MARKS and isinstance(value, str):
            mark, style = _EDIT_MARKS[name]
            yield from _marked(mark, value, style)
        else:
            yield Row(f"{name}: {_literal(value)}")


def _marked(mark: str, text: str, style: Style = "plain") -> Iterator[Row]:
    for line in reveal(text).split("\n"):
        yield Row(mark + line, style)


def _literal(value: Json) -> str:
    return reveal(json.dumps(value, ensure_ascii=False))


def cut_middle(text: str, cells_max: int) -> str:
    """Shorten *text* to at most *cells_max* cells: its beginning and its end."""
    if cells(text) <= cells_max:
        return text
    note = f" … {len(text):,} characters … "
    if 2 * len(note) > cells_max:  # the note would take most of the row
        note = "…"
    room = max(cells_max - len(note), 2)
    _, end = next(broken(text, room - room // 2))
    # The same width fits backwards; no character is split.
    _, tail = next(broken(text[::-1], max(room // 2, 1)))
    return text[:end] + note + text[len(text) - tail :]


def cut_end(text: str, cells_max: int) -> str:
    """Shorten *text* to at most *cells_max* cells, with an ellipsis at its end."""
    if cells(text) <= cells_max:
        return text
    _, end = next(broken(text, max(cells_max - 1, 1)))
    return f"{text[:end].rstrip()}…"


def _cut(row: Row, cells_max: int) -> Row:
    text = _shown(row)
    return row if cells(text) <= cells_max else Row(cut_middle(text, cells_max), row.style)


def _shown(row: Row) -> str:
    """Return the text of *row* as the screen shows it."""
    return row.text.expandtabs(_TAB_CELLS)
