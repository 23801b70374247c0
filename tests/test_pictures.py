"""The README's pictures: drawn from a real session, and correctly."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.pictures import IMAGES, pictures
from docs.screen_svg import CELL_WIDTH, rows_of, svg

ROOT = Path(__file__).parents[1]
TEXT = "{http://www.w3.org/2000/svg}text"
VARIES = re.compile(
    r"\d+\.\d+ ?s|\$\d\.\d\d|[0-9.]+k|\d+%|bubblewrap|Landlock, .env readable|no sandbox"
    r"|kept in \S+(?: \S*\.toml)?"  # where the tests have their configuration
)


def texts(picture: str) -> list[ElementTree.Element]:
    """Return the runs of text, without the window's title."""
    return list(ElementTree.fromstring(picture).iter(TEXT))[1:]


def words(picture: str) -> str:
    """Return the readable text, without the parts that differ each time."""
    return VARIES.sub("n", " ".join(run.text or "" for run in texts(picture)))


def test_svg_text_has_the_style_and_position_of_its_cells() -> None:
    """Faint is grey; a wide character takes two cells; SVG's special characters are escaped."""
    data = "\x1b[1ma <b>\x1b[0m \x1b[2mdim\x1b[0m\r\n  日本 x\x1b[31m!\r\n".encode()

    drawn = texts(svg(rows_of(data, columns=20, rows=5), columns=20, title="t & t"))

    assert [run.text for run in drawn] == ["a <b>", "dim", "日本 x", "!"]
    assert [run.get("font-weight") for run in drawn] == ["bold", None, None, None]
    assert [float(str(run.get("textLength"))) / CELL_WIDTH for run in drawn] == pytest.approx(
        [5, 3, 6, 1], abs=0.02
    )
    starts = [float(str(run.get("x"))) / CELL_WIDTH for run in drawn]
    assert [start - starts[0] for start in starts] == pytest.approx([0, 6, 2, 8], abs=0.02)
    assert len({run.get("fill") for run in drawn}) == 3


def test_the_readme_begins_with_a_picture_of_the_program() -> None:
    """The picture exists, can be read, and shows the program's parts."""
    (path,) = re.findall(r'<img src="([^"]+)"', (ROOT / "README.md").read_text()[:2_000])
    shown = words((ROOT / path).read_text())

    assert "you> " in shown
    assert "✓" in shown
    assert "Edit" in shown
    assert "context" in shown


@pytest.mark.slow
def test_pictures_match_the_current_program() -> None:
    """`make pictures` redraws them; durations, prices and the sandbox are not compared."""
    drawn = dict(pictures())
    assert drawn
    for name, picture in drawn.items():
        assert words(picture) == words((IMAGES / name).read_text()), "run: make pictures"
