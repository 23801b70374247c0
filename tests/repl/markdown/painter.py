"""Finished rows and a tail on a separate terminal: the smallest possible live region."""

from collections.abc import Callable, Sequence

from agent_cli.repl.markdown import MarkdownStream
from agent_cli.repl.markdown.styles import is_narrow

_ERASE_ROW = "\x1b[2K"
_ERASE_BELOW = "\x1b[J"
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_DELTAS_PER_FRAME = 13


class Painter:
    """Tracks the rows of the tail; the cursor is always in the last of them.

    A finished row that is already in its place is not written again, unless a terminal
    might measure its width differently.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown: list[str | None] = [None]

    def paint(self, finished: Sequence[str], tail: Sequence[str], width: int) -> None:
        """Show the next frame."""
        out: list[str] = []
        shown = self._shown
        if len(shown) > 1:
            out.append(f"\x1b[{len(shown) - 1}A")
        out.append("\r")
        for row in finished:
            here = shown.pop(0) if shown else None
            if here != row or not is_narrow(row.replace("\x1b", "")):
                # A row that wraps overwrites the following ones, which must be erased before.
                wraps = not fits(row, width)
                out.append((_ERASE_BELOW if wraps else _ERASE_ROW) + row)
                shown = [] if wraps else shown
            out.append("\r\n")
        out += self._tail(shown, list(tail) or [""])
        self._shown = list(tail) or [""]
        frame = "".join(out)
        if frame != "\r":
            self._write(frame)

    def forget(self) -> None:
        """Forget all positions: the screen was rewrapped."""
        self._shown = [None] * len(self._shown)

    def _tail(self, shown: Sequence[str | None], tail: Sequence[str]) -> list[str]:
        out: list[str] = []
        for index, row in enumerate(tail):
            here = shown[index] if index < len(shown) else None
            out.append("\r\n" if index else "")
            if here != row:
                out.append(f"{_ERASE_ROW}{_WRAP_OFF}{row}{_WRAP_ON}")
        if len(shown) > len(tail):
            out += ["\r\n", _ERASE_BELOW, "\x1b[A"]
        return out


def fits(row: str, width: int) -> bool:
    """Return whether a row certainly fits in one row of the terminal."""
    return is_narrow(text_of(row)) and len(text_of(row)) <= width


def text_of(row: str) -> str:
    """Return a row without its styles."""
    first, *others = row.split("\x1b[")
    return first + "".join(other.partition("m")[2] for other in others)


def play(
    stream: MarkdownStream,
    deltas: Sequence[str],
    write: Callable[[str], None],
    *,
    width: int,
    per_frame: int = _DELTAS_PER_FRAME,
    tail_rows: int = 12,
) -> list[str]:
    """Stream *deltas* to a terminal, a frame after every *per_frame* of them; return all rows."""
    painter = Painter(write)
    rows: list[str] = []
    for start in range(0, len(deltas), per_frame):
        finished: list[str] = []
        for delta in deltas[start : start + per_frame]:
            finished += stream.feed(delta)
        painter.paint(finished, stream.tail(tail_rows), width)
        rows += finished
    finished = stream.finish()
    painter.paint(finished, [], width)
    return rows + finished
