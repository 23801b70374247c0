"""A terminal's screen as an SVG picture: text that can be selected, in the reader's own font."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

import pyte
from pyte.screens import Char

CELL_WIDTH: Final = 8.4
_ROW_HEIGHT: Final = 18
_FONT_SIZE: Final = 14
_MARGIN: Final = 18
_BAR_HEIGHT: Final = 34
_FONTS: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
PAPER, _BAR, _INK = "#14161b", "#1e2129", "#d6d9e0"
_HEX: Final = re.compile(r"[0-9a-f]{6}")
_BUTTONS: Final = ("#ff5f57", "#febc2e", "#28c840")
# pyte calls the fourth colour brown, and the bright ones by a name of their own.
_COLORS: Final = {
    "default": _INK,
    "black": "#3b4048",
    "red": "#f07178",
    "green": "#7fd88f",
    "brown": "#e6c07b",
    "blue": "#61afef",
    "magenta": "#c792ea",
    "cyan": "#56c8d8",
    "white": "#d6d9e0",
    "brightblack": "#7d8492",
    "brightred": "#ff8b92",
    "brightgreen": "#9fe8a9",
    "brightbrown": "#ffd787",
    "brightblue": "#82c1ff",
    "brightmagenta": "#dba9ff",
    "brightcyan": "#7fe3f0",
    "brightwhite": "#ffffff",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What is the same for a run of cells."""

    color: str
    bold: bool
    italic: bool
    underlined: bool


def rows_of(data: bytes, *, columns: int, rows: int) -> list[list[Char]]:
    """Return all rows a program wrote, those that scrolled away included, without blank ones below.

    Args:
        data: Everything it wrote, from the start.
        columns: The width of its terminal.
        rows: The height of its terminal.
    """
    screen = pyte.HistoryScreen(columns, rows, history=5_000, ratio=0.5)
    # The emulator knows no faint text; bright black is what that looks like.
    pyte.ByteStream(screen).feed(data.replace(b"\x1b[2m", b"\x1b[90m"))
    lines = [*screen.history.top, *(screen.buffer[y] for y in range(rows))]
    found = [[line[x] for x in range(columns)] for line in lines]
    while found and not "".join(cell.data for cell in found[-1]).strip():
        found.pop()
    return found


def svg(rows: Sequence[Sequence[Char]], *, columns: int, title: str) -> str:
    """Return a window with *rows* in it.

    Args:
        rows: Cells, a wide character in the first of its two.
        columns: The width of the window in cells.
        title: What stands in its bar, and what a screen reader says of the picture.
    """
    width = round(columns * CELL_WIDTH + 2 * _MARGIN)
    height = _BAR_HEIGHT + len(rows) * _ROW_HEIGHT + 2 * _MARGIN
    buttons = "".join(
        f'<circle cx="{22 + 20 * index}" cy="{_BAR_HEIGHT / 2:g}" r="6" fill="{color}"/>'
        for index, color in enumerate(_BUTTONS)
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
        f'<path d="M0 {_BAR_HEIGHT}V10a10 10 0 0 1 10-10H{width - 10}a10 10 0 0 1 10 10'
        f'V{_BAR_HEIGHT}z" fill="{_BAR}"/>{buttons}',
        f'<g font-family="{_FONTS}" font-size="{_FONT_SIZE}" xml:space="preserve">',
        f'<text x="{width / 2:g}" y="22" fill="{_COLORS["brightblack"]}" text-anchor="middle">'
        f"{escape(title)}</text>",
        *(rect for y, row in enumerate(rows) for rect in _grounds(row, y)),
        *(text for y, row in enumerate(rows) for text in _texts(row, y)),
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _grounds(row: Sequence[Char], y: int) -> Iterator[str]:
    """Yield a rectangle for each run of cells on a ground of its own."""
    top = _BAR_HEIGHT + _MARGIN + y * _ROW_HEIGHT
    for ground, run in groupby(enumerate(row), key=lambda cell: ground_of(cell[1])):
        cells = [at for at, _ in run]
        if ground:
            yield (
                f'<rect x="{_MARGIN + cells[0] * CELL_WIDTH:.1f}" y="{top}" fill="{ground}"'
                f' width="{len(cells) * CELL_WIDTH:.1f}" height="{_ROW_HEIGHT}"/>'
            )


def _texts(row: Sequence[Char], y: int) -> Iterator[str]:
    """Yield an element for each run of one look; its length keeps the columns under each other."""
    baseline = _BAR_HEIGHT + _MARGIN + y * _ROW_HEIGHT + _FONT_SIZE
    for look, run in groupby(enumerate(row), key=lambda cell: look_of(cell[1])):
        cells = list(run)
        text = "".join(cell.data for _, cell in cells)
        kept = text.rstrip()
        if not kept:
            continue
        blanks = len(kept) - len(kept.lstrip())
        first = cells[0][0] + blanks
        length = (len(cells) - blanks - (len(text) - len(kept))) * CELL_WIDTH
        style = "".join(
            words
            for words, is_set in (
                (' font-weight="bold"', look.bold),
                (' font-style="italic"', look.italic),
                (' text-decoration="underline"', look.underlined),
            )
            if is_set
        )
        yield (
            f'<text x="{_MARGIN + first * CELL_WIDTH:.1f}" y="{baseline}" fill="{look.color}"'
            f'{style} textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">'
            f"{escape(kept.lstrip(), quote=False)}</text>"
        )


def ground_of(cell: Char) -> str:
    """Return the colour behind a cell; "" for the paper."""
    ground = cell.fg if cell.reverse else cell.bg
    if ground == "default":
        return _INK if cell.reverse else ""
    return f"#{ground}" if _HEX.fullmatch(ground) else _COLORS.get(ground, "")


def look_of(cell: Char) -> Look:
    """Return the look of a cell's character."""
    color = cell.bg if cell.reverse else cell.fg
    plain = PAPER if cell.reverse else _INK
    named = plain if color == "default" else _COLORS.get(color, plain)
    return Look(
        f"#{color}" if _HEX.fullmatch(color) else named, cell.bold, cell.italics, cell.underscore
    )
