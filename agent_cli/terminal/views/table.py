"""Records in columns, and simpler views: titled facts, bars, a tree of reasons."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.tree import Tree as RichTree

from agent_cli.contracts.wording import share
from agent_cli.system.records import dataclass, field
from agent_cli.system.sanitize import clean
from agent_cli.terminal.views import Drawn, View, cell

_GAP: Final = 3
_BROKEN_FROM: Final = 8
"""The cells of a word of text that may be broken to fit its column."""
_TEXT_CELLS_MIN: Final = 16


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

    def drawn(self) -> Drawn:
        """Return the table for a terminal; long cells wrap inside their column.

        On a terminal too narrow for that, each row becomes a list of its cells.
        """
        if not self.rows:
            return cell(self.empty, "dim")
        return _Fitted(self)

    def in_columns(self) -> RichTable:
        """Return the table itself, for a terminal that is wide enough."""
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

    def in_records(self) -> Group:
        """Return each row as a list of its cells that hold something."""
        titles = [column.title for column in self.columns]
        records: list[Drawn] = []
        for number, row in enumerate(self.rows):
            style = self.styles[number] if self.styles else ""
            facts = [Fact(t, text, style) for t, text in zip(titles, row, strict=True) if text]
            records += ["", Facts(facts).drawn()]
        return Group(*records[1:])

    def cells_min(self) -> int:
        """Return the width below which numbers, headings or short words would be broken."""
        widths = [
            max(_widest_word(column.title), *(_width_min(column, row[at]) for row in self.rows))
            for at, column in enumerate(self.columns)
        ]
        return sum(widths) + _GAP * (len(widths) - 1)

    def lines(self) -> Sequence[str]:
        """Return a line for each row, its cells two blanks apart."""
        return ["  ".join(_one_line(each) or "-" for each in row) for row in self.rows] or [
            self.empty
        ]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A view in columns, or in records where they do not fit."""

    view: "Table | Facts | Bars"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = self.view.cells_min() <= options.max_width
        yield self.view.in_columns() if is_wide else self.view.in_records()


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


def _width_min(column: Column, text: str) -> int:
    if column.right or column.whole:
        return max(map(cell_len, text.splitlines()), default=0)
    return min(_widest_word(text), _BROKEN_FROM)


def _widest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


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

    def drawn(self) -> Drawn:
        """Return the facts for a terminal; on a narrow one, each text below its title."""
        return _Fitted(self)

    def in_columns(self) -> RichTable:
        """Return each text beside its title, for a terminal that is wide enough."""
        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for fact, title in self._titled():
            grid.add_row(cell(title), cell(fact.text, fact.style))
        return grid

    def in_records(self) -> Group:
        """Return each text below its title."""
        drawn: list[Drawn] = []
        for fact, title in self._titled():
            drawn += [cell(title, "dim")] if title else []
            drawn.append(Padding(cell(fact.text, fact.style), (0, 0, 0, 2)))
        return Group(*drawn)

    def cells_min(self) -> int:
        """Return the width below which the texts would be columns of syllables."""
        title = max((cell_len(clean(fact.title)) for fact in self.facts), default=0)
        lines = (cell_len(line) for fact in self.facts for line in clean(fact.text).splitlines())
        return title + 2 + min(max(lines, default=0), _TEXT_CELLS_MIN)

    def _titled(self) -> Iterator[tuple[Fact, str]]:
        """Yield each fact with its title, which is "" below the same one."""
        above = ""
        for fact in self.facts:
            yield fact, "" if fact.title == above else fact.title
            above = fact.title

    def lines(self) -> Sequence[str]:
        """Return `title: text` for each."""
        width = max((len(fact.title) for fact in self.facts), default=0) + 1
        return [f"{fact.title + ':':<{width}} {fact.text}" for fact in self.facts]


_BAR_CELLS: Final = 30
_BAR_CELLS_MIN: Final = 6
_BAR_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each part, with its number and its share, below a `heading`."""

    heading: str
    parts: Mapping[str, int]

    def drawn(self) -> Group:
        """Return the bars for a terminal; on a narrow one, the numbers alone."""
        return Group(cell(self.heading), _Fitted(self))

    def in_columns(self) -> RichTable:
        """Return the bars between names and numbers, for a terminal that is wide enough."""
        grid = RichTable.grid(padding=(0, _BAR_GAP))
        grid.add_column(no_wrap=True)
        grid.add_column(max_width=_BAR_CELLS)
        return self._filled(grid, has_bars=True)

    def in_records(self) -> RichTable:
        """Return the names and the numbers."""
        grid = RichTable.grid(padding=(0, _BAR_GAP))
        grid.add_column(overflow="fold")
        return self._filled(grid, has_bars=False)

    def cells_min(self) -> int:
        """Return the width below which the bars would take the room of the names."""
        names, numbers = map(cell_len, self.parts), (f"{each:,}" for each in self.parts.values())
        texts = max(names, default=0) + max(map(len, numbers), default=0) + len("100%")
        return texts + 3 * _BAR_GAP + _BAR_CELLS_MIN

    def _filled(self, grid: RichTable, *, has_bars: bool) -> RichTable:
        for _ in ("number", "share"):
            grid.add_column(justify="right", no_wrap=True)
        whole = sum(self.parts.values()) or 1
        for name, number in self.parts.items():
            bar = [ProgressBar(total=whole, completed=number)] if has_bars else []
            grid.add_row(cell(name), *bar, f"{number:,}", share(number / whole))
        return grid

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
