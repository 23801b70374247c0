"""The echo of the user's messages in the scrollback; of long ones the beginning and end."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from agent_cli.contracts.wording import counted
from agent_cli.repl.live.cells import row_width, rows_taken, shortened
from agent_cli.repl.live.input.separate import separated
from agent_cli.repl.live.layout import CONTINUATION
from agent_cli.repl.live.paint import Paint
from agent_cli.terminal.first_prompt import PROMPT
from agent_cli.terminal.sanitize import clean

_HEAD_ROWS: Final = 7
_TAIL_ROWS: Final = 5


def echoed(text: str, *, columns: int, paint: Paint) -> list[str]:
    """Return the rows that show *text* behind the prompt on a terminal with *columns*."""
    lines = clean(separated(text)).expandtabs(4).split("\n")
    width = max(columns - len(PROMPT), 1)
    heights = [rows_taken(row_width(line), width) for line in lines]
    if sum(heights) > _HEAD_ROWS + _TAIL_ROWS:
        lines = _folded(lines, heights, width)
    begins = [PROMPT, *[CONTINUATION] * (len(lines) - 1)]
    return [paint.text(f"{begin}{line}", "said") for begin, line in zip(begins, lines, strict=True)]


def _folded(lines: Sequence[str], heights: Sequence[int], width: int) -> list[str]:
    """Return the first and the last of *lines*, with the number left out in between."""
    head, tail = _fitting(heights, _HEAD_ROWS), _fitting(heights[::-1], _TAIL_ROWS)
    first = lines[:head] if head else [shortened(lines[0], _HEAD_ROWS * width)]
    last = lines[max(len(lines) - tail, len(first)) :]
    left_out = len(lines) - len(first) - len(last)
    more = counted(left_out, "more line") if left_out else ""
    if not head:
        more = more or f"{len(lines[0]):,} characters in this line"
    return [*first, *([f"… {more}"] if more else []), *last]


def _fitting(heights: Sequence[int], rows_max: int) -> int:
    """Return how many lines of these *heights* fit in *rows_max* rows."""
    return sum(1 for rows in accumulate(heights) if rows <= rows_max)
