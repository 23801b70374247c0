"""Tool results as rows below their call: diffs, folded output, tables, progress, files."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, dropwhile
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.timeline import FileOutput, Json, WidgetOutput
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import CUT, counted, one_line
from agent_cli.repl.live.paint import Paint, cut, row_width, rows_of, rows_taken, sentence_rows
from agent_cli.repl.markdown import THEMES, rendered
from agent_cli.repl.markdown.page import Prefix
from agent_cli.repl.markdown.styles import painted
from agent_cli.repl.markdown.table import Alignment, Grid, Row
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import clean, overwritten
from agent_cli.terminal.narration import side_output, was_stopped

_FOLDED_ROWS: Final = 5
DIFF_ROWS_MAX: Final = 40
_KEPT_MAX: Final = 200
# More would pass for minutes.
_IN_FULL_BYTES_MAX: Final = 1_000_000
MARGIN: Final = "  "
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")


class _Kept(NamedTuple):
    """A text too long for the screen, the file with the whole, and what makes its rows, if any."""

    text: str
    file: str
    draw: Callable[[str], list[str]] | None


class Results:
    """Renders results as rows and keeps folded output for `/output N`."""

    def __init__(self, paint: Paint, columns: Callable[[], int]) -> None:
        """Keep nothing yet; *columns* returns the width of the terminal, which wraps wider rows."""
        self._paint = paint
        self._columns = columns
        self._kept: dict[int, _Kept] = {}
        self._count = 0

    def result(self, result: ToolResult, *, is_error: bool, was_asked: bool) -> list[str]:
        """Return the rows to show below a call.

        Args:
            result: The result of the tool.
            is_error: Whether the call failed.
            was_asked: The user saw the call's effect in an approval question before it ran.
        """
        details = result.details if isinstance(result.details, dict) else {}
        match details:
            case {"kind": "diff", "diff": str(diff)}:
                return [] if was_asked else self.folded_diff(diff, DIFF_ROWS_MAX)
            case {"kind": "command"}:
                # The user sees the whole output, the model an excerpt with a note about that.
                text = overwritten(result.text)
                shown = _without_status(text, details.get("status"))
                file, lines = details.get("spill"), details.get("lines")
                return self.folded(
                    self._dim(shown.partition(CUT)[0]),
                    text,
                    last=True,
                    file=file if isinstance(file, str) else "",
                    lines=lines if isinstance(lines, int) else 0,
                )
            case {"agent": str()}:
                return self.folded(self._prose(result.text), result.text, draw=self._prose)
            case _ if is_error:  # its first line is in the call's own row
                below = result.text.partition("\n")[2]
                if was_stopped(result.text):  # the output of the command
                    return self.folded(self._dim(below), result.text, last=True)
                return self.folded(self._prose(below), result.text, draw=self._prose)
            case _:
                return []

    def diff(self, text: str) -> list[str]:
        """Return a unified diff with line numbers, in colour."""
        rows: list[str] = []
        old = new = 0
        # Not `splitlines`, which also splits at other characters than newlines.
        for line in clean(text).expandtabs(4).removesuffix("\n").split("\n") if text else ():
            if hunk := _HUNK.match(line):
                old, new = int(hunk[1]), int(hunk[2])
                if rows:
                    rows.append(self._paint.text(f"{MARGIN}   …", "dim"))
            elif line.startswith("-"):
                rows.append(self._paint.text(f"{MARGIN}{old:>4} −{line[1:]}", "removed"))
                old += 1
            elif line.startswith("+"):
                rows.append(self._paint.text(f"{MARGIN}{new:>4} {line}", "added"))
                new += 1
            elif line.startswith("\\"):  # a remark about the line above, not part of a file
                rows.append(self._paint.text(f"{MARGIN}     {line}", "dim"))
            else:
                rows.append(f"{MARGIN}{self._paint.text(f'{new:>4}', 'dim')} {line}".rstrip())
                old, new = old + 1, new + 1
        return rows

    def answer(self, text: str) -> list[str]:
        """Return the Markdown *text* of an answer, drawn."""
        return rendered(text, self._columns(), THEMES[self._paint.theme])

    def folded_diff(self, text: str, rows_max: int) -> list[str]:
        """Return the rows of a unified diff, folded to *rows_max*."""
        return self.folded(self.diff(text), text, rows_max, draw=self.diff)

    def drawn(self, number: int | None) -> list[str] | None:
        """Return the rows of that folded output, if it is an answer or a diff, else None."""
        kept = self._of(number)
        return kept.draw(kept.text) if kept and kept.draw else None

    def output(self, number: int | None) -> str | None:
        """Return the folded output of that number, or the last output; whole if a file has it."""
        kept = self._of(number)
        return _in_full(kept.text, kept.file) if kept else None

    def keep(
        self, text: str, file: str = "", *, draw: Callable[[str], list[str]] | None = None
    ) -> None:
        """Keep a *text* too long for the screen under the next number; *file* has the whole.

        *draw* makes the rows to show from *text*; by default they are its lines.
        """
        self._count += 1
        self._kept[self._count] = _Kept(text, file, draw)
        self._kept.pop(self._count - _KEPT_MAX, None)

    def keep_sentences(self, text: str) -> None:
        """Keep *text* like `keep`; it is shown wrapped between words."""
        self.keep(text, draw=self._prose)

    def folded(
        self,
        rows: list[str],
        text: str,
        rows_max: int = _FOLDED_ROWS,
        *,
        last: bool = False,
        file: str = "",
        lines: int = 0,
        draw: Callable[[str], list[str]] | None = None,
    ) -> list[str]:
        """Return the first or last of *rows*, and keep the full *text*.

        Args:
            rows: Lines; one wider than the terminal counts as several rows.
            text: The text they were made of.
            rows_max: Maximum number of terminal rows.
            last: Show the end instead of the beginning.
            file: The file with the whole text, where *text* is an excerpt; "" for none.
            lines: The number of lines in *file*, if it is known.
            draw: Made *rows*, and makes them anew for `/output`; None shows the text as it is.
        """
        if sum(map(self._taken, rows)) <= rows_max + 1:
            return rows
        shown = self._fitting(rows[::-1] if last else rows, rows_max)
        shown = [*dropwhile(lambda row: not row, shown[::-1])] if last else shown
        self.keep(text, file, draw=draw)
        left_out = max(lines, len(rows)) - len(shown)
        more = counted(left_out, "more line") if left_out else "a longer line"
        note = self._paint.text(f"{MARGIN}… {more}: Ctrl-O, /output {self._count}", "dim")
        return [note, *shown] if last else [*shown, note]

    def _of(self, number: int | None) -> _Kept | None:
        return self._kept.get(self._count if number is None else number)

    def _taken(self, row: str) -> int:
        return rows_taken(row_width(row), self._columns())

    def _fitting(self, rows: Sequence[str], rows_max: int) -> list[str]:
        """Return the first of *rows* that fit in *rows_max*; of a single long one its beginning."""
        heights = accumulate(map(self._taken, rows))
        count = sum(1 for height in heights if height <= rows_max)
        return [*rows[:count]] if count else [cut(rows[0], rows_max * self._columns())]

    def _prose(self, text: str) -> list[str]:
        """Return *text*, which people read and no program made, wrapped between words."""
        width = max(self._columns() - len(MARGIN), 1)
        rows = sentence_rows(text.rstrip("\n"), width, self._paint.begin("dim"))
        return [f"{MARGIN}{row}".rstrip() for row in rows] if text.strip() else []

    def _dim(self, text: str) -> list[str]:
        rows = rows_of(text.rstrip("\n"), self._paint.begin("dim")) if text.strip() else []
        return [f"{MARGIN}{row}".rstrip() for row in rows]


def _in_full(text: str, file: str) -> str:
    """Return the content of *file* in place of *text*, an excerpt of that file, if there is one."""
    if not file:
        return text
    try:
        if Path(file).stat().st_size <= _IN_FULL_BYTES_MAX:
            return overwritten(Path(file).read_bytes().decode(errors="replace"))
    except OSError:
        return text  # it ended with another session
    return f"{text}\n[all of it is in {file}]"


def _without_status(text: str, status: Json) -> str:
    """Return *text* without the line with the exit status, which the call's row shows."""
    if not isinstance(status, str):
        return text
    before, _, after = text.rpartition(status)
    return before.removesuffix("\n") + after


