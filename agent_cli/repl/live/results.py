"""What tools answered, as rows below their call: diffs in colour, long output folded."""

from typing import Final

from agent_cli.repl.live.paint import Paint, rows_of
from agent_cli.terminal.sanitize import clean
from agent_cli.tooling import ToolResult

_FOLDED_ROWS: Final = 5
_DIFF_ROWS_MAX: Final = 40
_KEPT_MAX: Final = 200
_DIM, _ADDED, _REMOVED, _HEAD = "2", "32", "31", "36"
_MARGIN: Final = "  "


class Results:
    """Makes the rows of results and keeps what they leave out, for `/output N`."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._kept: dict[int, str] = {}
        self._count = 0

    def rows(self, result: ToolResult, is_error: bool) -> list[str]:
        """Return the rows to show below a call."""
        details = result.details if isinstance(result.details, dict) else {}
        match details:
            case {"kind": "diff", "diff": str(diff)}:
                return self._folded(self.diff(diff), diff, _DIFF_ROWS_MAX)
            case {"kind": "command"}:
                text = result.text.rstrip("\n")
                rows = [f"{_MARGIN}{row}" for row in rows_of(text, self._paint.sgr(_DIM))]
                return self._folded(rows, text, _FOLDED_ROWS, last=True)
            case _ if is_error and "\n" in result.text:
                rows = [f"{_MARGIN}{row}" for row in rows_of(result.text, self._paint.sgr(_DIM))]
                return self._folded(rows, result.text, _FOLDED_ROWS)
        return []

    def diff(self, text: str) -> list[str]:
        """Return a unified diff with the numbers of its lines, in colour."""
        rows: list[str] = []
        old = new = 0
        for line in clean(text).expandtabs(4).splitlines():
            if line.startswith("@@"):
                old, new = _starts(line)
                if rows:
                    rows.append(self._paint.text(f"{_MARGIN}   …", _DIM))
            elif line.startswith("-"):
                rows.append(self._paint.text(f"{_MARGIN}{old:>4} {line}", _REMOVED))
                old += 1
            elif line.startswith("+"):
                rows.append(self._paint.text(f"{_MARGIN}{new:>4} {line}", _ADDED))
                new += 1
            else:
                rows.append(f"{_MARGIN}{self._paint.text(f'{new:>4}', _DIM)} {line}")
                old, new = old + 1, new + 1
        return rows

    def output(self, number: int | None) -> str | None:
        """Return what was folded: the output of that number, or the last one."""
        return self._kept.get(self._count if number is None else number)

    def _folded(
        self, rows: list[str], text: str, rows_max: int, *, last: bool = False
    ) -> list[str]:
        if len(rows) <= rows_max + 1:
            return rows
        self._count += 1
        self._kept[self._count] = text
        self._kept.pop(self._count - _KEPT_MAX, None)
        note = f"{_MARGIN}… {len(rows) - rows_max} more lines: /output {self._count}"
        note = self._paint.text(note, _DIM)
        return [note, *rows[-rows_max:]] if last else [*rows[:rows_max], note]


def _starts(header: str) -> tuple[int, int]:
    """Return the first line numbers of `@@ -12,5 +14,7 @@`."""
    numbers = [part[1:].split(",")[0] for part in header.split() if part[0] in "+-"]
    old, new = (int(number) if number.isdigit() else 0 for number in (*numbers, "0", "0")[:2])
    return old, new
