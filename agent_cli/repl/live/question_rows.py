"""Paint the rows of an approval question: a rule with the title, and changes on a ground."""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Final

from agent_cli.repl.approval.changes import Row
from agent_cli.repl.live.cells import row_width
from agent_cli.repl.live.paint import TAB_CELLS, Paint, Role, colored, rows_of
from agent_cli.repl.live.sentences import sentence_rows
from agent_cli.repl.markdown.theme import TokenKind

_COLUMNS_MAX: Final = 100
_MOVED_CHARS_MAX: Final = 1_000
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
    elif row.spans:
        [text] = rows_of(row.text)
        pieces = ((text[start:end], paint.begin(style)) for start, end, style in row.spans)
        yield "".join(colored(piece, begin) for piece, begin in pieces).rstrip()
    elif (code := _without_tabs(row)).tokens or (code.gutter and row_width(code.text) < columns):
        yield "".join(colored(*piece) for piece in _code(code, paint, ()))
    else:
        yield from sentence_rows(row.text, columns, paint.begin(row.style))


def _title(row: Row, paint: Paint, columns: int) -> Iterator[str]:
    """Yield a rule with the title in it; a title that is too wide stands below a rule."""
    width = min(columns - 1, _COLUMNS_MAX)
    beside = f" {row.beside} " if row.beside else ""
    end = f"{beside}──" if beside else ""
    room = width - row_width(row.text) - row_width(end) - len("──  ")
    if room < 1:
        yield paint.text(_LINE * width, "rule")
        yield from sentence_rows(row.text, columns, paint.begin("title"))
        if row.beside:
            yield from sentence_rows(row.beside, columns, paint.begin("dim"))
        return
    rule = paint.text(_LINE * room, "rule")
    end = f"{paint.text(beside, 'dim')}{paint.text('──', 'rule')}" if beside else ""
    yield f"{paint.text('──', 'rule')} {paint.text(row.text, 'title')} {rule}{end}"


def _change(row: Row, paint: Paint, columns: int) -> str:
    """Return a changed line on its ground, to the edge if it fits, its changed words brighter."""
    ground, word = _GROUNDS[row.style]
    row = _without_tabs(row)
    left = min(columns - 1, _COLUMNS_MAX) - row_width(row.text)
    padding = " " * left if paint.begin(ground) else ""
    pieces = [*_code(row, paint, (ground, word)), (padding, paint.begin(ground))]
    merged = groupby(pieces, key=lambda piece: piece[1])
    return "".join(colored("".join(text for text, _ in run), begin) for begin, run in merged)


def _without_tabs(row: Row) -> Row:
    """Return *row* as the screen shows it; tabs move its marks and tokens."""
    [text] = rows_of(row.text)
    if text == row.text:
        return row
    if text != row.text.expandtabs(TAB_CELLS) or len(text) > _MOVED_CHARS_MAX:
        return Row(text, row.style)
    places = [len(row.text[:at].expandtabs(TAB_CELLS)) for at in range(len(row.text) + 1)]
    return row._replace(
        text=text,
        marks=tuple((places[start], places[end]) for start, end in row.marks),
        tokens=tuple((places[start], places[end], kind) for start, end, kind in row.tokens),
    )


def _code(row: Row, paint: Paint, grounds: tuple[Role, ...]) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a line of code and the sequences that begin their colours.

    Args:
        row: The line.
        paint: The colours.
        grounds: The roles of a changed line and of its changed words; none for a line as it is.
    """
    cuts = {0, min(row.gutter, len(row.text)), len(row.text)}
    cuts.update(column for start, end in row.marks for column in (start, end))
    cuts.update(column for start, end, _ in row.tokens for column in (start, end))
    for start, end in pairwise(sorted(cuts)):
        is_marked = any(first <= start < last for first, last in row.marks)
        kinds: list[TokenKind] = [kind for first, last, kind in row.tokens if first <= start < last]
        if start < row.gutter and not grounds:
            yield row.text[start:end], paint.begin("dim")
        elif grounds and (is_marked or not kinds):
            yield row.text[start:end], paint.begin(grounds[is_marked])
        else:
            ground = grounds[0] if grounds else None
            yield row.text[start:end], paint.token(kinds[0], ground) if kinds else ""
