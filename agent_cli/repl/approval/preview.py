"""The preview of a waiting call: its whole effect, and the changed lines of a file."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import counted
from agent_cli.repl.markdown.highlight import Tokens, code_tokens
from agent_cli.repl.markdown.styles import cells
from agent_cli.repl.markdown.styles import folded as broken
from agent_cli.system.alignment import align, grouped
from agent_cli.system.loading import late_pattern
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.planned_change import (
    PlannedChange,
    Spans,
    changed_words,
    has_only_crlf,
    planned_change,
)
from agent_cli.terminal.writer import Lines, Style

_EDIT_MARKS: Final[dict[str, tuple[str, Style]]] = {
    "old": ("− ", "removed"),
    "new": ("+ ", "added"),
}
_OUTER_BLANK: Final = late_pattern(r"\A | \Z")
_TAIL_ROWS: Final = 3
_TAB_CELLS: Final = 4
_LEFT_OUT: Final = "…"
# What is around a change in a long line, on both sides together.
_CONTEXT_CELLS: Final = 160
# In narrower rows nothing would be left of a change beside its number.
_AROUND_CELLS_MIN: Final = 20
_VALUE_MARGIN: Final = "  │ "
# Replacing fewer rows than this by a note would save next to nothing.
_FOLDED_ROWS_MIN: Final = 3


class Row(NamedTuple):
    """A line shown for a decision; nothing in it is hidden.

    Attributes:
        marks: The changed parts of a changed line, as begins and ends in `text`.
        beside: A few words at the end of a title.
        spans: Parts of `text` in styles of their own, as begins and ends.
        tokens: Parts of source code, as begins and ends, with their kinds.
        gutter: The number of characters before a line of code, such as its number.
    """

    text: str
    style: Style = "plain"
    marks: tuple[tuple[int, int], ...] = ()
    beside: str = ""
    spans: "tuple[tuple[int, int, Style], ...]" = ()
    tokens: Tokens = ()
    gutter: int = 0

    @classmethod
    def of(cls, parts: "Iterable[tuple[str, Style]]") -> "Row":
        """Return a row of *parts*, each in its style."""
        text = ""
        spans: list[tuple[int, int, Style]] = []
        for part, style in parts:
            spans.append((len(text), len(text) + len(part), style))
            text += part
        return cls(text, spans=tuple(spans))

    def moved(self, cells: int) -> "Row":
        """Return this row behind *cells* blanks."""
        return self._replace(
            text=f"{' ' * cells}{self.text}",
            marks=tuple((start + cells, end + cells) for start, end in self.marks),
            spans=tuple((start + cells, end + cells, style) for start, end, style in self.spans),
            tokens=tuple((start + cells, end + cells, kind) for start, end, kind in self.tokens),
            gutter=self.gutter + cells if self.gutter else 0,
        )


def folded(rows: Sequence[Row], *, rows_max: int, columns: int) -> tuple[Row, ...]:
    """Fold *rows* to about *rows_max* rows of the screen; the end stays visible.

    Rows that fit are unchanged. Otherwise long ones show their beginning and end, with the number
    of rows left out between. With little room the unchanged lines around a change go first.
    """
    heights = [_height(row, columns) for row in rows]
    if sum(heights) <= rows_max:
        return tuple(rows)
    bare = _without_context(rows)
    if len(bare) < len(rows) and (len(bare) <= rows_max or rows_max < 2 * _TAIL_ROWS):
        return folded(bare, rows_max=rows_max, columns=columns)
    tail_rows = min(_TAIL_ROWS, max(rows_max // 2, 1))
    tail = _whole_change(rows, len(rows) - tail_rows)
    head = _whole_change(rows, max(rows_max - (len(rows) - tail) - 1, 1))
    head = _without_lead(rows, head)
    left_out = rows[head:tail]
    if len(left_out) >= _FOLDED_ROWS_MIN:
        note = Row(f"      … {_amount(left_out)}", "warning")
        cut = [_cut(row, columns) for row in rows]
        return (*cut[:head], note, *cut[tail:])
    shares = _shares(heights, rows_max)
    return tuple(_cut(row, columns * share) for row, share in zip(rows, shares, strict=True))


def _without_context(rows: Sequence[Row]) -> Sequence[Row]:
    """Return *rows* from the first to the last changed line; all of them without such a line."""
    changed = [at for at, row in enumerate(rows) if _is_changed(row)]
    return rows[changed[0] : changed[-1] + 1] if changed else rows


def _without_lead(rows: Sequence[Row], at: int) -> int:
    """Return the end of the last change before *at*, if the lines behind it lead to the next."""
    if at >= len(rows) or not any(map(_is_changed, rows[at:])):
        return at
    first = next((n for n in range(at - 1, -1, -1) if rows[n] == BETWEEN), 0)
    return at if any(map(_is_changed, rows[first:at])) else first


def _whole_change(rows: Sequence[Row], at: int) -> int:
    """Return the index nearest before *at*, or *at*, that cuts no change of a few lines in two."""
    if not 0 < at < len(rows):
        return at
    start = at
    while start > 0 and _is_changed(rows[start - 1]) and _is_changed(rows[start]):
        start -= 1
    return start if start > 0 and at - start <= _TAIL_ROWS else at


def _is_changed(row: Row) -> bool:
    return row.style in ("added", "removed")


def _amount(rows: Sequence[Row]) -> str:
    """Return how much is in *rows*: changes and hunks of a diff, or lines of another text."""
    changed = [_is_changed(row) for row in rows]
    changes = sum(now and not before for before, now in pairwise([False, *changed]))
    hunks = 0
    for is_hunk, lines in groupby(rows, key=lambda row: row != BETWEEN):
        hunks += is_hunk and any(map(_is_changed, lines))
    if not changes or all(changed):  # of one change, a part is shown
        return f"{len(rows):,} more lines"
    where = f" in {hunks:,} places" if hunks > 1 else ""
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


def values_of(arguments: Json) -> Iterator[Row]:
    """Yield the rows that show an input: a command, texts, or plain values.

    Nothing is left out, and invisible characters appear as escapes.
    """
    for name, value in arguments.items() if isinstance(arguments, dict) else [("input", arguments)]:
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
    if cells(text) <= cells_max:
        return row
    if row.marks and cells_max > _AROUND_CELLS_MIN:
        return _cut_around(row, text, cells_max)
    return Row(cut_middle(text, cells_max), row.style)


def _cut_around(row: Row, text: str, cells_max: int) -> Row:
    """Shorten a changed line, shown as *text*, to its changed part and what is around that."""
    code = row.gutter + len("− ")
    first, last = (len(row.text[:at].expandtabs(_TAB_CELLS)) for at in _bounds(row.marks))
    room = cells_max - code - 2 * len(_LEFT_OUT)
    changed = cut_middle(text[first:last], room)
    spare = min(room - cells(changed), _CONTEXT_CELLS)
    behind = _begin(text[last:], max(spare // 2, spare - cells(text[code:first])))
    ahead = _begin(text[code:first][::-1], spare - cells(behind))[::-1]
    before = _LEFT_OUT if len(ahead) < first - code else ""
    after = _LEFT_OUT if last + len(behind) < len(text) else ""
    head = f"{text[:code]}{before}{ahead}"
    marks = ((len(head), len(head) + len(changed)),)
    return Row(f"{head}{changed}{behind}{after}", row.style, marks=marks, gutter=row.gutter)


def _bounds(marks: Spans) -> tuple[int, int]:
    return marks[0][0], marks[-1][1]


def _begin(text: str, cells_max: int) -> str:
    """Return the beginning of *text* that takes at most *cells_max* cells."""
    return text[: next(broken(text, cells_max))[1]] if cells_max > 0 else ""


def _shown(row: Row) -> str:
    """Return the text of *row* as the screen shows it."""
    return row.text.expandtabs(_TAB_CELLS)


_AROUND: Final = 2
# Beyond these, marked words would take longer than they help.
_MARKED_LINES_MAX: Final = 200
_LEXED_LINES_MAX: Final = 2_000
_LANGUAGES: Final = {"makefile": "make", "dockerfile": "docker", "cmakelists.txt": "cmake"}

BETWEEN: Final = Row("      ⋮", "dim")
_STYLES: Final[dict[str, Style]] = {" ": "plain", "−": "removed", "+": "added"}


def changes_of(arguments: Json, target: Path, foreseen: PlannedChange | None = None) -> list[Row]:
    """Return the rows that show the effect of an edit's or write's input on the current *target*.

    Args:
        arguments: The input.
        target: The file.
        foreseen: The effect, if the tool itself said it: it matches line ends, and more.

    Returns:
        No rows if the effect is uncertain: another kind of input, not a plain text file, or a text
        that does not occur exactly as often as the edit says. Then show the input itself.
    """
    planned = foreseen or planned_change(arguments, target)
    if planned is None:
        return []
    new = " (new file)" if planned.is_new else ""
    path = _OUTER_BLANK.sub(r"\\x20", reveal(planned.path))  # nothing else would show it
    return [
        Row(f"path: {path}{new}"),
        *_difference(planned.before, planned.after, language_of(target)),
    ]


def language_of(path: Path) -> str:
    """Return the name of a file's language, as far as its name says it, or ""."""
    return _LANGUAGES.get(path.name.lower()) or path.suffix[1:]


