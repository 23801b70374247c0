"""Reduce lines that a program drew over to what a terminal shows in the end; pure."""

import re
from typing import Final

# A state of a progress line that somebody wants to read although it was drawn over.
_TROUBLE: Final = re.compile(r"error|fail|fatal|warn|denied|abort|panic|except", re.IGNORECASE)
_MOVES_UP: Final = re.compile(r"\x1b\[\d*[AF]")
_PIECES: Final = re.compile(r"\x1b\[(\d*)([ABCDEFGJK])|(\r?\n)|(\r)|\x1b[78]|([^\x1b\r\n]+|\x1b)")
_STYLES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[HIL-Za-z@`{|}~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b[()][0-9A-B]|\x1b[=>]"
)
# A terminal has no more rows above and columns beside; a longer line goes on in the next row.
_ROWS_MAX: Final = 200
_COLUMNS_MAX: Final = 1_000
_LINE_CHARS_MAX: Final = 20_000
_DIGITS_MAX: Final = 9


def last_states(text: str) -> tuple[str, int]:
    """Return *text* with each line as a terminal shows it in the end, and how many states went."""
    if "\r" not in text:
        return text, 0
    lines: list[str] = []
    gone = 0
    for line in text.replace("\r\n", "\n").split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        if len(states) < 2:
            lines.append(states[0] if states else "")
            continue
        kept = [state for state in dict.fromkeys(states[:-1]) if _TROUBLE.search(state)]
        lines += [*kept, states[-1]]
        gone += len(states) - 1 - len(kept)
    return "\n".join(lines), gone


def settled(text: str) -> str:
    """Return *text*, in which a program moves the cursor up, with what it shows in the end."""
    if not _MOVES_UP.search(text):
        return text
    screen = _Screen()
    for count, move, newline, back, written in _PIECES.findall(_STYLES.sub("", text)):
        if written:
            screen.write(written)
        elif newline:
            screen.row, screen.column = screen.row + 1, 0
        elif back:
            screen.column = 0
        elif move:
            screen.move(move, int(count[:_DIGITS_MAX] or (0 if move in "JK" else 1)))
    return screen.text()


class _Screen:
    """Rows of text with a cursor; states with a word of trouble stay above what replaces them."""

    def __init__(self) -> None:
        self.row = self.column = 0
        self._rows: list[str] = []
        self._troubles: dict[int, list[str]] = {}

    def write(self, text: str) -> None:
        """Write *text* at the cursor."""
        if self.column > _LINE_CHARS_MAX:
            self.row, self.column = self.row + 1, 0
        self._rows += [""] * (self.row + 1 - len(self._rows))
        line = self._rows[self.row]
        end = self.column + len(text)
        self._replace(line[: self.column].ljust(self.column) + text + line[end:])
        self.column = end

    def move(self, move: str, count: int) -> None:
        """Carry out a control sequence."""
        match move:
            case "A" | "F":
                self.row = max(self.row - min(count, _ROWS_MAX), 0)
            case "B" | "E":
                self.row = max(self.row, min(self.row + count, len(self._rows)))
            case "C":
                self.column = min(self.column + count, max(self.column, _COLUMNS_MAX))
            case "D":
                self.column = max(self.column - count, 0)
            case "G":
                self.column = min(max(count, 1), _COLUMNS_MAX) - 1
            case "K":
                self._erase_in_line(count)
            case "J" if count == 0:
                self._erase_in_line(0)
                for line in self._rows[self.row + 1 :]:
                    self._keep(line)
                for row in [row for row in self._troubles if row > self.row]:
                    self._troubles.setdefault(self.row, []).extend(self._troubles.pop(row))
                self._rows[self.row + 1 :] = []
            case _:
                pass
        if move in "EF":
            self.column = 0

    def _erase_in_line(self, part: int) -> None:
        """Erase the text from the cursor on, or before it (1), or both (2)."""
        if self.row < len(self._rows):
            line = self._rows[self.row]
            before = line[: self.column] if part == 0 else ""
            after = line[self.column :].rjust(len(line)) if part == 1 else ""
            self._replace(before + after)

    def _replace(self, line: str) -> None:
        before = self._rows[self.row]
        if not line.startswith(before.rstrip()):
            self._keep(before)
        self._rows[self.row] = line

    def _keep(self, line: str) -> None:
        """Remember a line with a word of trouble that goes from the screen."""
        if _TROUBLE.search(line):
            kept = self._troubles.setdefault(self.row, [])
            if line.rstrip() not in kept:
                kept.append(line.rstrip())

    def text(self) -> str:
        """Return the rows, each below the lines of trouble that it replaced."""
        lines: list[str] = []
        for row, line in enumerate(self._rows):
            lines += [each for each in self._troubles.get(row, ()) if each != line.rstrip()]
            lines.append(line.rstrip())
        return "\n".join(lines)
