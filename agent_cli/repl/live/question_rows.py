"""Paint the rows of an approval question: a rule with the title, and changes on a ground."""

from collections.abc import Iterable, Iterator
from typing import Final

from agent_cli.repl.approval.changes import Row
from agent_cli.repl.live.cells import row_width, shortened
from agent_cli.repl.live.paint import Paint, Role, rows_of
from agent_cli.repl.live.sentences import sentence_rows

_COLUMNS_MAX: Final = 100
_LINE: Final = "─"
_MARGIN: Final = 2
_GROUNDS: Final[dict[str, tuple[Role, Role]]] = {
    "added": ("added ground", "added word"),
    "removed": ("removed ground", "removed word"),
}


def question_rows(rows: Iterable[Row], paint: Paint, columns: int) -> list[str]:
    """Return *rows* painted for *columns* cells; nothing of their text is left out."""
    return [row for each in rows for row in _painted(each, paint, columns)]


def _painted(row: Row, paint: Paint, columns: int) -> Iterator[str]:
    row = row._replace(text=row.text.replace("\n", "\\n"))  # a row stays one line
    if row.style == "title":
        yield from _title(row, paint, columns)
    elif row.style in _GROUNDS:
        yield _change(row, paint, columns)
    else:
        yield from sentence_rows(row.text, columns, paint.begin(row.style))


def _title(row: Row, paint: Paint, columns: int) -> Iterator[str]:
    """Yield a rule with the title in it; a title that is too wide stands below a rule."""
    width = min(columns - 1, _COLUMNS_MAX)
    beside = f" {row.beside} " if row.beside else ""
    room = width - row_width(row.text) - row_width(beside) - 2 * len("── ") - 1
    if room < 1:
        yield paint.text(_LINE * width, "rule")
        yield from sentence_rows(row.text, columns, paint.begin("title"))
        if row.beside:
            yield paint.text(shortened(row.beside, width), "dim")
        return
    rule = paint.text(_LINE * room, "rule")
    end = f"{paint.text(beside, 'dim')}{paint.text('──', 'rule')}" if beside else ""
    yield f"{paint.text('──', 'rule')} {paint.text(row.text, 'title')} {rule}{end}"


def _change(row: Row, paint: Paint, columns: int) -> str:
    """Return a changed line on its ground, to the edge if it fits, its changed words brighter."""
    ground, word = _GROUNDS[row.style]
    [text] = rows_of(row.text)
    if text != row.text:  # e.g. tabs, which move the marks
        row = Row(text, row.style)
    parts: list[str] = []
    at = 0
    for start, end in row.marks:
        parts += [paint.text(row.text[at:start], ground), paint.text(row.text[start:end], word)]
        at = end
    left = min(columns - 1, _COLUMNS_MAX) - row_width(row.text)
    padding = " " * left if paint.begin(ground) else ""
    text = row.text[at:]
    return "".join([*parts, paint.text(f"{text}{padding}", ground)])
