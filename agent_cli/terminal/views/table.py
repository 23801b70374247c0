"""Records in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.views.console import cell


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and how it is set.

    Attributes:
        right: Set to the right: numbers.
        style: rich's name of a style.
        whole: Never broken over lines, so that it can be copied: ids.
    """

    title: str
    right: bool = False
    style: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length under *columns*; `empty` is said when there are none."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    empty: str = "nothing"
    styles: Sequence[str] = field(default=())
    """A style for each row, or none at all."""

    def drawn(self) -> RichTable | Text:
        """Return the table for a terminal: long cells fold inside their column."""
        if not self.rows:
            return cell(self.empty, "dim")
        table = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in self.columns:
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                style=column.style,
                header_style="bold",
                no_wrap=column.whole,
                overflow="fold",
            )
        for number, row in enumerate(self.rows):
            style = self.styles[number] if self.styles else None
            table.add_row(*map(cell, row), style=style)
        return table

    def lines(self) -> Sequence[str]:
        """Return a line for each row, its cells two blanks apart."""
        return ["  ".join(_one_line(each) or "-" for each in row) for row in self.rows] or [
            self.empty
        ]


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
