"""A statement and its reasons, as a tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.tree import Tree as RichTree

from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.views.console import cell


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
