"""Views one below the other."""

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
    """Several views."""

    views: Sequence[View]

    def drawn(self) -> Group:
        """Return them for a terminal."""
        return Group(*(view.drawn() for view in self.views))

    def lines(self) -> Sequence[str]:
        """Return their lines."""
        return [line for view in self.views for line in view.lines()]
