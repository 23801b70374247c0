"""Notebooks, on real files: read by cell, one source edited, every other byte kept."""

import base64
import json
from io import BytesIO
from pathlib import Path
from random import randbytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.media_files import image_block
from agent_cli.contracts.timeline import Json
from agent_cli_tools import textio
from agent_cli_tools.notebook_outputs import IMAGES_BYTES_MAX
from agent_cli_tools.notebooks import notebook_in
from tests.tables import each_row
from tests.tools.calling import Tools
from tests.tools.test_edit import one
from tests.tools.test_read import PNG

IMAGE = base64.b64encode(PNG).decode()


def cell(source: Json, kind: str = "code", **members: Json) -> dict[str, Json]:
    given: dict[str, Json] = {"cell_type": kind, "metadata": {"tags": []}, **members}
    if kind == "code":
        given = {"execution_count": None, "outputs": [], **given}
    return {**given, "source": source}


def stream(text: Json) -> dict[str, Json]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def display(**data: Json) -> dict[str, Json]:
    """Return an output; `image_png` is the media type image/png."""
    named = {kind.replace("_", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "data": named}


def notebook(*cells: dict[str, Json], indent: int | None = 1, ascii_only: bool = False) -> str:
    """Return the file as Jupyter writes it, with an indentation of one."""
    content = {"cells": cells, "metadata": {"kernel": "python3"}, "nbformat": 4}
    return json.dumps(content, indent=indent, ensure_ascii=ascii_only) + "\n"


def sources(text: str) -> list[str]:
    return ["".join(each["source"]) for each in json.loads(text)["cells"]]


async def test_read_shows_cells_with_their_outputs_and_images(tools: Tools) -> None:
    figure = display(image_png=f"{IMAGE}\n", text_plain=["<Figure size 640x480>"])
    error: Json = {"output_type": "error", "ename": "E", "traceback": ["\x1b[31mE\x1b[0m: 1"]}
    unknown: Json = {"output_type": "error", "ename": "F", "evalue": "2"}
    printed = stream(["one\n", "two\n"])
    tools.file(
        "a.ipynb",
        notebook(
            cell(["# Café\n", "text"], "markdown", attachments={"a": {"image/svg+xml": "<svg/>"}}),
            cell("print(1)", outputs=[printed, figure, error, unknown, 1]),
            cell([]),
        ),
    )

    result = await tools("read", path="a.ipynb")

    assert result.text == (
        "1\t[cell 1: markdown]\n2\t# Café\n3\ttext\n"
        ">\t[image/svg+xml: not shown]\n"
        "4\t[cell 2: code]\n5\tprint(1)\n"
        ">\tone\n>\ttwo\n>\t[image 1 below: image/png, 28 bytes]\n>\tE: 1\n"
        ">\tF: 2\n"
        "6\t[cell 3: code]\n7\t\n"
        "[3 cells of a notebook, > marks outputs; edit changes sources as they"
        " stand here]"
    )
    assert result.content[1:] == (image_block(PNG, "image/png"),)
    part = await tools.text("read", path="a.ipynb", offset=2, limit=2)
    assert part.splitlines()[2:] == [
        ">\t[image/svg+xml: not shown]",
        "[lines 2–3 of 7; go on with offset=4; 3 cells of a notebook, > marks outputs; edit changes"
        " sources as they stand here]",
    ]


async def test_a_notebook_that_is_large_by_its_pictures_is_read_and_edited(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times the size up to which other text is edited, which here is a hundredth of its own."""
    assert textio._CHANGED_BYTES_MAX == 20_000_000
    monkeypatch.setattr(textio, "_CHANGED_BYTES_MAX", 200_000)
    plots: list[Json] = [display(image_png="iVBORw0KGgo" * 25_000) for _ in range(8)]
    text = notebook(cell("draw(1)", outputs=plots), cell("b = 2"))
    path = tools.file("large.ipynb", text)
    tools.file("large.txt", text)

    shown = await tools.text("read", path="large.ipynb", offset=3)
    await tools("edit", path="large.ipynb", edits=one("b = 2", "b = 3"))
    refused = await tools("edit", path="large.txt", edits=one("b = 2", "b = 3"))

    assert 2_000_000 < len(text) < textio._NOTEBOOK_BYTES_MAX == 100_000_000
    assert "[cell 2: code]" in shown
    assert path.read_text() == text.replace("b = 2", "b = 3")
    assert "more than the 200,000 this tool handles" in refused.text


async def test_outputs_are_bounded_and_keep_their_end(tools: Tools) -> None:
    """Progress is folded; of 20 images eight are shown, a damaged one is named."""
    long = "".join(f"line {n}\n" for n in range(9_000)) + "RuntimeError: at the end"
    progress = "".join(f"\r{n} %" for n in range(200)) + "\n"
    outputs: list[list[Json]] = [
        [stream(long)],
        [stream(progress)],
        [
            display(image_png="AAAA"),
            display(application_x={"a": 1}),
            *[display(image_png=IMAGE)] * 20,
        ],
    ]
    tools.file("a.ipynb", notebook(*(cell("x", outputs=each) for each in outputs)))

    result = await tools("read", path="a.ipynb")

    assert len(result.text) < 20_000
    assert "RuntimeError: at the end" in result.text
    assert "characters of output left out" in result.text
    assert "199 %" in result.text
    assert "198 %" not in result.text
    assert "[image/png: not shown: image/png is not a PNG, JPEG, GIF or WebP image]" in result.text
    assert "[application/x: not shown]" in result.text
    assert len(result.content) == 1 + 8
    assert "too many images" in result.text


async def test_image_of_many_bytes_is_shrunk_and_shown_beside_others(tools: Tools) -> None:
    """What counts is what is sent of it: read alone it would be no smaller."""
    picture = pytest.importorskip("PIL.Image")
    file = BytesIO()
    noise = randbytes(1_300 * 1_200 * 3)
    picture.frombytes("RGB", (1_300, 1_200), noise).save(file, "PNG", compress_level=0)
    large = base64.b64encode(file.getvalue()).decode()
    assert len(large) > IMAGES_BYTES_MAX
    figures: list[Json] = [display(image_png=large), display(image_png=IMAGE)]
    tools.file("a.ipynb", notebook(cell("plot()", outputs=figures)))

    result = await tools("read", path="a.ipynb")

    assert "[image 1 below: image/png, 4," in result.text
    assert "[image 2 below: image/png, 28 bytes]" in result.text
    assert "not shown" not in result.text
    assert len(result.content) == 1 + 2


@each_row("indent", [1, 4, None])
@each_row("ends", ["\n", "\r\n"])
@each_row("ascii_only", [False, True])
async def test_edit_of_one_source_keeps_every_other_byte(
    tools: Tools, indent: int | None, ends: str, *, ascii_only: bool
) -> None:
    """The result is what Jupyter would have written, in the file's own layout."""
    cells = [cell(["é\n", 'say("a")\n', "end"], outputs=[stream("say")]), cell([]), cell("one")]

    def written(*sources: Json) -> bytes:
        changed: list[dict[str, Json]] = [
            {**old, "source": new} for old, new in zip(cells, sources, strict=True)
        ]
        text = notebook(*changed, indent=indent, ascii_only=ascii_only)
        return text.replace("\n", ends).encode()

    path = tools.file("a.ipynb", written(["é\n", 'say("a")\n', "end"], [], "one"))

    result = await tools(
        "edit",
        path="a.ipynb",
        edits=[
            *one('say("a")', "say('ü')\nmore\t\\n"),
            *one("[cell 2: code]\n", "[cell 2: code]\nfilled\ntwice"),
            *one("one", 'two "2"\n'),
        ],
    )

    assert result.text == "a.ipynb: 3 edits, lines 3–12 changed (+6 −3)."
    assert path.read_bytes() == written(
        ["é\n", "say('ü')\n", "more\t\\n\n", "end"], ["filled\n", "twice"], 'two "2"\n'
    )
    assert "+twice" in str(result.details)


async def test_letters_are_escaped_only_where_the_file_escapes_letters(tools: Tools) -> None:
    """Neither an escape sequence nor a backslash before a u is an escaped letter."""
    outputs: list[Json] = [stream("\x1b[31m C:\\\\users \\user")]
    path = tools.file("a.ipynb", notebook(cell("old", outputs=outputs)))

    await tools.text("edit", path="a.ipynb", edits=one("old", "ü"))

    assert path.read_text() == notebook(cell("ü", outputs=outputs))


async def test_text_outside_the_cells_is_edited_as_json(tools: Tools) -> None:
    """Metadata can be changed, but the file stays a notebook."""
    path = tools.file("a.ipynb", notebook(cell("x")))

    await tools.text("edit", path="a.ipynb", edits=one('"kernel": "python3"', '"kernel": "r"'))
    error = await tools.error("edit", path="a.ipynb", edits=one('"nbformat": 4', '"nbformat": '))

    assert path.read_text() == notebook(cell("x")).replace("python3", "r")
    assert "would be no valid notebook" in error


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[cell 2: code]\n", "", "only show where a cell begins"),
        ("y = 1", "y = 1\n[cell 3: code]\nz", "only show where a cell begins"),
        ("x = 1", "x", "occurs 2 times (lines 2, 5)"),
        ("output", "x", "not found"),
    ],
)
async def test_edit_that_fits_no_single_source_changes_nothing(
    tools: Tools, old: str, new: str, words: str
) -> None:
    outputs: list[Json] = [stream("an output")]
    raw = notebook(cell("x = 1\n", outputs=outputs), cell(["x = 1\n", "y = 1"]))
    path = tools.file("a.ipynb", raw)

    assert words in await tools.error("edit", path="a.ipynb", edits=one(old, new))
    assert path.read_text() == raw


