"""Titled facts about one thing."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable

from agent_cli.terminal.views.console import cell


@dataclass(frozen=True, slots=True)
class Fact:
    """A title, its text, and rich's name of a style."""

    title: str
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts in rows; a title that repeats the one above is left out when drawn."""

    facts: Sequence[Fact]

    def drawn(self) -> RichTable:
        """Return the facts for a terminal, texts wrapped beside their titles."""
        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        above = ""
        for fact in self.facts:
            grid.add_row(
                "" if fact.title == above else cell(fact.title), cell(fact.text, fact.style)
            )
            above = fact.title
        return grid

    def lines(self) -> Sequence[str]:
        """Return `title: text` for each."""
        width = max((len(fact.title) for fact in self.facts), default=0) + 1
        return [f"{fact.title + ':':<{width}} {fact.text}" for fact in self.facts]
