"""Compare quoted lines with those of the file to find the indentation frame of new lines.

`new` is indented either like the quotation `old`, so that it must be shifted as well, or like the
file. The lines themselves and their context tell which.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from agent_cli_tools.matching.alignment import are_alike
from agent_cli_tools.matching.lines import Line

_COMPARED_LINES_MAX = 10
_LIST_MARKS = ("-", "*", "+")
_WORD = re.compile(r"\w")
_COMMENT = re.compile(r"\s+(?:#|//).*")
_CLOSED = re.compile(r"[\w>})\]'\";]\Z")

BLOCK_STARTS = (":", "{", "[")
"""Line ends after which a block is indented; after a parenthesis, styles differ."""

Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Indentations: (in the file, quoted)."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """Lines of the file, their quotation, and their replacement."""

    there: Sequence[Line]
    old: Sequence[Line]
    new: Sequence[Line]
    before: Line | None = None
    """The nearest non-blank lines of the file before and after these."""
    after: Line | None = None

    @property
    def indents(self) -> Pairs:
        """The indentations of all non-blank lines."""
        pairs = zip(self.there, self.old, strict=True)
        return [(line.indent, quoted.indent) for line, quoted in pairs if not line.is_blank]

    def raw_lines(self) -> Iterator[Line]:
        """Yield the indented lines of *new* that start inside backticks."""
        is_open = False
        for line in self.new:
            if is_open and line.indent:
                yield line
            is_open ^= line.body.count("`") % 2 == 1

    def is_one_frame(self, apply: Callable[[str], str | None], unit: str | None) -> bool:
        """Return whether *new* is indented like the quotation *old*, not like the file.

        Criteria are the steps of indentation, the first line, which seldom changes its depth,
        common lines, the lines before and after, and similar lines.

        Args:
            apply: Converts a quoted indentation into that of the file.
            unit: The indentation step of this file.
        """
        texts, quoted, there = map(_texts, (self.new, self.old, self.there))
        indents = [indent for line in texts if (indent := apply(line.indent)) is not None]
        moved = [Line(i, line.body, line.trail) for i, line in zip(indents, texts, strict=False)]
        if moved == texts:
            return True
        if len(moved) < len(texts) or quoted[0].indent != there[0].indent == texts[0].indent:
            return False
        steps = [_unit_steps(lines, _unit(there) or unit) for lines in (texts, moved)]
        if steps[0] != steps[1]:
            return steps[1] > steps[0]
        if (texts[0], texts[-1]) == (quoted[0], quoted[-1]) and there[0].indent != texts[0].indent:
            return True
        common = _common(texts, there, quoted)
        if common.verdict is not None:
            return common.verdict
        if texts[0].indent != quoted[0].indent or common.as_in_file:
            return False
        is_alike = _are_alike(quoted, texts)
        if not is_alike and _are_alike(there, texts):
            return False
        fits_as_it_is, fits_moved = (self._can_stand(lines, unit) for lines in (texts, moved))
        if fits_as_it_is != fits_moved:
            return fits_moved
        is_shallower = len(_margin(texts)) < len(_margin(quoted))
        return is_alike and not is_shallower and 2 * common.as_quoted >= common.count

    def _can_stand(self, texts: Sequence[Line], unit: str | None) -> bool:
        """Return whether *texts* fits between the lines before and after.

        It does not if a deeper line follows one that does not open a block.
        """
        there = _texts(self.there)
        if not (_are_blocks(there) and _are_blocks(texts)):
            return True
        if unit and len(texts[0].indent) % len(unit) and not len(there[0].indent) % len(unit):
            return False
        sides = [
            ((self.before, there[0]), (self.before, texts[0])),
            ((there[-1], self.after), (texts[-1], self.after)),
        ]
        return all(_can_follow(*new, unit) or not _can_follow(*old, unit) for old, new in sides)

    def steps(self) -> "Steps":
        """Return the additional depths of quoted lines that follow an opening one."""
        blocks: set[int] = set()
        in_parentheses: set[int] = set()
        others: set[int] = set()
        for lines in (self.old, self.new):
            texts = [line for line in lines if not line.is_blank]
            for line, following in pairwise(texts):
                step = len(following.indent) - len(line.indent)
                if step > 0 and line.body.endswith(BLOCK_STARTS):
                    blocks.add(step)
                elif step > 0 and line.body.endswith("("):
                    in_parentheses.add(step)
                elif step > 0 and not line.body.startswith(_LIST_MARKS):
                    others.add(step)
        return Steps(frozenset(blocks), frozenset(in_parentheses), frozenset(others))


@dataclass(frozen=True, slots=True)
class Steps:
    """Indentation steps in characters: of blocks, and inside parentheses."""

    blocks: frozenset[int]
    in_parentheses: frozenset[int]
    others: frozenset[int]

    def can_be(self, unit: Fraction | None, units: Sequence[Fraction]) -> bool:
        """Return whether blocks can be indented by *unit*, one of *units*."""
        if unit is None:
            return True
        if unit.denominator > 1 or any(step != unit for step in self.blocks):
            return False
        if any(step % unit for step in self.in_parentheses):
            return False
        if any(other < unit and other in self.others for other in units):
            return False
        return unit in self.others or not self.others.intersection(units)


@dataclass(frozen=True, slots=True)
class _Common:
    """The number of lines new shares with old, by their indentation in new.

    Lines with the same indentation in the file and in old do not count.
    """

    count: int
    as_in_file: int
    as_quoted: int

    @property
    def verdict(self) -> bool | None:
        """Return whether all are indented as quoted; None if they disagree."""
        if self.count not in {self.as_in_file, self.as_quoted} or not self.count:
            return None
        return self.count == self.as_quoted


def _common(new: Sequence[Line], there: Sequence[Line], quoted: Sequence[Line]) -> _Common:
    """Count the significant lines: those with words, unless there are none."""
    # Compare the quoted text, because the file may have other characters.
    in_file = _places([Line(a.indent, b.body, b.trail) for a, b in zip(there, quoted, strict=True)])
    in_old = _places(quoted)
    lines = [line for line in new if in_file.get(line.body) != in_old.get(line.body)]
    lines = [line for line in lines if _WORD.search(line.body)] or lines
    return _Common(
        len(lines),
        sum(line.indent in in_file[line.body] - in_old[line.body] for line in lines),
        sum(line.indent in in_old[line.body] - in_file[line.body] for line in lines),
    )


def _unit(lines: Sequence[Line]) -> str | None:
    """Return the first step of indentation in *lines*."""
    steps = (b.indent[len(a.indent) :] for a, b in pairwise(lines))
    return next(filter(None, steps), None)


def _unit_steps(lines: Sequence[Line], unit: str | None) -> int:
    """Return how many lines are one *unit* deeper than the line before, except in lists."""
    return sum(
        b.indent == a.indent + unit and not b.body.startswith(_LIST_MARKS)
        for a, b in pairwise(lines)
        if unit
    )


def _are_blocks(lines: Sequence[Line]) -> bool:
    """Return whether deeper lines follow only lines that open a block, as in most languages."""
    return not any(
        len(b.indent) > len(a.indent) and _CLOSED.search(_code(a)) for a, b in pairwise(lines)
    )


def _texts(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not line.is_blank]


def _can_follow(line: Line | None, following: Line | None, unit: str | None) -> bool:
    """Return whether *following* can follow *line*; without a line, at an end of the file."""
    if following is None:
        return True
    if line is None:
        return not following.indent
    step = len(following.indent) - len(line.indent)
    code = _code(line)
    if code.endswith(":"):
        return step == len(unit) if unit else step > 0
    return step >= 0 if code.endswith(BLOCK_STARTS) else step <= 0


def _code(line: Line) -> str:
    """Return the text of *line* without a trailing comment."""
    return _COMMENT.sub("", line.body)


def _are_alike(old: Sequence[Line], new: Sequence[Line]) -> bool:
    """Return whether some of these lines with equal indentation are versions of each other."""
    return any(
        one.indent == other.indent and are_alike(one.body, other.body)
        for one in old[:_COMPARED_LINES_MAX]
        for other in new[:_COMPARED_LINES_MAX]
    )


def _places(lines: Sequence[Line]) -> dict[str, set[str]]:
    places: dict[str, set[str]] = {}
    for line in lines:
        if not line.is_blank:
            places.setdefault(line.body, set()).add(line.indent)
    return places


def _margin(lines: Sequence[Line]) -> str:
    """Return the smallest indentation of *lines*."""
    return min((line.indent for line in lines if not line.is_blank), key=len, default="")
