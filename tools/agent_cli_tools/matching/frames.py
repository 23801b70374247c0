"""Lines as they were quoted, beside those of the file: in which frame of indentation each stands.

`new` is written either in the frame of `old`, so that it was shifted with it, or in that of the
file. Which one it is, the lines themselves and those around them tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from agent_cli_tools.matching.lines import Line

_ALIKE_MIN = 0.6
_COMPARED_LINES_MAX = 10
_LIST_MARKS = ("-", "*", "+")

BLOCK_STARTS = (":", "{", "[")
"""Ends of lines after which a block is indented; after a parenthesis, every style has its own."""

Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Indentations: (in the file, quoted)."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """Lines of the file, how they were quoted, and what they are to become."""

    there: Sequence[Line]
    old: Sequence[Line]
    new: Sequence[Line]
    before: Line | None = None
    """The line of the file before these, and after them, that is not blank."""
    after: Line | None = None

    @property
    def indents(self) -> Pairs:
        """The indentations of all lines that are not blank."""
        pairs = zip(self.there, self.old, strict=True)
        return [(line.indent, quoted.indent) for line, quoted in pairs if not line.is_blank]

    def is_one_frame(self, unit: str | None) -> bool:
        """Whether *new* is indented as *old* was quoted, not as the file is.

        Judged by the first line, which seldom changes its depth, and by lines that both have.
        """
        texts, quoted, there = map(_texts, (self.new, self.old, self.there))
        if not texts or quoted[0].indent != there[0].indent == texts[0].indent:
            return not texts
        in_file, in_old = _places(there), _places(quoted)
        common = sum(line.body in in_file for line in texts)
        as_file = sum(line.indent in in_file.get(line.body, ()) for line in texts)
        as_old = sum(line.indent in in_old.get(line.body, ()) for line in texts)
        if as_old == common > as_file:
            return True
        if as_file == common > as_old or texts[0].indent != quoted[0].indent:
            return False
        if not self._goes_in_as_it_is(texts, unit):
            return True
        if len(_margin(texts)) < len(_margin(quoted)):
            return False
        return bool(common) or _are_alike(quoted, texts)

    def _goes_in_as_it_is(self, texts: Sequence[Line], unit: str | None) -> bool:
        """Whether *texts*, not shifted, could stand between the lines before and after."""
        there = _texts(self.there)[0].indent
        if unit and len(texts[0].indent) % len(unit) and not len(there) % len(unit):
            return False
        blocks = [pair for pair in pairwise(texts) if pair[0].body.endswith(":")]
        return (
            (self.before is None or _can_follow(self.before, texts[0], unit))
            and (self.after is None or _can_follow(texts[-1], self.after, unit))
            and all(_can_follow(line, following, unit) for line, following in blocks)
        )

    def steps(self) -> "Steps":
        """Return how much deeper the lines are that follow an opening one in what was quoted."""
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
    """Steps of indentation, in characters: of blocks, and of what stands in parentheses."""

    blocks: frozenset[int]
    in_parentheses: frozenset[int]
    others: frozenset[int]

    def can_be(self, unit: Fraction | None, units: Sequence[Fraction]) -> bool:
        """Whether blocks can have been indented by *unit*, which is one of *units*."""
        if unit is None:
            return True
        if unit.denominator > 1 or any(step != unit for step in self.blocks):
            return False
        if any(step % unit for step in self.in_parentheses):
            return False
        if any(other < unit and other in self.others for other in units):
            return False
        return unit in self.others or not self.others.intersection(units)


def _texts(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not line.is_blank]


def _can_follow(line: Line, following: Line, unit: str | None) -> bool:
    step = len(following.indent) - len(line.indent)
    if line.body.endswith(":"):
        return step == len(unit) if unit else step > 0
    return step >= 0 if line.body.endswith(BLOCK_STARTS) else step <= 0


def _are_alike(old: Sequence[Line], new: Sequence[Line]) -> bool:
    """Whether some of these lines, indented equally, are versions of each other."""
    return any(
        one.indent == other.indent
        and SequenceMatcher(None, one.body, other.body).quick_ratio() > _ALIKE_MIN
        and SequenceMatcher(None, one.body, other.body).ratio() > _ALIKE_MIN
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
