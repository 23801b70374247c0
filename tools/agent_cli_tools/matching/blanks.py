"""Restore trailing blanks and blank lines as the file has them."""

from collections.abc import Sequence

from agent_cli_tools.matching.lines import Line, Unclear


class Blanks:
    """The difference in trailing blanks between the quoted lines *old* and the file's *there*.

    The lines of *new* are assumed to have the same difference.
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
        # Without a blank line in old, blank lines are assumed to differ like the others.
        self._blank_surplus = _surplus(blank) if blank else self._surplus
        self._is_told = bool(blank) or is_certain
        self.were_repaired = any(there != quoted for there, quoted in [*pairs, *blank])

    def trail(self, line: Line) -> str:
        """Return the trailing blanks of a new non-blank line.

        Raises:
            Unclear: Its blanks may be its own, because other new lines have none.
        """
        trail = _without(line.trail, self._surplus)
        if self._is_mixed and trail != line.trail:
            raise Unclear("it is open whether new is to have blanks at the end of a line")
        return trail

    def blank_line(self, line: Line) -> str:
        """Return a new blank line.

        Raises:
            Unclear: It is unknown whether the file would have these blanks.
        """
        if self._blank_lack:
            raise Unclear("blank lines there hold blanks that old has not")
        if line.trail and not self._is_told:
            raise Unclear("it is open whether new is to have a line of blanks only")
        return _without(line.trail, self._blank_surplus)


def _surplus(pairs: Sequence[tuple[str, str]]) -> set[str | None]:
    """Return the additional blanks of the quotation; None if the lines differ in them."""
    surplus: set[str | None] = {
        quoted.removeprefix(there) if quoted.startswith(there) else None for there, quoted in pairs
    }
    if not any(len(quoted) > len(there) for there, quoted in pairs):
        return set()
    return surplus if len(surplus) == 1 else {None}


def _some_end_in(surplus: set[str | None], new: Sequence[Line]) -> bool:
    """Return whether some lines, but not all, end in the additional blanks."""
    trails = [line.trail for line in new if not line.is_blank]
    return any(extra and len({trail.endswith(extra) for trail in trails}) > 1 for extra in surplus)


def _without(trail: str, surplus: set[str | None]) -> str:
    for extra in surplus:
        return "" if extra is None else trail.removesuffix(extra)
    return trail


def lacking(there: Sequence[Line], old: Sequence[Line]) -> list[bool]:
    """Return for each line whether its trailing blanks are missing in the quotation."""
    return [not a.is_blank and len(a.trail) > len(b.trail) for a, b in zip(there, old, strict=True)]
