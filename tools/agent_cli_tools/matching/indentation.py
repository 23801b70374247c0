"""Find the shift between quoted and actual indentation, and apply it to new lines.

Several shifts may explain the same lines. The new lines are shifted only if all of them give the
same result.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from agent_cli.contracts.wording import counted
from agent_cli_tools.matching.frames import Pairs, Quoted
from agent_cli_tools.matching.lines import Line, Unclear

UNIT_LINES_MAX = 5_000
"""Lines that show how a file is indented."""

_TAB_WIDTHS = range(1, 9)
_SCALES = (2, 4)
_STEPS_MIN = 2
_SAME = Fraction(1)
_TABBED = "spaces written as tabs"

_Seen: TypeAlias = Mapping[str, Set[str]]
"""A quoted indentation → the file's indentations for it."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A function from quoted indentation to that of the file; None where it is undefined."""

    name: str
    apply: Callable[[str], str | None]
    scale: Fraction | None = None
    """The ratio of the file's depth to the quoted one; None for another kind of blanks."""

    def quoted_unit(self, unit: str | None) -> Fraction | None:
        """Return the indentation step of the quotation if *unit* is the file's."""
        return None if self.scale is None or unit is None else len(unit) / self.scale


def shifted(
    quotation: Quoted, changed: Sequence[Line], unit: Callable[[], str | None]
) -> tuple[list[str], str]:
    """Return the indentations of *changed* lines in the file, and the repairs made.

    Args:
        quotation: The lines of the file and their quotation.
        changed: The new non-blank lines that are not in the file.
        unit: Returns the indentation step of this file, if known.

    Raises:
        Unclear: No shift explains the quotation, or several do and give different results.
    """
    wanted = [line.indent for line in changed]
    pairs = quotation.indents
    if all(there == quoted for there, quoted in pairs):
        return wanted, ""
    shifts = [shift for find in _FINDERS for shift in find(pairs)]
    if not shifts:
        raise Unclear(_difference(pairs), fits=False)
    results: dict[tuple[str, ...], Shift] = {}
    for shift in shifts:
        known = [indent for indent in map(shift.apply, wanted) if indent is not None]
        if len(known) == len(wanted):
            results.setdefault(tuple(known), shift)
    if len(shifts) > 1 and len(results) != 1:
        steps = quotation.steps()
        units = {it: it.quoted_unit(unit()) for it in results.values()}
        results = {
            result: it
            for result, it in results.items()
            if steps.can_be(units[it], [other for other in units.values() if other])
        }
    if len(results) != 1:
        raise Unclear(_difference(pairs) + ", which leaves the indentation of new open")
    ((result, shift),) = results.items()
    if (
        shift.scale is not None
        and quotation.new
        and not quotation.is_one_frame(shift.apply, unit())
    ):
        raise Unclear("new is not indented as old is, and old not as the lines there are")
    if shift.name == _TABBED and any(line.indent in wanted for line in quotation.raw_lines()):
        raise Unclear("spaces in a string of several lines may be meant as spaces")
    return list(result), shift.name


def unit_of(lines: Sequence[str]) -> str | None:
    """Return the usual indentation step of *lines*; None if unknown."""
    texts = [line for line in lines[:UNIT_LINES_MAX] if line.strip()]
    indents = [line[: len(line) - len(line.lstrip())] for line in texts]
    steps = Counter(
        deeper.removeprefix(indent)
        for indent, deeper in pairwise(indents)
        if len(deeper) > len(indent) and deeper.startswith(indent)
    )
    ((step, count),) = steps.most_common(1) or [("", 0)]
    return step if count >= _STEPS_MIN else None


def _seen(pairs: Pairs) -> _Seen:
    seen: dict[str, set[str]] = {}
    for there, quoted in pairs:
        seen.setdefault(quoted, set()).add(there)
    return seen


def _added(pairs: Pairs) -> list[Shift]:
    there, quoted = pairs[0]
    if not there.endswith(quoted) or there == quoted:
        return []
    missing = there.removesuffix(quoted)
    if any(there != missing + quoted for there, quoted in pairs):
        return []
    return [
        Shift(f"{_counted(missing)} added to every line", lambda indent: missing + indent, _SAME)
    ]


def _removed(pairs: Pairs) -> list[Shift]:
    there, quoted = pairs[0]
    if not quoted.endswith(there) or there == quoted:
        return []
    extra = quoted.removesuffix(there)
    if any(quoted != extra + there for there, quoted in pairs):
        return []

    def apply(indent: str) -> str | None:
        return indent.removeprefix(extra) if indent.startswith(extra) else None

    return [Shift(f"{_counted(extra)} removed from every line", apply, _SAME)]


def _tabs_to_spaces(pairs: Pairs) -> list[Shift]:
    return [
        Shift("tabs written as spaces", partial(_spaced, width=width))
        for width in _TAB_WIDTHS
        if all(there == _spaced(quoted, width) for there, quoted in pairs)
    ]


def _spaces_to_tabs(pairs: Pairs) -> list[Shift]:
    return [
        Shift(_TABBED, partial(_tabbed, width=width, seen=_seen(pairs)))
        for width in _TAB_WIDTHS
        if all("\t" not in quoted and _spaced(there, width) == quoted for there, quoted in pairs)
    ]


def _scaled(pairs: Pairs) -> list[Shift]:
    if any(indent.strip(" ") for pair in pairs for indent in pair):
        return []
    lengths = [(len(there), len(quoted)) for there, quoted in pairs]
    shifts: list[Shift] = []
    for scale in _SCALES:
        if all(there // scale == quoted for there, quoted in lengths):
            # Halving an odd number loses information, so only known indentations can be restored.
            is_exact = all(there == quoted * scale for there, quoted in lengths)
            shifts.append(_widened(scale, _seen(pairs), is_exact=is_exact))
        if all(there * scale == quoted for there, quoted in lengths):
            shifts.append(
                Shift(
                    "indentation narrowed",
                    partial(_narrowed, scale=scale),
                    Fraction(1, scale),
                )
            )
    return shifts


def _widened(scale: int, seen: _Seen, *, is_exact: bool) -> Shift:
    def apply(indent: str) -> str | None:
        if indent.strip(" "):
            return None
        known = seen.get(indent, {indent * scale} if is_exact else set())
        return next(iter(known)) if len(known) == 1 else None

    return Shift("indentation widened", apply, Fraction(scale))


_FINDERS = (_added, _removed, _tabs_to_spaces, _spaces_to_tabs, _scaled)


def _narrowed(indent: str, *, scale: int) -> str | None:
    return None if len(indent) % scale else " " * (len(indent) // scale)


def _spaced(indent: str, width: int) -> str:
    return indent.replace("\t", " " * width)


def _tabbed(indent: str, width: int, seen: _Seen) -> str | None:
    """Return *indent* in tabs, or in the file's mix of tabs and spaces."""
    if indent.strip(" "):
        return None
    tabs = "\t" * (len(indent) // width) + " " * (len(indent) % width)
    known = seen.get(indent, {tabs})
    return next(iter(known)) if len(known) == 1 else None


def _difference(pairs: Pairs) -> str:
    there, quoted = next(pair for pair in pairs if pair[0] != pair[1])
    return f"a line there is indented by {_counted(there)}, in old by {_counted(quoted)}"


def _counted(indent: str) -> str:
    if not indent:
        return "nothing"
    kind = {" ": "space", "\t": "tab"}.get(indent[0], "blank")
    if indent.strip(indent[0]):
        kind = "blank"
    return counted(len(indent), kind)
