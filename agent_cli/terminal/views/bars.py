"""Bars for the parts of a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable

from agent_cli.terminal.narration import share
from agent_cli.terminal.views.console import cell

_BAR_CELLS = 30


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each part, with its number and its share, below a `heading`."""

    heading: str
    parts: Mapping[str, int]

    def drawn(self) -> Group:
        """Return the bars for a terminal."""
        whole = sum(self.parts.values()) or 1
        grid = RichTable.grid(padding=(0, 2))
        for _ in range(2):
            grid.add_column()
        for _ in range(2):
            grid.add_column(justify="right")
        for name, number in self.parts.items():
            bar = ProgressBar(total=whole, completed=number, width=_BAR_CELLS)
            grid.add_row(cell(name), bar, f"{number:,}", share(number / whole))
        return Group(cell(self.heading), grid)

    def lines(self) -> Sequence[str]:
        """Return the heading, then a line for each part."""
        whole = sum(self.parts.values()) or 1
        rows = [f"{name}  {n:,}  {share(n / whole)}" for name, n in self.parts.items()]
        return [self.heading, *rows]
