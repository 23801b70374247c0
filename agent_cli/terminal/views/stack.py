"""Several views in one, from top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group

from agent_cli.terminal.views.console import View, cell


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence beside a view."""

    text: str

    def drawn(self) -> Group:
        """Return it for a terminal, faint, below an empty line."""
        return Group("", cell(self.text, "dim"))

    def lines(self) -> Sequence[str]:
        """Return it."""
        return [self.text]


@dataclass(frozen=True, slots=True)
class Stack:
    """Several views; *apart* leaves an empty line between them on a terminal."""

    views: Sequence[View]
    apart: bool = False

    def drawn(self) -> Group:
        """Return them for a terminal."""
        drawn = [view.drawn() for view in self.views]
        if self.apart:
            drawn = [each for view in drawn for each in ("", view)][1:]
        return Group(*drawn)

    def lines(self) -> Sequence[str]:
        """Return their lines."""
        return [line for view in self.views for line in view.lines()]
