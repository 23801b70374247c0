"""The list of answers below a question; arrow keys and typed text move the mark in it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.repl.dialogue import Choice, chosen, is_slip, not_an_answer
from agent_cli.repl.live.cells import fitting, row_width, shortened

_MARK: Final = "❯ "
_MARGIN: Final = " " * len(_MARK)
_COLUMNS_MAX: Final = 72
_GAP: Final = "  "
_MORE_ABOVE: Final = "↑ "
_MORE_BELOW: Final = "↓ "


class Choices:
    """The answer of Enter: the marked choice, or, once text is typed, the whole text.

    The marked row is always visible, so that no unseen choice is taken. The mark appears once
    `is_marked` is set: from then on Enter answers.
    """

    is_marked = False

    def __init__(
        self,
        choices: Sequence[Choice],
        text: str,
        ctrl_c: str = "stops the run",
        *,
        has_default: bool = True,
    ) -> None:
        """Mark the first of *choices*, if there is a default.

        *text* and *ctrl_c* describe typed text and that key.
        """
        self.all = choices
        self._listed = [choice for choice in choices if choice.label]
        self._text_label = text
        self._ctrl_c = ctrl_c
        self._text = ""
        self._default = 0 if has_default else None
        self._place = self._default

    def typed(self, text: str) -> None:
        """Note the text of the input; a change moves the mark to the matching row."""
        text = text.strip()
        if text == self._text:
            return
        self._text = text
        found = chosen(text, self.all)
        if found is not None and found in self._listed:
            self._place = self._listed.index(found)
        else:
            self._place = None if text else self._default

    def move(self, rows: int) -> None:
        """Move the mark, cyclically; the last row is for text."""
        count = len(self._listed) + bool(self._text)
        place = self._place
        if (
            place is None
        ):  # on the row for text; without text that is between the last and the first
            place = len(self._listed) if self._text or rows < 0 else -1
        place = (place + rows) % count
        self._place = None if place == len(self._listed) else place

    def mark(self, checkbox: Choice) -> bool:
        """Mark the row of *checkbox*, checked or not; return whether there is one."""
        boxes = [choice.lines if choice.is_checkbox else None for choice in self._listed]
        if checkbox.lines not in boxes:
            return False
        self._place = boxes.index(checkbox.lines)
        return True

    def taken(self) -> Choice | str:
        """Return the answer of Enter: a choice, or the text, "" if nothing is marked."""
        if self._place is not None:
            return self._listed[self._place]
        return chosen(self._text, self.all) or self._text

    def rows(self, columns: int, rows_max: int) -> list[tuple[bool, str]]:
        """Return rows of at most *columns* cells, each with whether it is marked.

        If not all fit, the rows around the mark are returned, with arrows towards the others.
        """
        rows: list[tuple[bool, str]] = []
        begin = last = 0
        for place, choice in enumerate(self._listed):
            head = len(rows)
            label = f"{choice.key} {choice.label}" if choice.key else choice.label
            row = self._row(label, columns, is_marked=place == self._place)
            rows += _with_hint(row, choice.news() or choice.beside or choice.shortcut, columns)
            begin, last = (head, len(rows) - 1) if place == self._place else (begin, last)
        if self._place is None and self._text:
            begin = len(rows)
            rows += self._row(self._meaning(), columns, is_marked=True)
            last = len(rows) - 1
        else:
            is_sentence = self._text and not chosen(self._text, self.all)
            what = "your text: " if is_sentence else "type anything else to "
            if self._place is None:
                what = f"your message goes out after this answer: choose with ↓, or {what}"
            rows += self._row(f"{what}{self._text_label} · Ctrl-C {self._ctrl_c}", columns)
        rows_max = max(rows_max, 1)
        below = 1 if last < len(rows) - 1 else 0  # a row below the mark, which can have the arrow
        first = max(0, min(begin, last + below - rows_max + 1))
        return _with_arrows(rows, first, min(first + rows_max, len(rows)))

    def _meaning(self) -> str:
        """Return the label of the text row: the effect of the typed text."""
        if chosen(self._text, self.all):
            return f"Decide about number {self._text} alone"
        if is_slip(self._text):
            return not_an_answer(self._text)
        return self._text_label.capitalize()

    def _row(self, label: str, columns: int, *, is_marked: bool = False) -> list[tuple[bool, str]]:
        """Return *label* as rows wrapped between words."""
        width = max(columns - len(_MARGIN), 1)
        rows: list[str] = []
        row = ""
        for word in label.split(" "):
            while row_width(word) > width:  # a long path is shown whole
                rows += [row] if row else []
                head = fitting(word, width) or word[0]
                row, word = "", word[len(head) :]
                rows.append(head)
            if row and row_width(f"{row} {word}") > width:
                rows.append(row)
                row = word
            else:
                row = f"{row} {word}" if row else word
        begins = [_MARK if is_marked and self.is_marked else _MARGIN, *[_MARGIN] * len(rows)]
        return [
            (is_marked and self.is_marked, f"{begin}{shortened(text, width)}")
            for begin, text in zip(begins, [*rows, row], strict=True)
        ]


def _with_hint(rows: list[tuple[bool, str]], hint: str, columns: int) -> list[tuple[bool, str]]:
    """Return *rows* with *hint* at the end of the first, if it fits there."""
    [(is_marked, first), *others] = rows
    gap = min(columns, _COLUMNS_MAX) - row_width(first) - row_width(hint)
    if not hint or others or gap < len(_GAP):
        return rows
    return [(is_marked, f"{first}{' ' * gap}{hint}")]


def _with_arrows(rows: Sequence[tuple[bool, str]], first: int, end: int) -> list[tuple[bool, str]]:
    """Return the rows from *first* to *end*, with arrows in the margin if there are others."""
    shown = list(rows[first:end])
    for place, has_more, arrow in ((0, first > 0, _MORE_ABOVE), (-1, end < len(rows), _MORE_BELOW)):
        marked, row = shown[place]
        if has_more and row.startswith(_MARGIN):
            shown[place] = (marked, f"{arrow}{row[len(_MARGIN) :]}")
    return shown