def _difference(before: str, after: str, language: str) -> Iterator[Row]:
    # Replacing such a file keeps its line endings.
    if has_only_crlf(before) and ("\r" not in after or has_only_crlf(after)):
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    if before == after:
        yield Row("nothing changes", "dim")
        return
    old, new = _lines(before), _lines(after)
    old_tokens, new_tokens = _tokens(old, language), _tokens(new, language)
    for number, group in enumerate(grouped(align(old, new), around=_AROUND)):
        if number:
            yield BETWEEN
        for kind, old_at, old_end, new_at, new_end in group:
            if kind == "equal":
                around = range(new_at, new_end)
                if new_at == group[0].b_start:
                    around = _without_blank(around, new, 0)
                if new_end == group[-1].b_end:
                    around = _without_blank(around, new, -1)
                yield from _rows(" ", new[around.start : around.stop], around.start, new_tokens)
            else:
                gone, come = old[old_at:old_end], new[new_at:new_end]
                marks = _marks(gone, come)
                lost, won = [before for before, _ in marks], [after for _, after in marks]
                yield from _rows("−", gone, old_at, old_tokens, lost)
                yield from _rows("+", come, new_at, new_tokens, won)
    if before and after and before.endswith("\n") != after.endswith("\n"):
        yield Row("a newline at the end " + ("comes" if after.endswith("\n") else "goes"), "dim")


