"""Records in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.views.console import Drawn, cell
from agent_cli.terminal.views.facts import Fact, Facts


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and layout.

    Attributes:
        right: Whether it is right-aligned, for numbers.
        style: rich's name of a style.
        whole: Whether cells are never wrapped, so that they can be copied, for IDs.
    """

    title: str
    right: bool = False
    style: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length under *columns*; `empty` is shown if there are none."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    empty: str = "nothing"
    styles: Sequence[str] = field(default=())
    """A style for each row, or none at all."""

    def drawn(self) -> RichTable | Text:
        """Return the table for a terminal; long cells wrap inside their column."""
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


@dataclass(frozen=True, slots=True)
class RemarkedTable:
    """A table with remarks on its rows: below it on a terminal, at the end of each line on a pipe.

    Attributes:
        remarks: For each row, any number of sentences.
    """

    table: Table
    remarks: Sequence[Sequence[str]]

    def drawn(self) -> Drawn:
        """Return the table, then each remark beside the first cell of its row."""
        rows = zip(self.table.rows, self.remarks, strict=True)
        facts = [Fact(row[0], remark) for row, remarks in rows for remark in remarks]
        return Group(self.table.drawn(), "", Facts(facts).drawn()) if facts else self.table.drawn()

    def lines(self) -> Sequence[str]:
        """Return a line for each row, ending with its remarks."""
        if not self.table.rows:
            return self.table.lines()
        rows = zip(self.table.lines(), self.remarks, strict=True)
        return ["  ".join((line, *map(_one_line, remarks))) for line, remarks in rows]


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
