"""Render events as rows: finished ones, and a tail that still changes; and the rows of a question.

The display queues the events and paints the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Streaming
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.core.run import THINKING_SHOWN, Phase
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.live.activity import ActivityLine
from agent_cli.repl.live.backlog import Item, Rows
from agent_cli.repl.live.paint import (
    TAB_CELLS,
    Paint,
    Role,
    colored,
    row_width,
    rows_of,
    sentence_rows,
)
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.markdown import THEMES, MarkdownStream
from agent_cli.repl.markdown.styles import TokenKind
from agent_cli.repl.runs import with_commands
from agent_cli.system.sanitize import Filter
from agent_cli.terminal.narration import narrate

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINNER_CELLS: Final = 2
_FRAMES_PER_S: Final = 8
_TAIL_ROWS_MAX: Final = 12


class SessionView:
    """The view of a session. `show` processes events, `finished` and `tail` return the rows.

    It neither draws nor waits, and depends only on events.

    Attributes:
        is_asked: A dialog prints its rows, and its question opens below them.
    """

    def __init__(
        self,
        tools: ToolRows,
        *,
        paint: Paint,
        streaming: Streaming,
        clock: Callable[[], float],
        columns: Callable[[], int],
        activity: ActivityLine,
        asks: Callable[[], bool] = bool,
        is_low: Callable[[], bool] = lambda: False,
        has_room: Callable[[], bool] = lambda: True,
        links: bool = False,
    ) -> None:
        """Show nothing yet.

        While a question is open (*asks*), rows of events wait: a question that scrolls away above
        its answers would be taken for another one. A terminal that *is_low* has no room for blank
        rows in the tail, and one without *has_room* none for the tail beside a question.
        """
        self._tools = tools
        self.is_asked = False
        self.is_open = asks
        self._is_low = is_low
        self._has_room = has_room
        self._links = links
        self._paint = paint
        self._sequential = streaming == "sequential"
        self._clock = clock
        self._columns = columns
        self._activity = activity
        self._rows: list[str] = []
        self._held: list[tuple[str, list[str]]] = []  # until the open question is answered
        self._kind = "gap"  # kind of the last printed row
        self._filter = Filter()
        self._answer: MarkdownStream | None = None
        self._thought = ""
        self._retry: list[str] = []  # of a call without any reply so far: the next takes its place
        self._phase: str = Phase.IDLE
        self._needs_gap = False  # the last rows came while nothing ran

    @property
    def is_moving(self) -> bool:
        """Whether the tail changes with time."""
        return self._activity.is_busy

    def show(self, item: Item) -> None:
        """Process the next event or rows."""
        self._release()
        match item:
            case Rows(rows=rows, kind="own", wait=False) if self._asks():  # of the question
                self._put("own", rows)
            case Rows(rows=rows, kind=kind):  # above a streaming answer, so as not to split it
                if kind == "thought":
                    self._end_thought()
                if kind != "folded" or not self._tools.fold_thought(rows[0]):
                    self._add("tools" if kind == "folded" else kind, rows)
            case events.AgentEnd():
                self._end_run()
            case events.StateChanged(after=after):
                self._phase = after
            case events.MessageUpdate(event=TextDelta(delta=delta)):
                self._add_text(delta)
            case events.MessageUpdate(event=ThinkingDelta(delta=delta)):
                self._add_thought(delta)
            case events.MessageEnd(message=AssistantMessage() as message):
                self._end_message(message)
            case _:
                self._show_other(item)

    def _show_other(self, event: events.Event) -> None:
        if self._tools.show(event):  # within an answer its rows stand above, as others do
            self._add("tools", self._tools.finished())
        elif sentence := narrate(event):
            begin = self._paint.begin(sentence.style)
            rows = sentence_rows(with_commands(sentence.text), self._columns(), begin)
            if isinstance(event, events.Retry) and not event.restarted:
                self._retry = []
                self._add("own", ())
                self._retry = rows
            else:
                self._add("own", rows)
                self._needs_gap = not self._activity.is_busy

    def finished(self) -> list[str]:
        """Return the rows finished since the last call; rows held for a question come later."""
        self._release()
        if self._needs_gap and not self._asks():
            self._needs_gap = False
            self._put("gap", ())  # the prompt stands below, and no run's end leaves one
        rows, self._rows = self._rows, []
        return rows

    def tail(self) -> list[str]:
        """Return the live rows, with blank rows around them during a run.

        They would stand between a question and its answers: while only a question waits, or where
        there is little room, there are none, and beside other work no text that streams.
        """
        asks = self._asks()
        if self._activity.only_waits or (asks and (self._is_low() or not self._has_room())):
            return []
        kind, rows = "tools", self._tools.tail(self._spinner())
        if self._retry:
            kind, rows = "own", [*self._retry, *rows]
        if self._thought and not asks:
            kind, rows = "thought", [*rows, self._paint.text(self._thought, "dim")]
        if self._answer and not asks:
            self._answer.resize(self._columns())
            kind, rows = "answer", rows + self._answer.tail(_TAIL_ROWS_MAX)
        busy = self._activity.text(self._columns() - _SPINNER_CELLS)
        if not busy:
            return rows
        above = [""] if rows and self._is_apart(kind) else []
        status = self._paint.text(f"{self._spinner()} {busy}", "dim")
        if self._is_low():
            return [*above, *rows, status]
        rows += [""] if rows or self._is_apart("status") else []
        return [*above, *rows, status, ""]

    def _asks(self) -> bool:
        return self.is_asked or self.is_open()

    def _is_apart(self, kind: str) -> bool:
        return self._kind not in ("gap", kind)

    def _add(self, kind: str, rows: Iterable[str]) -> None:
        """Add finished *rows*, after a blank row if they are of another kind."""
        rows = [*rows]
        retry, self._retry = self._retry, []
        if retry:
            self._add("own", retry)
        if kind != "tools" and (held := self._tools.finished(releases=True)):
            self._add("tools", held)
        if self._asks():
            self._held.append((kind, rows))
        else:
            self._put(kind, rows)

    def _release(self) -> None:
        if self._held and not self._asks():
            held, self._held = self._held, []
            for kind, rows in held:
                self._put(kind, rows)

    def _put(self, kind: str, rows: Sequence[str]) -> None:
        if self._is_apart(kind) and (rows or kind == "gap") and [*rows[:1]] != [""]:
            self._rows.append("")
        if rows or kind == "gap":
            self._kind = kind
        self._rows += rows

    def _add_text(self, delta: str) -> None:
        if self._thought:
            self._end_flow()
        if self._answer is None:
            theme = replace(THEMES[self._paint.theme], links=self._links)
            self._answer = MarkdownStream(self._columns(), theme)
        self._answer.resize(self._columns())
        self._add("answer", self._answer.feed(self._filter.feed(delta)))

    def _add_thought(self, delta: str) -> None:
        """Add thinking in its own rows; S4 allows it in two phases only."""
        assert self._phase in THINKING_SHOWN, self._phase
        text = self._thought + self._filter.feed(delta)
        *rows, self._thought = sentence_rows(text, self._columns())
        self._add("thought", (self._paint.text(row, "dim") for row in rows))

    def _end_message(self, message: AssistantMessage) -> None:
        self._end_flow()
        if self._sequential and message.tool_calls and message.error is None and message.text:
            self._add("answer", rows_of(message.text.rstrip(), self._paint.begin("dim")))

    def _end_flow(self) -> None:
        """End the streaming block, so that the next one begins a new row."""
        self._filter.reset()
        self._end_thought()
        if self._answer:
            self._add("answer", self._answer.finish())
            self._answer = None

    def _end_thought(self) -> None:
        if self._thought:
            self._add("thought", [self._paint.text(self._thought, "dim")])
            self._thought = ""

    def _end_run(self) -> None:
        self._end_flow()
        self._tools.end()
        self._add("tools", self._tools.finished())
        self._add("gap", ())  # in the same frame, or the prompt would move twice

    def _spinner(self) -> str:
        return _SPINNER[int(self._clock() * _FRAMES_PER_S) % len(_SPINNER)]


_COLUMNS_MAX: Final = 100
_MOVED_CHARS_MAX: Final = 1_000
_LINE: Final = "─"
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
    merged = groupby(_code(row, paint, (ground, word)), key=lambda piece: piece[1])
    painted = "".join(colored("".join(text for text, _ in run), begin) for begin, run in merged)
    return painted + paint.ground_behind(ground, left)


def _without_tabs(row: Row) -> Row:
    """Return *row* as the screen shows it; tabs move its marks and tokens."""
    [text] = rows_of(row.text)
    if text == row.text:
        return row
    if text != row.text.expandtabs(TAB_CELLS) or len(text) > _MOVED_CHARS_MAX:
        return Row(text, row.style)
    columns = [len(row.text[:at].expandtabs(TAB_CELLS)) for at in range(len(row.text) + 1)]
    return row._replace(
        text=text,
        marks=tuple((columns[start], columns[end]) for start, end in row.marks),
        tokens=tuple((columns[start], columns[end], kind) for start, end, kind in row.tokens),
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
