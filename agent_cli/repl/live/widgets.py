"""Side outputs of tools as rows: tables, progress, diffs, files.

The data comes from tools and servers: it is validated and cleaned here, and data of the wrong shape
is shown as the tool's fallback text.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from agent_cli.contracts.timeline import FileOutput, Json, WidgetOutput
from agent_cli.contracts.wording import one_line
from agent_cli.repl.live.paint import Paint, rows_of
from agent_cli.repl.live.results import MARGIN, Results
from agent_cli.repl.markdown import THEMES
from agent_cli.repl.markdown.grid import Alignment, Grid, Row
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.spans import painted
from agent_cli.system.records import dataclass
from agent_cli.terminal.narration import side_output
from agent_cli.terminal.sanitize import clean

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
        self.keep = results.keep
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
            case "diff", {"diff": str(diff)} if rows := self._results.diff(diff):
                return self._results.folded(rows, diff, _ROWS_SHOWN)
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
