"""The text of a file in the forms in which edits are looked for, each made when first needed."""

from dataclasses import dataclass
from functools import cached_property

from agent_cli_tools.matching.endings import FlatText, with_endings_of
from agent_cli_tools.matching.indentation import unit_of
from agent_cli_tools.matching.lines import LooseLines, split_line
from agent_cli_tools.matching.repair import FileContext

_LACKING_MAX = 3


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` becomes *new*."""

    start: int
    end: int
    new: str


class Source:
    """A text, its lines without endings, and the loose form of each."""

    def __init__(self, text: str, loose_lines: LooseLines) -> None:
        self.original = text
        self._loose_lines = loose_lines

    @cached_property
    def flat(self) -> FlatText:
        """The text with LF only, and where its characters stand in the original."""
        return FlatText(self.original)

    @property
    def text(self) -> str:
        """The text with LF only."""
        return self.flat.text

    @cached_property
    def lines(self) -> list[str]:
        """The lines without endings; what follows the last ending is one more."""
        return self.text.split("\n")

    @cached_property
    def unit(self) -> str | None:
        """One step of indentation."""
        return unit_of(self.lines)

    @cached_property
    def has_blanks_alone(self) -> bool:
        """Whether some line holds blanks and nothing else."""
        return any(line.isspace() for line in self.lines)

    def span(self, start: int, end: int, new: str) -> Span:
        """Return the span of the original text for one of the flat text, endings included."""
        if not self.flat.has_crlf:
            return Span(start, end, new)
        return self.with_endings(
            self.flat.original_offset(start), self.flat.original_offset(end), new
        )

    def with_endings(self, start: int, end: int, new: str) -> Span:
        """Return the span that writes *new* with the line endings that suit this place."""
        return Span(start, end, with_endings_of(self.original, start, end, new))

    def line_start(self, number: int) -> int:
        """Return where in the text line *number*, counted from 0, starts."""
        return number + sum(map(len, self.lines[:number]))

    def find_loosely(self, old_lines: list[str], places_max: int) -> list[int]:
        """Return the first lines of places that are loosely *old_lines*, *places_max* at most."""
        loose = self._loose_lines
        wanted = "\n".join(["", *(loose[line] for line in old_lines), ""])
        places: list[int] = []
        position = self._loose_text.find(wanted)
        while position >= 0 and len(places) < places_max:
            places.append(self._loose_text.count("\n", 0, position))
            position = self._loose_text.find(wanted, position + 1)
        return places

    def find_nearly(self, old_lines: list[str], other_than: int) -> int | None:
        """Return where all *old_lines* stand exactly and in order, with a few lines between them.

        Args:
            other_than: The first line of a place that does not count.
        """
        texts = [line for line in old_lines if line.strip()]
        if len(texts) < 2:
            return None
        for first, line in enumerate(self.lines):
            if line == texts[0] and abs(first - other_than) > len(old_lines):
                place = iter(self.lines[first : first + len(old_lines) + _LACKING_MAX])
                if all(text in place for text in texts):
                    return first
        return None

    def around(self, first: int, count: int) -> FileContext:
        """Return what the file tells about *count* lines from *first* on."""
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
            lambda: self.has_blanks_alone,
            (
                None if before is None else split_line(before),
                None if after is None else split_line(after),
            ),
        )

    @cached_property
    def _loose_text(self) -> str:
        return "\n".join(["", *map(self._loose_lines.__getitem__, self.lines), ""])
