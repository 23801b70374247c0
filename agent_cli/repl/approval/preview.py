"""The preview of a waiting call: all of its effect, with nothing hidden."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.repl.approval.changes import Row, changes_of
from agent_cli.repl.markdown.cells import cells
from agent_cli.repl.markdown.cells import folded as broken
from agent_cli.terminal.planned_change import written_by
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Lines, Style

_EDIT_MARKS: Final[dict[str, tuple[str, Style]]] = {
    "old": ("- ", "removed"),
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
    head = max(rows_max - _TAIL_ROWS - 1, 1)
    left_out = len(rows) - head - _TAIL_ROWS
    if left_out >= _FOLDED_ROWS_MIN:
        note = Row(f"… {left_out:,} more lines, not shown here", "warning")
        cut = [_cut(row, columns) for row in rows]
        return (*cut[:head], note, *cut[-_TAIL_ROWS:])
    shares = _shares(heights, rows_max)
    return tuple(_cut(row, columns * share) for row, share in zip(rows, shares, strict=True))


def _shares(heights: Sequence[int], rows_max: int) -> list[int]:
    """Return the number of screen rows for each row: short ones leave room for the others."""
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
                first, *others = reveal(value).split("\n")
                yield Row(f"$ {first}")
                # Like a shell's continuation prompt: these lines are not separate commands.
                yield from (Row(f"> {line}") for line in others)
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


def _cut(row: Row, cells_max: int) -> Row:
    """Shorten *row* to at most *cells_max* cells: its beginning and its end."""
    text = _shown(row)
    if cells(text) <= cells_max:
        return row
    note = f" … {len(row.text):,} characters … "
    if 2 * len(note) > cells_max:  # the note would take most of the row
        note = "…"
    room = max(cells_max - len(note), 2)
    _, end = next(broken(text, room - room // 2))
    # The same width fits backwards; no character is split.
    _, tail = next(broken(text[::-1], max(room // 2, 1)))
    return Row(text[:end] + note + text[len(text) - tail :], row.style)


def _shown(row: Row) -> str:
    """Return the text of *row* as the screen shows it."""
    return row.text.expandtabs(_TAB_CELLS)
