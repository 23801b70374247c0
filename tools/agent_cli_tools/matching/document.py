"""A text as the model sees it, with LF only, and the line ends that the file has instead.

Only CRLF and LF are line ends; a lone CR is an ordinary character.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from agent_cli.system.alignment import align
from agent_cli.system.records import dataclass
from agent_cli_tools.matching.frames import Line, LooseLines, split_line, unit_of

_UNIT_LINES = 200
_END = re.compile("\r?\n")


def flatten(text: str) -> str:
    """Return *text* with every CRLF as LF."""
    return text.replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` of a document becomes *new*."""

    start: int
    end: int
    new: str
    is_verbatim: bool = False
    """Whether the line ends of *new* are written as they are, not as the file's."""


class Document:
    """A text with LF only, and for each LF the end that the file has there, if any is CRLF."""

    def __init__(self, text: str, ends: list[str] | None, loose: LooseLines) -> None:
        self.text = text
        self.ends = ends
        self._loose = loose

    @classmethod
    def of(cls, original: str) -> "Document":
        """Return the document of the text of a file."""
        ends = _END.findall(original) if "\r\n" in original else None
        return cls(flatten(original), ends, LooseLines())

    @cached_property
    def original(self) -> str:
        """The text of the file."""
        if self.ends is None:
            return self.text
        pieces = [""] * (2 * len(self.ends) + 1)
        pieces[::2], pieces[1::2] = self.text.split("\n"), self.ends
        return "".join(pieces)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; the text after the last end is a line as well."""
        return self.text.split("\n")

    def line_number(self, offset: int) -> int:
        """Return the number of the line at *offset* of the text, counted from 0."""
        return self.text.count("\n", 0, offset)

    def around(self, first: int, count: int) -> tuple[Line, Line]:
        """Return the nearest lines before and behind *count* lines that are not blank, if any."""
        ranges = range(first - 1, -1, -1), range(first + count, len(self.lines))
        before, behind = ((self.lines[i] for i in each if self.lines[i].strip()) for each in ranges)
        return split_line(next(before, "")), split_line(next(behind, ""))

    def unit_near(self, first: int) -> str:
        """Return the step of indentation around line *first*; empty if unknown."""
        near = self.lines[max(0, first - _UNIT_LINES) : first + _UNIT_LINES]
        return unit_of(list(map(split_line, near)))

    def has_only_lf(self, start: int, end: int) -> bool:
        """Return whether the file has no CRLF from *start* to *end* of the text."""
        first = self.line_number(start)
        return "\r\n" not in self._ends(first, first + self.text.count("\n", start, end))

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the text of two offsets in the text of the file."""
        before = self.original.count("\r\n", 0, start)
        return start - before, end - before - self.original.count("\r\n", start, end)

    def replaced(self, spans: Sequence[Span]) -> "Document":
        """Return the document with *spans*, sorted and disjoint, replaced."""
        pieces: list[str] = []
        has_ends = self.ends is not None or any("\r\n" in span.new for span in spans)
        ends: list[str] = []
        position = line = 0
        for span in spans:
            pieces += [self.text[position : span.start], flatten(span.new)]
            if has_ends:
                first = line + self.text.count("\n", position, span.start)
                stop = first + self.text.count("\n", span.start, span.end)
                ends += [*self._ends(line, first), *self._new_ends(span, first, stop)]
                line = stop
            position = span.end
        text = "".join([*pieces, self.text[position:]])
        if has_ends:
            ends += self._ends(line, self.text.count("\n"))
        following = Document(text, ends if has_ends else None, self._loose)
        if len(spans) == 1 and "_loose_lines" in self.__dict__:
            first = self.line_number(spans[0].start)
            rest = self._loose_lines[self.line_number(spans[0].end) + 1 :]
            new = following.lines[first : len(following.lines) - len(rest)]
            loose = map(self._loose.__getitem__, new)
            following._loose_lines = [*self._loose_lines[:first], *loose, *rest]
        return following

    def _ends(self, first: int, stop: int) -> Sequence[str]:
        return ["\n"] * (stop - first) if self.ends is None else self.ends[first:stop]

    def _new_ends(self, span: Span, first: int, stop: int) -> Sequence[str]:
        """Return the ends of the lines of *span.new*, which replaces the line ends *first* on.

        A line that stays keeps its end, and a new line ends as the one before it.
        """
        if span.is_verbatim or self.ends is None:
            return _END.findall(span.new)
        ends = self.ends[first:stop] or self.ends[first : first + 1] or self.ends[-1:] or ["\r\n"]
        if len(set(ends)) == 1:
            return ends[:1] * span.new.count("\n")
        result: list[str] = []
        old, new = self.text[span.start : span.end].split("\n"), span.new.split("\n")
        for _, a, a_end, b, b_end in align(old, new):
            there = ends[a:a_end][: b_end - b]
            before = there[-1:] or result[-1:] or ends[:1]
            result += [*there, *before * (b_end - b - len(there))]
        return result[: len(new) - 1]

    def find_loosely(self, old: Sequence[str], starts_max: int) -> list[int]:
        """Return the first lines of the places that read like the lines *old*."""
        loose = [self._loose[line] for line in old]
        # The longest line is the rarest.
        anchor = max(range(len(loose)), key=lambda i: len(loose[i]))
        # There is no line after the last newline.
        last = len(self.lines) - len(old) - (not self.lines[-1])
        starts: list[int] = []
        number = -1
        with suppress(ValueError):
            while len(starts) < starts_max:
                number = self._loose_lines.index(loose[anchor], number + 1)
                first = number - anchor
                if 0 <= first <= last and self._loose_lines[first : first + len(old)] == loose:
                    starts.append(first)
        return starts

    @cached_property
    def _loose_lines(self) -> list[str]:
        return [self._loose[line] for line in self.lines]
