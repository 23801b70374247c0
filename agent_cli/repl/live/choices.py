"""The answers below a question: a list in which arrow keys and typed text move a mark."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.repl.dialogue import ASIDE, Choice, chosen, is_slip, not_an_answer
from agent_cli.repl.live.paint import MARGIN, MARK, fitting, row_width, shortened

# Hints end at the first of these that leaves room for them.
_HINT_COLUMNS: Final = (72, 98)
_GAP: Final = "  "
_MORE_ABOVE: Final = "↑ "
_MORE_BELOW: Final = "↓ "


class AnswerRow(NamedTuple):
    """A row of the list: an answer or a part of one, and faint behind it a hint."""

    is_marked: bool
    label: str
    hint: str = ""

    @property
    def text(self) -> str:
        """The whole row."""
        return f"{self.label}{self.hint}"


class Choices:
    """The answer of Enter: the marked choice, or, once text is typed, the whole text.

    The marked row is always visible, so that no unseen choice is taken. The mark appears once
    `is_marked` is set: from then on Enter answers. `has_unsent` says that a message waits for the
    answer, `has_message` that the text was begun before the list: it is a message, and no answer.
    A text that `has_command` is no answer either. Once it `was_sent`, Enter alone answers nothing,
    as it may be pressed twice.
    """

    is_marked = False
    has_unsent = True
    has_message = was_sent = has_command = False

    def __init__(
        self,
        choices: Sequence[Choice],
        text: str,
        ctrl_c: str = "stops the run",
        *,
        has_default: bool = True,
    ) -> None:
        """Mark the default of *choices*, if there is to be one: by itself the first.

        *text* and *ctrl_c* describe typed text and that key.
        """
        self.all = choices
        self._listed = [choice for choice in choices if choice.label]
        key = max((len(choice.key) + 1 for choice in self._listed if choice.key), default=0)
        self._margin = MARGIN + " " * key
        noted = [choice for choice in self._listed if choice.note]
        widths = (row_width(choice.label) for choice in noted)
        self._notes_at = len(self._margin) + max(widths, default=0) + len(_GAP)
        self._text_label = text
        self._ctrl_c = ctrl_c
        self._text = ""
        defaults = (index for index, choice in enumerate(self._listed) if choice.is_default)
        self._done = next(defaults, 0)
        self._default = self._done if has_default else None
        self._selected = self._default

    def typed(self, text: str) -> None:
        """Note the text of the input; a change moves the mark to the matching row."""
        text = text.strip()
        if text == self._text:
            return
        self._text = text
        if self.has_message:
            self._message_typed()
            return
        found = chosen(text, self.all)
        if found is not None and found in self._listed:
            self._selected = self._listed.index(found)
        else:
            self._selected = None if text else self._default

    def _message_typed(self) -> None:
        if not self._text:
            self.has_message = False
            self._default = self._selected = None if self.was_sent else self._default
        elif self._selected == self._default:
            self._selected = None

    @property
    def sends(self) -> bool:
        """Whether Enter sends the text, and answers nothing."""
        return self.has_message and self._selected is None

    def takes_at_once(self, text: str) -> bool:
        """Return whether *text* is the digit of one answer, which needs no Enter.

        It needs Enter where text may be meant otherwise: where a message waits, or the digit begins
        several numbers.
        """
        if self.has_message or self._default is None or not (len(text) == 1 and text.isdecimal()):
            return False
        begun = [each for each in self.all if any(line.startswith(text) for line in each.lines)]
        return len(begun) == 1 and text in begun[0].lines and not begun[0].is_checkbox

    def move(self, rows: int) -> None:
        """Move the mark, cyclically; the last row is for text."""
        count = len(self._listed) + bool(self._text)
        index = self._selected
        if (
            index is None
        ):  # on the row for text; without text that is between the last and the first
            index = len(self._listed) if self._text or rows < 0 else -1
        index = (index + rows) % count
        self._selected = None if index == len(self._listed) else index

    def leaves_box(self) -> bool:
        """Move the mark from a checked box to the row that accepts all; return whether.

        Enter behind the space bar must not uncheck what that has checked.
        """
        taken = self.taken()
        if isinstance(taken, str) or self._text or not taken.is_checkbox or not taken.is_checked:
            return False
        self._selected = self._done
        return True

    def mark(self, checkbox: Choice) -> bool:
        """Mark the row of *checkbox*, checked or not; return whether there is one."""
        boxes = [choice.lines if choice.is_checkbox else None for choice in self._listed]
        if checkbox.lines not in boxes:
            return False
        self._selected = boxes.index(checkbox.lines)
        return True

    def taken(self) -> Choice | str:
        """Return the answer of Enter: a choice, or the text, "" if nothing is marked."""
        if self._selected is not None:
            return self._listed[self._selected]
        return chosen(self._text, self.all) or self._text

    def leaves(self, text: str, answer: Choice) -> bool:
        """Return whether *text* stays in the input once *answer* was taken."""
        return bool(text.strip()) and not (chosen(text, [answer]) or self.is_attempt(text))

    def is_attempt(self, text: str) -> bool:
        """Return whether *text* was only typed to answer: it is no message, if it is not taken."""
        if self.has_message or text.startswith(ASIDE):
            return False
        return bool(chosen(text, self.all) or is_slip(text))

    def rows(self, columns: int, rows_max: int) -> list[AnswerRow]:
        """Return rows of at most *columns* cells.

        If not all fit, the rows around the mark are returned, with arrows towards the others.
        """
        rows: list[AnswerRow] = []
        begin = last = 0
        for index, choice in enumerate(self._listed):
            head = len(rows)
            is_marked = self.is_marked and index == self._selected
            rows += self._answer(choice, columns, is_marked=is_marked)
            begin, last = (head, len(rows) - 1) if index == self._selected else (begin, last)
        if self._selected is None and self._text:
            begin = len(rows)
            meaning = Choice(self._meaning(), ())
            rows += self._answer(meaning, columns, is_marked=self.is_marked)
            last = len(rows) - 1
        else:
            what = f"{self._what_of_text()} · Ctrl-C {self._ctrl_c}"
            if any(choice.is_checkbox for choice in self._listed):
                what = f"Space ticks · {what}"
            if self._selected is None:
                what = f"choose with ↓, or {what}"
                if self.has_unsent:
                    what = f"your message goes out after this answer: {what}"
                rows += self._answer(Choice(what, ()), columns, is_marked=False)
            else:
                rows += self._faint(what, columns)
        rows_max = max(rows_max, 1)
        below = 1 if last < len(rows) - 1 else 0  # a row below the mark, which can have the arrow
        first = max(0, min(begin, last + below - rows_max + 1))
        return _with_arrows(rows, first, min(first + rows_max, len(rows)))

    def _what_of_text(self) -> str:
        """Return the effect of text, typed or not, while another row is marked."""
        if self.has_command:
            return "Enter sends your command, which answers nothing"
        if self.has_message:
            return "your text stays for your next message"
        is_sentence = self._text and not chosen(self._text, self.all)
        return f"{'your text: ' if is_sentence else 'type anything else to '}{self._text_label}"

    def _meaning(self) -> str:
        """Return the label of the text row: the effect of the typed text."""
        if self.has_command:
            return "Send your command, which answers nothing"
        if self.has_message:
            return "Send your message, begun before the question · ↓ chooses an answer"
        if found := chosen(self._text, self.all):
            number = f"Decide about number {self._text} alone"
            return found.label or (number if self._text.isdecimal() else f"Answer {self._text}")
        if is_slip(self._text):
            return not_an_answer(self._text)
        return self._text_label.capitalize()

    def _answer(self, choice: Choice, columns: int, *, is_marked: bool) -> list[AnswerRow]:
        """Return the rows of *choice*, its hint and note beside or below it; a key only beside."""
        margin = self._margin if choice.key else MARGIN
        first, *others = _wrapped(choice.label, columns - len(margin))
        mark = MARK if is_marked else MARGIN
        head = f"{mark}{choice.key} {first}" if choice.key else f"{mark}{first}"
        rows = [AnswerRow(is_marked, head)]
        rows += [AnswerRow(is_marked, f"{margin}{other}") for other in others]
        used = row_width(head)
        if choice.note and self._notes_at + row_width(choice.note) <= columns:
            return [rows[0]._replace(hint=" " * (self._notes_at - used) + choice.note)]
        if choice.note:
            return [*rows, *self._faint(choice.note, columns)]
        note = choice.news() or choice.beside
        hint = note or choice.shortcut
        gap = "" if others else _gap(used + row_width(hint), columns)
        if gap and hint:
            return [rows[0]._replace(hint=f"{gap}{hint}")]
        return [*rows, *self._faint(note, columns)] if note else rows

    def _faint(self, text: str, columns: int) -> list[AnswerRow]:
        """Return *text* below the labels."""
        parts = _wrapped(text, columns - len(self._margin))
        return [AnswerRow(False, "", f"{self._margin}{part}") for part in parts]


def _wrapped(text: str, width: int) -> list[str]:
    """Return *text* in rows of at most *width* cells, wrapped between words."""
    width = max(width, 1)
    rows: list[str] = []
    row = ""
    for word in text.split(" "):
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
    return [shortened(part, width) for part in (*rows, row)]


def _gap(used: int, columns: int) -> str:
    """Return the blanks before a hint in a row with *used* cells; none if it does not fit."""
    gaps = [min(columns, most) - used for most in _HINT_COLUMNS]
    return " " * next((gap for gap in gaps if gap >= len(_GAP)), 0)


def _with_arrows(rows: Sequence[AnswerRow], first: int, end: int) -> list[AnswerRow]:
    """Return the rows from *first* to *end*, with arrows in the margin if there are others."""
    shown = list(rows[first:end])
    for index, has_more, arrow in ((0, first > 0, _MORE_ABOVE), (-1, end < len(rows), _MORE_BELOW)):
        row = shown[index]
        if has_more and row.label.startswith(MARGIN):
            shown[index] = row._replace(label=f"{arrow}{row.label[len(MARGIN) :]}")
        elif has_more and not row.label:
            shown[index] = row._replace(label=arrow, hint=row.hint[len(MARGIN) :])
    return shown