# The data comes from tools and servers: it is validated and cleaned here, and data of the wrong
# shape is shown as the tool's fallback text.
SideOutput: TypeAlias = FileOutput | WidgetOutput

_ROWS_SHOWN: Final = 20
_ROWS_DRAWN_MAX: Final = 500
_COLUMNS_MAX: Final = 30
_CELL_CHARS_MAX: Final = 200
_BAR_CELLS: Final = 20
# Python refuses to format integers of thousands of digits.
_AMOUNT_MAX: Final = 1e15


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a progress widget; `total` None means unknown."""

    label: str
    done: float
    total: float | None


class Details:
    """The rows below a call: its result, and its side outputs."""

    def __init__(self, results: Results, paint: Paint, columns: Callable[[], int]) -> None:
        self.result = results.result
        self.keep_sentences = results.keep_sentences
        self._results = results
        self._paint = paint
        self._columns = columns

    def side_output(self, output: SideOutput) -> list[str]:
        """Return the rows of *output* below its call."""
        if isinstance(output, FileOutput):
            return [self._file(output)]
        match output.widget, output.data:
            case "table", data if table := _table_of(data):
                return self._table(table, output.fallback)
            case "progress", data if progress := progress_of(data):
                return [self._progress(progress)]
            case "diff", {"diff": str(diff)} if rows := self._results.folded_diff(
                diff, _ROWS_SHOWN
            ):
                return rows
            case _:
                text = side_output(output).rstrip("\n")
                rows = [f"{MARGIN}{row}" for row in rows_of(text)]
                return self._results.folded(rows, text, _ROWS_SHOWN)

    def _file(self, output: FileOutput) -> str:
        path = self._paint.text(_line(output.path), "path")
        about = [_line(text) for text in (output.media_type, output.summary) if text]
        return f"{MARGIN}{' · '.join([path, *about])}"

    def _progress(self, progress: Progress) -> str:
        done = f"{progress.done:,.10g}"
        if progress.total is None:
            return f"{MARGIN}{progress.label} {done}".rstrip()
        share = min(progress.done / progress.total, 1.0)
        filled = int(share * _BAR_CELLS)
        bar = self._paint.text("█" * filled, "good")
        rest = self._paint.text("░" * (_BAR_CELLS - filled), "dim")
        words = f"{share:4.0%} · {done} of {progress.total:,.10g} · {progress.label}"
        return f"{MARGIN}{bar}{rest} {words.removesuffix(' · ')}"

    def _table(self, rows: list[list[str]], fallback: str) -> list[str]:
        theme = THEMES[self._paint.theme]
        head: Row = [[(text, theme.table_head)] for text in rows[0]]
        body: list[Row] = [[[(text, "")] for text in row] for row in rows[1:]]
        margin = Prefix([(MARGIN, "")], [(MARGIN, "")])
        grid = Grid(margin, theme, head, [_alignment(column) for column in zip(*rows, strict=True)])
        for row in body:
            grid.measure(row)
        width = max(self._columns(), 1)
        lines = grid.drawn_head(width, has_rows=bool(body)) + grid.drawn(body, width)
        drawn = [painted(line) for line in lines]
        text = fallback or "\n".join("\t".join(row) for row in rows)
        return self._results.folded(drawn, text, _ROWS_SHOWN)


def progress_of(data: Json) -> Progress | None:
    """Parse `{"label", "done", "total"}`; None if it is not valid."""
    if not isinstance(data, dict):
        return None
    done, total = _amount(data.get("done")), _amount(data.get("total"))
    if done is None or total == 0 or (total is None and data.get("total") is not None):
        return None
    return Progress(_cell(data.get("label")), done, total)


def _amount(value: Json) -> float | None:
    match value:
        case bool():
            return None
        case int() | float() if 0 <= value <= _AMOUNT_MAX:
            return float(value)
        case _:
            return None


def _table_of(data: Json) -> list[list[str]] | None:
    """Return the header and the rows of `{"columns", "rows"}`, or None for another shape."""
    match data:
        case {"columns": [_, *_] as columns, "rows": [*rows]} if len(columns) <= _COLUMNS_MAX:
            cut = rows[:_ROWS_DRAWN_MAX]
        case _:
            return None
    if not all(isinstance(row, list) and len(row) == len(columns) for row in cut):
        return None
    return [[_cell(value) for value in row] for row in (columns, *cut) if isinstance(row, list)]


def _cell(value: Json) -> str:
    """Return a value on one line."""
    match value:
        case str():
            return _line(value)
        case bool():
            return "yes" if value else "no"
        case int() | float() if abs(value) <= _AMOUNT_MAX:
            return str(value)
        case None:
            return ""
        case _:
            return "…"


def _line(text: str) -> str:
    return one_line(clean(text), _CELL_CHARS_MAX)


def _alignment(column: tuple[str, ...]) -> Alignment:
    """Return "right" for a column of numbers; the first cell is the header."""
    numbers = [cell.replace(",", "").replace(".", "", 1).lstrip("+-−$€") for cell in column[1:]]
    return "right" if numbers and all(text.isdigit() for text in numbers) else "left"
