"""The text of a file in the forms needed to search edits, each computed on first use."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from agent_cli_tools.matching.endings import FlatText, flatten, with_endings_of
from agent_cli_tools.matching.indentation import UNIT_LINES_MAX, unit_of
from agent_cli_tools.matching.lines import LooseLines, split_line
from agent_cli_tools.matching.omissions import can_lack
from agent_cli_tools.matching.repair import FileContext

_LACKING_MAX = 3
_BLANKS_ALONE = re.compile(r"^[^\S\n]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` becomes *new*."""

    start: int
    end: int
    new: str


class Habits:
    """The formatting habits of a file, computed once from its text before the first edit."""

    def __init__(self, text: str) -> None:
        self.loose_lines = LooseLines()
        self._text = text

    @cached_property
    def unit(self) -> str | None:
        """One step of indentation."""
        return unit_of(flatten(self._text).split("\n", UNIT_LINES_MAX))

    @cached_property
    def has_blanks_alone(self) -> bool:
        """Whether some line consists of blanks only."""
        return _BLANKS_ALONE.search(flatten(self._text)) is not None


class Source:
    """A text, its lines without endings, and the loose form of each."""

    def __init__(self, text: str, habits: Habits | None = None) -> None:
        self.original = text
        self._habits = habits or Habits(text)

    @cached_property
    def flat(self) -> FlatText:
        """The text with LF only, with the offsets in the original."""
        return FlatText(self.original)

    @property
    def text(self) -> str:
        """The text with LF only."""
        return self.flat.text

    @cached_property
    def lines(self) -> list[str]:
        """The lines without endings; the text after the last ending is a line as well."""
        return self.text.split("\n")

    @property
    def unit(self) -> str | None:
        """One step of indentation."""
        return self._habits.unit

    def replaced(self, spans: Sequence[Span]) -> "Source":
        """Return the source with *spans*, sorted and disjoint, replaced."""
        pieces: list[str] = []
        position = 0
        for span in spans:
            pieces += [self.original[position : span.start], span.new]
            position = span.end
        following = Source("".join([*pieces, self.original[position:]]), self._habits)
        if len(spans) == 1 and (self.flat.has_crlf or "lines" in self.__dict__):
            self._hand_on(spans[0], following)
        return following

    def _hand_on(self, span: Span, following: "Source") -> None:
        """Pass flat text and lines on, so that a large text is not searched for every edit."""
        text = self.original
        start, newline = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
        end = len(text) if newline < 0 else newline + 1
        piece = text[start : span.start] + span.new + text[span.end : end]
        if self.flat.has_crlf:
            flat_span = self.flat.flat_offset(start), self.flat.flat_offset(end)
            following.flat = self.flat.replaced(following.original, *flat_span, piece)
        if "lines" in self.__dict__:
            first = text.count("\n", 0, start)
            after = first + text.count("\n", start, span.end) + 1
            lines = flatten(piece).split("\n")[: None if newline < 0 else -1]
            following.lines = [*self.lines[:first], *lines, *self.lines[after:]]
            if "_loose" in self.__dict__:
                loose = map(self._habits.loose_lines.__getitem__, lines)
                following._loose = [*self._loose[:first], *loose, *self._loose[after:]]

    def span(self, start: int, end: int, new: str) -> Span:
        """Return the span of the original text for a span of the flat text, endings included."""
        if not self.flat.has_crlf:
            return Span(start, end, new)
        return self.with_endings(
            self.flat.original_offset(start), self.flat.original_offset(end), new
        )

    def with_endings(self, start: int, end: int, new: str) -> Span:
        """Return the span that writes *new* with the line endings of this place."""
        return Span(start, end, with_endings_of(self.original, start, end, new))

    def line_start(self, number: int) -> int:
        """Return the offset of line *number*, counted from 0."""
        return number + sum(map(len, self.lines[:number]))

    def find_loosely(self, old_lines: list[str], places_max: int) -> list[int]:
        """Return the first lines of loose matches of *old_lines*, at most *places_max*."""
        loose = self._habits.loose_lines
        wanted = "\n".join(["", *(loose[line] for line in old_lines), ""])
        places: list[int] = []
        position = self._loose_text.find(wanted)
        while position >= 0 and len(places) < places_max:
            first = self._loose_text.count("\n", 0, position)
            # There is no line after the last newline.
            if self.lines[-1] or first + len(old_lines) < len(self.lines):
                places.append(first)
            position = self._loose_text.find(wanted, position + 1)
        return places

    def find_nearly(self, old_lines: list[str], other_than: int) -> int | None:
        """Return the place where all *old_lines* occur exactly in order, with few lines between.

        Args:
            other_than: The first line of a place to ignore.
        """
        texts = [line for line in old_lines if line.strip()]
        for first in _indices(self.lines, texts[0]):
            if abs(first - other_than) > len(old_lines):
                place = iter(self.lines[first : first + len(old_lines) + _LACKING_MAX])
                if all(text in place for text in texts):
                    return first
        return None

    def may_lack_line(self, first: int, old: Sequence[str], new: Sequence[str]) -> bool:
        """Return whether lines next to *old*, found at line *first*, may have been omitted.

        For lines quoted with a blank line before and after: if the file has one of the two, the
        other may be a blank line of the file a few lines further.
        """
        after = first + len(old)
        before = self.lines[max(0, first - 1 - _LACKING_MAX) : first][::-1]
        behind = self.lines[after:-1][: 1 + _LACKING_MAX]
        return (_starts_blank(before) and can_lack(_to_blank(behind), old, new)) or (
            _starts_blank(behind) and can_lack(_to_blank(before), old[::-1], new[::-1])
        )

    def around(self, first: int, count: int) -> FileContext:
        """Return the context of *count* lines from *first* on."""
        before = next(
            (self.lines[i] for i in range(first - 1, -1, -1) if self.lines[i].strip()), None
        )
        after = next(
            (self.lines[i] for i in range(first + count, len(self.lines)) if self.lines[i].strip()),
            None,
        )
        return FileContext(
            self.text,
            lambda: self.unit,
            lambda: self._habits.has_blanks_alone,
            (
                None if before is None else split_line(before),
                None if after is None else split_line(after),
            ),
        )

    @cached_property
    def _loose(self) -> list[str]:
        return list(map(self._habits.loose_lines.__getitem__, self.lines))

    @cached_property
    def _loose_text(self) -> str:
        return "\n".join(["", *self._loose, ""])


def _indices(lines: Sequence[str], wanted: str) -> Iterator[int]:
    """Yield the indexes of *wanted* in *lines*, many times faster than a loop."""
    first = -1
    with suppress(ValueError):
        while True:
            first = lines.index(wanted, first + 1)
            yield first


def _starts_blank(lines: Sequence[str]) -> bool:
    return bool(lines) and not lines[0].strip()


def _to_blank(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines before the first blank one; none if there is no blank line."""
    blank = next((i for i, line in enumerate(lines) if not line.strip()), 0)
    return lines[:blank]
