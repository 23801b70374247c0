"""Units of the input that the cursor passes over and a key deletes as a whole.

Marks for long pastes and pictures are expanded when the input is sent:

`[paste #1: 5,000 lines]` is text, `[image 1: pic.png 800×600]` stays a mark in what is sent.
The others are grapheme clusters: letters with marks, and joined emoji.

Imported before the first prompt: prompt_toolkit, wcwidth, which that imports, and little else.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from prompt_toolkit.buffer import Buffer
from wcwidth import grapheme_boundary_before, iter_graphemes

from agent_cli.system.alignment import common_start

_LINES_MAX: Final = 10
_CHARS_MAX: Final = 1000
_MARK: Final = re.compile(r"\[(?:paste #|image )\d+: [^\[\]\n]*\]")
_BLANK_LINES: Final = re.compile(r"\A(?:\s*\n)?")


class _Meaning(NamedTuple):
    sent: str
    recalled: str


class PromptMarks:
    """The marks of this session with their contents. Text that only looks like a mark is text."""

    def __init__(self) -> None:
        self._meanings: dict[str, _Meaning] = {}
        self._pastes = 0

    def shortened(self, text: str) -> str:
        """Return *text*, or a new mark for it if it is long."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines <= _LINES_MAX and len(text) <= _CHARS_MAX:
            return text
        known = (mark for mark, meaning in self._meanings.items() if meaning.sent == text)
        if mark := next(known, ""):
            return mark
        self._pastes += 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[paste #{self._pastes}: {size}]"
        self.add(mark, sent=text, recalled=text)
        return mark

    def add(self, mark: str, *, sent: str, recalled: str) -> None:
        """Define *mark* as *sent*; the prompt history stores *recalled* for it."""
        self._meanings[mark] = _Meaning(sent, recalled)

    def expanded(self, text: str) -> str:
        """Return *text* with marks replaced by their contents."""
        return _MARK.sub(lambda found: self._meaning(found[0]).sent, text)

    def marked(self, text: str) -> str:
        """Return *text*, which `expanded` made and whose ends may be stripped, with its marks."""
        for mark, meaning in self._meanings.items():
            if (bare := meaning.sent.strip()) and bare != mark:
                for paste in (meaning.sent, meaning.sent.rstrip(), trimmed(meaning.sent), bare):
                    text = text.replace(paste, mark)
        return text

    def recalled(self, text: str) -> str:
        """Return *text* as the prompt history stores it."""
        return _MARK.sub(lambda found: self._meaning(found[0]).recalled, text)

    def healed(self, before: str, after: str) -> tuple[str, int] | None:
        """Return the text and cursor after a change, with damaged marks removed as a whole.

        Returns:
            None if the change damaged no mark.
        """
        if not any(self._mark_spans(before)):
            return None
        start = common_start(before, after)
        rest = min(len(before), len(after)) - start
        kept = common_start(before[::-1][:rest], after[::-1][:rest])
        added = after[start : len(after) - kept]
        first, last = start, len(before) - kept
        for begin, end in self._mark_spans(before):
            # One mark may have become another, e.g. by an undo.
            whole = after.startswith(before[begin:end], begin) or _MARK.match(after, begin)
            if first < last and begin < last and first < end and not whole:
                first, last = min(first, begin), max(last, end)
        if (first, last) == (start, len(before) - kept):
            return None
        return before[:first] + added + before[last:], first + len(added)

    def outside(self, text: str, cursor: int, *, came_from: int) -> int:
        """Return the position outside a mark for *cursor*, in the direction of its movement."""
        for begin, end in self._mark_spans(text):
            if begin < cursor < end:
                return end if cursor > came_from else begin
        return cursor

    def _meaning(self, mark: str) -> _Meaning:
        return self._meanings.get(mark, _Meaning(mark, mark))

    def _mark_spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (m.span() for m in _MARK.finditer(text) if m[0] in self._meanings)


def trimmed(text: str) -> str:
    """Return *text* without the blank lines before it and the white space behind it."""
    return _BLANK_LINES.sub("", text).rstrip()


class ClusterBuffer(Buffer):
    """A buffer that deletes no part of a grapheme cluster."""

    def delete_before_cursor(self, count: int = 1) -> str:
        """Delete *count* characters before the cursor, and the rest of the first one's cluster."""
        start = max(self.cursor_position - count, 0)
        start = outside_cluster(self.text, start, came_from=self.cursor_position)
        return super().delete_before_cursor(self.cursor_position - start)

    def delete(self, count: int = 1) -> str:
        """Delete *count* characters behind the cursor, and the rest of the last one's cluster."""
        end = self.cursor_position + count
        end = outside_cluster(self.text, end, came_from=self.cursor_position)
        return super().delete(end - self.cursor_position)


def outside_cluster(text: str, cursor: int, *, came_from: int) -> int:
    """Return the position outside a cluster for *cursor*, in the direction of its movement."""
    if not 0 < cursor < len(text) or text[cursor].isascii():
        return cursor
    begin = grapheme_boundary_before(text, cursor + 1)
    if begin == cursor or cursor < came_from:
        return begin
    return begin + len(next(iter_graphemes(text, begin)))