def _without_blank(around: range, lines: Sequence[str], side: Literal[0, -1]) -> range:
    """Return *around* without the blank lines at one side, which say nothing about a change."""
    while around and not lines[around[side]].strip():
        around = around[1:] if side == 0 else around[:-1]
    return around


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _tokens(lines: Sequence[str], language: str) -> Sequence[Tokens]:
    """Return the tokens of each line; none for a long file, where that would take too long."""
    if not language or len(lines) > _LEXED_LINES_MAX:
        return ()
    return [*code_tokens(lines, language)]


def _rows(
    mark: str, lines: Sequence[str], at: int, tokens: Sequence[Tokens], marks: Sequence[Spans] = ()
) -> Iterator[Row]:
    for number, (line, spans) in enumerate(zip_longest(lines, marks), at + 1):
        row = Row(f"{number:>5} {mark} {reveal(line)}", _STYLES[mark], gutter=len("12345 "))
        if reveal(line) == line:
            kinds = tokens[number - 1] if number <= len(tokens) else ()
            begin = Row("", marks=tuple(spans or ()), tokens=kinds).moved(len(row.text) - len(line))
            row = row._replace(marks=begin.marks, tokens=begin.tokens)
        yield row


def _marks(old: Sequence[str], new: Sequence[str]) -> list[tuple[Spans, Spans]]:
    """Return the changed words of lines that were changed one for one; none for other changes."""
    if len(old) != len(new) or len(old) > _MARKED_LINES_MAX:
        return []
    return [changed_words(before, after) for before, after in zip(old, new, strict=True)]
