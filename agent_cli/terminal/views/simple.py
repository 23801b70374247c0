"""Simple views: titled facts, bars, a tree of reasons, and several views in one."""

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.tree import Tree as RichTree

from agent_cli.contracts.wording import share
from agent_cli.system.records import dataclass
from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.views.console import View, cell


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


@dataclass(frozen=True, slots=True)
class Tree:
    """A root with branches, each a text."""

    root: str
    branches: Sequence["Tree"] = ()
    style: str = ""

    def drawn(self) -> RichTree:
        """Return the tree for a terminal."""
        tree = RichTree(cell(self.root, self.style), guide_style="dim")
        for branch in self.branches:
            tree.add(branch.drawn())
        return tree

    def lines(self) -> Sequence[str]:
        """Return a line for each text, indented by its depth."""
        below = (f"  {line}" for branch in self.branches for line in branch.lines())
        return [clean(self.root), *below]


# Several views in one, from top to bottom.


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
