"""Blanks at the ends of lines, and blank lines, as the file has them."""

from collections.abc import Sequence

from agent_cli_tools.matching.lines import Line, Unclear


class Blanks:
    """What the quoted lines *old* have at their ends that the lines *there* have not, or lack.

    The lines of *new* are taken to have the same in addition.
    """

    def __init__(
        self,
        there: Sequence[Line],
        old: Sequence[Line],
        new: Sequence[Line],
        *,
        is_certain: bool,
    ) -> None:
        pairs = [(a.trail, b.trail) for a, b in zip(there, old, strict=True) if not a.is_blank]
        blank = [(a.trail, b.trail) for a, b in zip(there, old, strict=True) if a.is_blank]
        self._surplus = _surplus(pairs)
        self._is_mixed = _some_end_in(self._surplus, new)
        self._blank_lack = any(len(quoted) < len(there) for there, quoted in blank)
        # Without a blank line in old, they are taken to have what the others have.
        self._blank_surplus = _surplus(blank) if blank else self._surplus
        self._is_told = bool(blank) or is_certain
        self.were_repaired = any(there != quoted for there, quoted in [*pairs, *blank])

    def trail(self, line: Line) -> str:
        """Return the end of a new line that is not blank.

        Raises:
            Unclear: Perhaps its blanks are those of the line, as other new lines have none.
        """
        trail = _without(line.trail, self._surplus)
        if self._is_mixed and trail != line.trail:
            raise Unclear("it is open whether new is to have blanks at the end of a line")
        return trail

    def blank_line(self, line: Line) -> str:
        """Return a new blank line.

        Raises:
            Unclear: It is open whether the file would have these blanks in it.
        """
        if self._blank_lack:
            raise Unclear("blank lines there hold blanks that old has not")
        if line.trail and not self._is_told:
            raise Unclear("it is open whether new is to have a line of blanks only")
        return _without(line.trail, self._blank_surplus)


def _surplus(pairs: Sequence[tuple[str, str]]) -> set[str | None]:
    """Return what was quoted in addition; None where that is not the same for all."""
    surplus: set[str | None] = {
        quoted.removeprefix(there) if quoted.startswith(there) else None for there, quoted in pairs
    }
    if not any(len(quoted) > len(there) for there, quoted in pairs):
        return set()
    return surplus if len(surplus) == 1 else {None}


def _some_end_in(surplus: set[str | None], new: Sequence[Line]) -> bool:
    """Whether some lines end in what all quoted ones have in addition, and others do not."""
    trails = [line.trail for line in new if not line.is_blank]
    return any(extra and len({trail.endswith(extra) for trail in trails}) > 1 for extra in surplus)


def _without(trail: str, surplus: set[str | None]) -> str:
    for extra in surplus:
        return "" if extra is None else trail.removesuffix(extra)
    return trail


def lacking(there: Sequence[Line], old: Sequence[Line]) -> list[bool]:
    """Return for each line whether it ends in blanks that were not quoted."""
    return [not a.is_blank and len(a.trail) > len(b.trail) for a, b in zip(there, old, strict=True)]
