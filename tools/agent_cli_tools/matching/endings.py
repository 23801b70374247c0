"""Line endings: search with LF only, and replace so that each line keeps its own ending.

Only CRLF and LF are endings; a lone CR is an ordinary character.
"""

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate

from agent_cli_tools.matching.alignment import align


def flatten(text: str) -> str:
    """Return *text* with every CRLF as LF."""
    return text.replace("\r\n", "\n")


class FlatText:
    """A text with LF only, which maps offsets to the original."""

    def __init__(self, original: str) -> None:
        self.original = original
        # Searching for one character is many times faster than for two.
        self.has_crlf = "\r" in original and "\r\n" in original

    @cached_property
    def text(self) -> str:
        """The text with LF only."""
        return flatten(self.original) if self.has_crlf else self.original

    def replaced(self, original: str, start: int, end: int, lines: str) -> "FlatText":
        """Return the flat text of *original*, where whole *lines* replace `text[start:end]`.

        Nothing but *lines* is searched for endings.
        """
        following = FlatText(original)
        flat = flatten(lines)
        following.text = "".join([self.text[:start], flat, self.text[end:]])
        before, after = (bisect_left(self._ends, offset) for offset in (start, end))
        shift = len(flat) - (end - start)
        following._ends = [
            *self._ends[:before],
            *(start + offset for offset in _flat_ends(lines)),
            *(offset + shift for offset in self._ends[after:]),
        ]
        return following

    @cached_property
    def _ends(self) -> list[int]:
        """Return the offsets in the flat text of the LF of each CRLF.

        Each of them shifts the following text in the original by one.
        """
        return _flat_ends(self.original)

    def original_offset(self, offset: int) -> int:
        """Return the original offset of the character at *offset* of the flat text."""
        return offset + bisect_left(self._ends, offset)

    def flat_offset(self, offset: int) -> int:
        """Return the flat offset of the character at *offset* of the original."""
        first = bisect_left(range(len(self._ends)), offset, key=lambda i: self._ends[i] + i)
        return offset - first


def _flat_ends(text: str) -> list[int]:
    lengths = (len(part) for part in text.split("\r\n"))
    return [end + i for i, end in enumerate(accumulate(lengths))][:-1]


def with_endings_of(text: str, start: int, end: int, new: str) -> str:
    """Return *new* with suitable line endings for `text[start:end]`, in a text that has CRLF.

    An existing line keeps its ending, changed or not; an added line gets the ending of the line
    before it.
    """
    old_lines, endings = _split(text[start:end])
    new_lines = flatten(new).split("\n")
    kept = _paired(old_lines, new_lines)
    ending = _ending_before(text, start)
    pieces: list[str] = []
    for number, line in enumerate(new_lines[:-1]):
        partner = kept.get(number)
        if partner is not None and partner < len(endings):
            ending = endings[partner]
        pieces.append(line + ending)
    return "".join([*pieces, new_lines[-1]])


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of *text* and the endings between them, one fewer."""
    lines: list[str] = []
    endings: list[str] = []
    for part in text.split("\n"):
        lines.append(part.removesuffix("\r"))
        endings.append("\r\n" if part.endswith("\r") else "\n")
    if text.endswith("\r"):
        # Half of a CRLF, or a lone CR: both are text here.
        lines[-1] += "\r"
    return lines, endings[:-1]


def _paired(old_lines: list[str], new_lines: list[str]) -> dict[int, int]:
    """Return new line number → the old line it keeps or replaces."""
    pairs: dict[int, int] = {}
    for _, old, old_end, new, new_end in align(old_lines, new_lines):
        pairs |= dict(zip(range(new, new_end), range(old, old_end), strict=False))
    return pairs


def _ending_before(text: str, start: int) -> str:
    """Return the ending of the line before *start*, or of the first line."""
    newline = text.rfind("\n", 0, start)
    if newline < 0:
        newline = text.find("\n")
    return "\r\n" if text[newline - 1 : newline] == "\r" else "\n"
