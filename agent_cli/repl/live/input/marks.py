"""Marks stand in the input for what is too long or no text; they are whole again when it is sent.

`[paste #1: 5,000 lines]` is text, `[image 1: pic.png 800×600]` stays a mark in what is sent.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_LINES_MAX: Final = 10
_CHARS_MAX: Final = 1000
_MARK: Final = re.compile(r"\[(?:paste #|image )\d+: [^\[\]\n]*\]")


class _Meaning(NamedTuple):
    sent: str
    recalled: str


class PromptMarks:
    """What the marks of this session stand for. What only looks like one is text."""

    def __init__(self) -> None:
        self._meanings: dict[str, _Meaning] = {}
        self._pastes = 0

    def shortened(self, text: str) -> str:
        """Return *text*, or the mark that stands for it from now on."""
        lines = text.count("\n") + 1
        if lines <= _LINES_MAX and len(text) <= _CHARS_MAX:
            return text
        self._pastes += 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[paste #{self._pastes}: {size}]"
        self.add(mark, sent=text, recalled=text)
        return mark

    def add(self, mark: str, *, sent: str, recalled: str) -> None:
        """Let *mark* stand for *sent*; in the history of prompts *recalled* stands for it."""
        self._meanings[mark] = _Meaning(sent, recalled)

    def expanded(self, text: str) -> str:
        """Return what is sent for *text*."""
        return _MARK.sub(lambda found: self._meaning(found[0]).sent, text)

    def recalled(self, text: str) -> str:
        """Return what later sessions are offered in place of *text*."""
        return _MARK.sub(lambda found: self._meaning(found[0]).recalled, text)

    def healed(self, before: str, after: str) -> tuple[str, int] | None:
        """Return what a change becomes when marks go as a whole, and where the cursor is then.

        Returns:
            None when the change left no part of a mark behind.
        """
        if not any(self._places(before)):
            return None
        start = _common(before, after)
        rest = min(len(before), len(after)) - start
        kept = _common(before[::-1][:rest], after[::-1][:rest])
        added = after[start : len(after) - kept]
        first, last = start, len(before) - kept
        for begin, end in self._places(before):
            # One mark may have become another, as when a change is taken back.
            whole = after.startswith(before[begin:end], begin) or _MARK.match(after, begin)
            if first < last and begin < last and first < end and not whole:
                first, last = min(first, begin), max(last, end)
        if (first, last) == (start, len(before) - kept):
            return None
        return before[:first] + added + before[last:], first + len(added)

    def outside(self, text: str, cursor: int, *, came_from: int) -> int:
        """Return where *cursor* goes instead of into a mark: on, the way it came."""
        for begin, end in self._places(text):
            if begin < cursor < end:
                return end if cursor > came_from else begin
        return cursor

    def _meaning(self, mark: str) -> _Meaning:
        return self._meanings.get(mark, _Meaning(mark, mark))

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        return (m.span() for m in _MARK.finditer(text) if m[0] in self._meanings)


def _common(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
