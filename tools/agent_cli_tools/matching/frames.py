"""The frame of new lines: indented like the quotation `old`, or like the file.

The lines themselves and those around them tell which.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from agent_cli.system.alignment import common_start
from agent_cli.system.records import dataclass

_ALIKE_MIN = 0.6
_ALIKE_START_MIN = 8
_COMPARED_LINES_MAX = 10
_WORD = re.compile(r"\w")
_COMMENT = re.compile(r"\s+(?:#|//).*")
_CLOSED = re.compile(r"[\w>})\]'\";]\Z")
_OPENERS = (":", "{", "[")
"""Line ends after which a block is indented; after a parenthesis, styles differ."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line as `indent + body + trail`; a blank line is all trail."""

    indent: str
    body: str
    trail: str

    @property
    def is_blank(self) -> bool:
        """Whether the line is blank."""
        return not self.body


@dataclass(frozen=True, slots=True)
class Quoted:
    """Lines of a file, their quotation, and their replacement.

    Attributes:
        unit: One step of indentation in the file; empty if unknown.
        before: The nearest line of the file before these that is not blank; blank at its start.
        after: The nearest one behind them; blank at the end of the file.
    """

    there: Sequence[Line]
    old: Sequence[Line]
    new: Sequence[Line]
    unit: str
    before: Line
    after: Line

    def is_one_frame(self, moved: Sequence[Line]) -> bool:
        """Return whether *new* is indented as *old* is; *moved* is *new* as the file has it then.

        Lines that *new* shares with *old* tell, else the first line, which seldom changes its
        depth: if it reads like one of *old*, or if *new* as it is does not fit.
        """
        there, old, new = map(texts, (self.there, self.old, self.new))
        if new[0].indent == there[0].indent != old[0].indent or not self._fits(texts(moved)):
            return False
        in_file = _indents(zip(there, old, strict=True))
        in_old = _indents(zip(old, old, strict=True))
        shared = [line for line in new if in_file.get(line.body) != in_old.get(line.body)]
        shared = [line for line in shared if _WORD.search(line.body)] or shared
        as_quoted = sum(line.indent in in_old[line.body] - in_file[line.body] for line in shared)
        as_there = sum(line.indent in in_file[line.body] - in_old[line.body] for line in shared)
        if as_there and not as_quoted:
            return False
        if shared and (new[0], new[-1]) == (old[0], old[-1]):
            return True
        if as_quoted:
            return not as_there and 2 * as_quoted >= len(shared)
        return not self._fits(new) or any(
            one.indent == other.indent and _are_alike(one.body, other.body)
            for one in old[:_COMPARED_LINES_MAX]
            for other in new[:_COMPARED_LINES_MAX]
            if new[0].indent == old[0].indent
        )

    def may_be_scaled(self, scaled: Sequence[Line], moved: Sequence[Line]) -> bool:
        """Return whether *new* in whole steps is *scaled*, or *moved* is not."""
        there, quoted = (len(texts(lines)[0].indent) for lines in (self.there, self.old))
        is_whole, is_other = (self._has_whole_steps(texts(lines)) for lines in (scaled, moved))
        is_whole = is_whole and len(self.unit) * quoted % there == 0
        differs = [line.indent for line in scaled] != [line.indent for line in moved]
        return differs and (is_whole or not is_other)

    def _has_whole_steps(self, lines: Sequence[Line]) -> bool:
        steps = (
            b.indent.removeprefix(a.indent)
            for a, b in pairwise(lines)
            if a.body.endswith(_OPENERS) and len(b.indent) > len(a.indent)
        )
        is_odd = self.unit and any(len(line.indent) % len(self.unit) for line in lines)
        return not is_odd and all(step == self.unit for step in steps if self.unit)

    def _fits(self, lines: Sequence[Line]) -> bool:
        """Return whether *lines* fits between its neighbours, unless the lines there do not."""
        there, size = texts(self.there), len(self.unit)
        if size and len(lines[0].indent) % size and not len(there[0].indent) % size:
            return False
        fits, fitted = (
            (can_follow(self.before, x[0], self.unit), can_follow(x[-1], self.after, self.unit))
            for x in (lines, there)
        )
        return all(new or not old for new, old in zip(fits, fitted, strict=True))


def texts(lines: Sequence[Line]) -> list[Line]:
    """Return the *lines* that are not blank."""
    return [line for line in lines if not line.is_blank]


def can_follow(line: Line, following: Line, unit: str) -> bool:
    """Return whether *following* can follow *line*, by their indentation.

    A blank line stands for the start of the file, or for its end.
    """
    if line.is_blank or following.is_blank:
        return following.is_blank or not following.indent
    step = len(following.indent) - len(line.indent)
    code = _COMMENT.sub("", line.body)
    if code.endswith(":"):
        return step == len(unit) if unit else step > 0
    if code.endswith(_OPENERS):
        return step >= 0
    return step <= 0 or not _CLOSED.search(code)


def unit_of(lines: Sequence[Line]) -> str:
    """Return the usual step of indentation in *lines*; empty if unknown."""
    steps = Counter(
        following.indent.removeprefix(line.indent)
        for line, following in pairwise(texts(lines))
        if len(following.indent) > len(line.indent) and following.indent.startswith(line.indent)
    )
    ((step, count),) = steps.most_common(1) or [("", 0)]
    return step if count > 1 else ""


def _indents(pairs: Iterable[tuple[Line, Line]]) -> dict[str, set[str]]:
    """Return for each quoted text the indentations of its lines."""
    indents: dict[str, set[str]] = {}
    for line, quoted in pairs:
        indents.setdefault(quoted.body, set()).add(line.indent)
    return indents


def _are_alike(one: str, other: str) -> bool:
    """Return whether two lines are probably versions of each other."""
    if common_start(one, other) >= _ALIKE_START_MIN:
        return True
    matcher = SequenceMatcher(None, one, other)
    return matcher.quick_ratio() > _ALIKE_MIN and matcher.ratio() > _ALIKE_MIN


PLAIN = {
    **dict.fromkeys("‘’‚‛′ʼ", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f", " "),
    "…": "...",
}
"""Typographic characters and their plain equivalents."""

_BLANKS = " \t\r\v\f"
_PLAIN_TABLE = str.maketrans(PLAIN)


class Unclear(Exception):
    """An edit whose result is not certain; the message says why, as part of a sentence.

    Attributes:
        fits: Whether the quotation may still be of these lines.
    """

    def __init__(self, why: str, *, fits: bool = True) -> None:
        super().__init__(why)
        self.fits = fits


def split_line(text: str) -> Line:
    """Split *text*, which has no line ending, into its parts."""
    body = text.strip(_BLANKS)
    if not body:
        return Line("", "", text)
    start = text.index(body[0])
    return Line(text[:start], body, text[start + len(body) :])


class LooseLines(dict[str, str]):
    """A normal form of lines that is equal for all misquotations of a line.

    The forms are kept, because most lines stay the same from edit to edit.
    """

    def __missing__(self, line: str) -> str:
        plain = line
        # A line of an ellipsis alone marks omitted lines.
        if not line.isascii() and line.strip() != "…":
            plain = unicodedata.normalize("NFC", line).translate(_PLAIN_TABLE)
        self[line] = key = " ".join(plain.split())
        return key
