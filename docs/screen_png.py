"""A terminal's screen as a PNG picture, drawn with Pillow and a monospaced font of this machine."""

import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont
from pyte.screens import Char

from docs.screen_svg import PAPER, ground_of, look_of

_FONT: Final = "DejaVu Sans Mono"
_OTHER_FONT: Final = "DejaVu Sans"
_FONT_SIZE: Final = 15
_CELL: Final = (9, 19)
_MARGIN: Final = 14
# Enough for every colour of a screen with its softened edges; a third of the bytes.
_COLORS_MAX: Final = 128


def write_png(rows: Sequence[Sequence[Char]], columns: int, path: Path) -> None:
    """Write a picture of *rows*, each of *columns* cells, to *path*.

    Raises:
        SystemExit: The machine has no monospaced font.
    """
    width, height = _CELL
    size = (columns * width + 2 * _MARGIN, len(rows) * height + 2 * _MARGIN)
    picture = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(picture)
    for y, row in enumerate(rows):
        top = _MARGIN + y * height
        for x, cell in _visible(row):
            left = _MARGIN + x * width
            look = look_of(cell)
            if ground := ground_of(cell):
                draw.rectangle((left, top, left + width - 1, top + height - 1), fill=ground)
            draw.text(
                (left, top), cell.data, fill=look.color, font=_font_for(cell.data, bold=look.bold)
            )
            if look.underlined:
                draw.line((left, top + height - 3, left + width - 1, top + height - 3), look.color)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(_COLORS_MAX).save(path, optimize=True)


def _visible(row: Sequence[Char]) -> Iterator[tuple[int, Char]]:
    """Yield the cells with a character or a ground, and where each stands."""
    for x, cell in enumerate(row):
        if cell.data and (cell.data != " " or ground_of(cell) or cell.underscore):
            yield x, cell


@cache
def _font_for(character: str, *, bold: bool) -> ImageFont.FreeTypeFont:
    """Return a font that has *character*: the monospaced one, if it does."""
    font = _font(_FONT, bold=bold)
    is_missing = _drawn(font, character) == _drawn(font, "\uffff")
    return _font(_OTHER_FONT, bold=bold) if is_missing else font


def _drawn(font: ImageFont.FreeTypeFont, character: str) -> bytes:
    picture = Image.new("L", _CELL)
    ImageDraw.Draw(picture).text((0, 0), character, fill=255, font=font)
    return picture.tobytes()


@cache
def _font(name: str, *, bold: bool) -> ImageFont.FreeTypeFont:
    style = "Bold" if bold else "Book"
    wanted = f"{name}:style={style}"
    try:
        found = subprocess.run(
            ["fc-match", "--format=%{file}", wanted], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"no font: install fontconfig and {name}") from error
    return ImageFont.truetype(found.stdout, _FONT_SIZE)