async def test_notebook_read_by_cell_can_be_replaced_and_repaired(tools: Tools) -> None:
    """Having read all cells counts as having read the file, also after it was run."""
    path = tools.file("a.ipynb", notebook(cell("if x:\n    y = 1")))
    assert "was not read in full" in await tools.error("write", path="a.ipynb", content="{}")

    await tools.text("read", path="a.ipynb")
    ran: list[Json] = [stream("1")]
    tools.file("a.ipynb", notebook(cell("if x:\n    y = 1", outputs=ran)))
    text = await tools.text(
        "edit",
        path="a.ipynb",
        edits=one("2\tif x:\n3\t    y = 1", "2\tif x:\n3\t    y = 2"),
    )
    assert "repaired" in text
    await tools.text("write", path="a.ipynb", content=notebook(cell("new")))

    assert sources(path.read_text()) == ["new"]


@each_row(
    "raw",
    [
        '{"cells": []}\n',
        '{"worksheets": [{"cells": []}]}',
        '{"cells": [{"cell_type": "code"}]}',
        '{"cells": [1]}',
        "[" * 100_000,
        "not json",
        notebook(cell("a\n[cell 2: code]\nb")),
        notebook(cell("a\r\nb\nc")),
        notebook(cell("\ud800"), ascii_only=True),
    ],
)
async def test_what_is_no_plain_notebook_is_shown_as_it_is(tools: Tools, raw: str) -> None:
    """Old formats, damaged files, and sources that could not be written back."""
    tools.file("a.ipynb", raw)

    text = await tools.text("read", path="a.ipynb")

    assert text.startswith(f"1\t{raw[:20].splitlines()[0]}")
    assert "of a notebook" not in text


LINES = st.text(st.sampled_from('ab"\\é\u2028\x0c\n\t '), max_size=12)


@given(st.lists(LINES, min_size=1, max_size=4), st.data())
def test_any_source_is_written_as_it_was_given(before: list[str], data: st.DataObject) -> None:
    """Whatever the form of the sources: a string, or a list of any pieces."""
    pieces: list[list[Json]] = [[text, [*text], [*text.splitlines(True)]] for text in before]
    forms = [data.draw(st.sampled_from(each)) for each in pieces]
    after = [data.draw(st.sampled_from([text, data.draw(LINES)])) for text in before]
    raw = notebook(*map(cell, forms), indent=data.draw(st.sampled_from([1, None])))
    book = notebook_in(Path("a.ipynb"), raw.encode())
    assert book is not None

    edited = "".join(f"[cell {n}: code]\n{text}\n" for n, text in enumerate(after, 1))

    assert sources(book.with_text(edited)) == after
    assert book.with_text(book.text) == raw
