"""The tool read, on real files of every kind."""

import base64
import io
import os
from pathlib import Path

import pytest
from PIL import Image as Pillow

from agent_cli.contracts.media_files import document_block
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli_tools.excerpts import SCANNED_BYTES_MAX
from agent_cli_tools.read import PDF_CHARS_MAX, ReadParameters, read_tool
from tests.pdf_files import pdf_file
from tests.tables import each_row
from tests.tools.calling import Tools


def png(width: int, height: int) -> bytes:
    """Return the parts of a PNG file that are looked at: its size and its last chunk."""
    size = width.to_bytes(4) + height.to_bytes(4)
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"IEND"


PNG = png(2, 2)


async def test_read_numbers_and_counts_lines(tools: Tools) -> None:
    tools.file("a.txt", "one\n\nthree\n")

    result = await tools("read", path="a.txt")

    assert result.text == "1\tone\n2\t\n3\tthree"
    assert result.details == {"kind": "read", "path": "a.txt", "lines": 3, "total": 3}


@each_row(
    ("offset", "limit", "expected"),
    [
        (2, 2, "2\t2\n3\t3\n[lines 2–3 of 5; go on with offset=4]"),
        (4, 9, "4\t4\n5\t5\n[lines 4–5 of 5]"),
        (0, 1, "1\t1\n[lines 1–1 of 5; go on with offset=2]"),
        (-2, 9, "4\t4\n5\t5\n[lines 4–5 of 5]"),
        (-3, 1, "3\t3\n[lines 3–3 of 5; go on with offset=4]"),
        (-(10**30), 1, "1\t1\n[lines 1–1 of 5; go on with offset=2]"),
        (-9, 9, "1\t1\n2\t2\n3\t3\n4\t4\n5\t5"),
    ],
)
async def test_read_returns_a_part_counted_from_the_start_or_the_end(
    tools: Tools, offset: int, limit: int, expected: str
) -> None:
    tools.file("a", "1\n2\n3\n4\n5\n")

    assert await tools.text("read", path="a", offset=offset, limit=limit) == expected


async def test_read_beyond_the_end_names_the_number_of_lines(tools: Tools) -> None:
    tools.file("a", "1\n2\n")

    assert "has 2 lines" in await tools.error("read", path="a", offset=3)


@each_row(
    ("raw", "last_line"),
    [
        (b"", "[the file is empty]"),
        (b"a", "[no newline at the end]"),
        (b"a\r\nb\r\n", "[CRLF line endings]"),
        (b"a\r\nb\n", "[mixed line endings]"),
        (b"\xef\xbb\xbfa\n", "[UTF-8 with BOM]"),
        (b"caf\xe9\n", "[not UTF-8, shown as Latin-1]"),
        (
            "# 한국어 주석\n".encode("euc_kr"),
            "[neither UTF-8 nor Latin-1: all but ASCII is shown wrongly, and kept by edit;"
            " iconv -f ENCODING -t UTF-8 in bash shows it]",
        ),
        (
            "# 日本語\n".encode("iso2022_jp"),
            "[neither UTF-8 nor Latin-1: all but ASCII is shown wrongly, and kept by edit;"
            " iconv -f ENCODING -t UTF-8 in bash shows it]",
        ),
    ],
)
async def test_read_reports_unusual_encodings_and_line_endings(
    tools: Tools, raw: bytes, last_line: str
) -> None:
    tools.file("a", raw)

    text = await tools.text("read", path="a")

    assert text.splitlines()[-1] == last_line
    if raw.startswith(b"caf"):
        assert "café" in text


@each_row(
    ("rest", "last_line"),
    [
        (b"b\n" * 5_000, "[lines 1–1 of 5,001; go on with offset=2]"),
        (b"b\r\n" * 500_000, "[lines 1–1 of 500,001; go on with offset=2; mixed line endings]"),
        ("é".encode() * 700_000, "[lines 1–1 of 2; go on with offset=2]"),
        (b"b\xe9", "[lines 1–1 of 2; go on with offset=2; not UTF-8, shown as Latin-1]"),
        (b"\xe9\nb", "[lines 1–1 of 3; go on with offset=2; not UTF-8, shown as Latin-1]"),
    ],
)
async def test_read_counts_the_lines_after_the_part_shown(
    tools: Tools, rest: bytes, last_line: str
) -> None:
    """The rest is read in blocks, which may split a character or \\r from \\n."""
    tools.file("a", b"a\n" + rest)

    assert (await tools.text("read", path="a", limit=1)).splitlines()[-1] == last_line


async def test_read_returns_at_most_two_thousand_lines(tools: Tools) -> None:
    tools.file("a", "x\n" * 2_001)

    text = await tools.text("read", path="a", limit=5_000)

    assert text.endswith("[lines 1–2000 of 2,001; go on with offset=2001]")


async def test_read_returns_at_most_fifty_kilobytes(tools: Tools) -> None:
    tools.file("a", ("é" * 200 + "\n") * 500)

    text = await tools.text("read", path="a")

    count = text.count("\n")
    assert len(text.encode()) <= 50 * 1024
    assert 100 < count < 130
    assert text.endswith(f"[lines 1–{count} of 500; go on with offset={count + 1}]")


async def test_read_cuts_a_long_line_with_a_note(tools: Tools) -> None:
    tools.file("a", "é" * 3_000 + "\nshort\n")

    text = await tools.text("read", path="a")

    assert "é" * 2_000 + " [… line of 6,000 bytes cut]\n" in text
    assert "2\tshort" in text


async def test_read_skips_the_rest_of_a_giant_line(tools: Tools) -> None:
    tools.file("a", "x" * 30_000_000 + "\nend")

    text = await tools.text("read", path="a")

    assert "[… line of 30,000,000 bytes cut]\n2\tend\n" in text


async def test_read_stops_counting_lines_at_64_mb(tools: Tools) -> None:
    """A sparse file: the end consists of holes, which are never read."""
    path = tools.file("a", ("x" * 1023 + "\n") * 100)
    os.truncate(path, SCANNED_BYTES_MAX + 10_000_000)
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")

    start = await tools.text("read", path="a", limit=1)
    end = await tools.text("read", path="a", offset=-2)

    assert start.endswith("[lines 1–1 of more than 101 (64 MB looked at); go on with offset=2]")
    assert end == ("-2\tlast but one\n-1\tlast\n[lines -2 to -1, counted from the end]")


async def test_read_of_a_directory_lists_its_entries(tools: Tools) -> None:
    tools.file("src/b.py", "")
    tools.file("src/a/c.py", "")

    result = await tools("read", path="src")

    assert result.text == "a/\nb.py\n[2 entries]"
    assert result.details == {"kind": "directory", "path": "src", "entries": 2}


async def test_directory_with_a_looping_symlink_can_be_read(tools: Tools) -> None:
    """Threat 2: a repository may hold a link to itself."""
    (tools.root / "loop").symlink_to("loop")
    tools.file("a", "x")

    assert await tools.text("read", path=".") == "a\nloop\n[2 entries]"


async def test_listing_of_a_large_directory_is_truncated(tools: Tools) -> None:
    for number in range(2_010):
        tools.file(f"d/{number}", "")

    text = await tools.text("read", path="d")

    assert text.endswith("[2,010 entries; the first 2,000 are shown, use glob for others]")


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xc0\0\x11\x08\0\x02\0\x02\x03", "image/jpeg"),
        (b"GIF89a\x02\0\x02\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8L\0\0\0\0\x2f\x01\x40\0\0", "image/webp"),
    ],
)
async def test_read_returns_an_image_as_an_image_block(
    tools: Tools, start: bytes, media_type: str
) -> None:
    """The type is found by its bytes; names may be wrong."""
    tools.file("picture.txt", start)

    result = await tools("read", path="picture.txt")

    assert result.content[1] == {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": media_type,
            "data": base64.b64encode(start).decode(),
        },
    }
    assert media_type in result.text


async def test_an_image_that_is_too_large_is_refused(tools: Tools) -> None:
    """The API would refuse the whole request, and every one after it."""
    tools.file("a.png", PNG + b"\0" * 5 * 1024 * 1024)

    assert "more than 5 MB" in await tools.error("read", path="a.png")


async def test_an_image_the_api_would_refuse_is_refused(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tall screenshot and a damaged file: the session could not go on with them."""
    monkeypatch.setattr("agent_cli.attachments.images._can_shrink", lambda: False)
    tools.file("tall.png", png(1_000, 8_001))
    tools.file("damaged.png", PNG[:12])

    tall, damaged = [await tools.error("read", path=f"{name}.png") for name in ("tall", "damaged")]

    assert "too large to be sent (1000×8001 pixels" in tall
    assert "damaged.png is damaged" in damaged


async def test_a_large_image_is_shrunk_if_possible(tools: Tools) -> None:
    """A request with many images accepts none of more than 2,000 pixels a side."""
    buffer = io.BytesIO()
    Pillow.new("RGB", (3_000, 30), "navy").save(buffer, "PNG")
    tools.file("wide.png", buffer.getvalue())

    block = (await tools("read", path="wide.png")).content[1]

    source = block["source"]
    assert isinstance(source, dict)
    shrunk = Pillow.open(io.BytesIO(base64.b64decode(str(source["data"]))))
    assert shrunk.size == (2_000, 20)


@pytest.mark.parametrize("name", [b"\xe9t\xe9.txt", b"a\nb"])
async def test_a_name_as_a_search_shows_it_says_that_only_bash_can_use_it(
    tools: Tools, name: bytes
) -> None:
    """The error sent the model back to glob, which showed the same name again."""
    (tools.root / os.fsdecode(name)).write_text("x\n")
    shown = await tools.text("glob", pattern="*")

    assert await tools.error("read", path=shown) == (
        f"{shown} stands for a name with characters that no path may hold. Use bash, with a pattern"
        " that matches the name."
    )


@each_row(
    ("raw", "words"),
    [
        (b"PK\x03\x04\0", "unzip"),
        (b"\xff\xfea\0\0\0", "iconv"),
        (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
        (b"\xff\xfe\0\xdca\0", "iconv"),
        (b"\xff\xfea\0b", "iconv"),
        (b"\xff\xfea\0\0\xd8", "iconv"),
        (b"\x01\0\x02", "unknown type"),
    ],
)
async def test_a_binary_file_is_refused_with_a_hint(tools: Tools, raw: bytes, words: str) -> None:
    tools.file("a", raw)

    text = await tools.error("read", path="a")

    assert text.startswith(f"a is binary, not text: {len(raw)} bytes, ")
    assert words in text


async def test_a_pdf_is_shown_as_the_text_of_its_pages(tools: Tools) -> None:
    """For an API that takes no documents; the next pages are named."""
    tools.file("a.pdf", pdf_file(["one", "x" * (PDF_CHARS_MAX - 5), "three"]))

    whole = await tools("read", path="a.pdf")
    rest = await tools("read", path="a.pdf", pages="3-")

    assert whole.text.startswith("[page 1]\none\n[page 2]\nxxx")
    footer = "[pages 1–2 of 3 as text; go on with pages=3-; figures are not shown]"
    assert whole.text.splitlines()[-1] == footer
    assert rest.text == "[page 3]\nthree\n[page 3 of 3 as text; figures are not shown]"
    assert rest.details == {"kind": "pdf", "path": "a.pdf", "shown": "page 3 of 3 as text"}


async def test_a_pdf_is_a_document_for_an_api_that_takes_it(tools: Tools) -> None:
    data = pdf_file(["one", "two"])
    path = str(tools.file("a.pdf", data))
    tool = read_tool(tools.workspace, documents=True)

    result = await tool.execute(
        "t1", ReadParameters.model_validate({"path": path}), tools.cancel, ToolContext()
    )

    assert isinstance(result, ToolResult)
    assert result.content == (
        text_block("[a.pdf: 2 pages]"),
        document_block(data, "a.pdf", pages=2),
    )


async def test_a_pdf_that_cannot_be_shown_is_an_error_with_the_reason(tools: Tools) -> None:
    tools.file("a.pdf", b"%PDF-1.7\n")
    tools.file("b.txt", "text\n")

    assert "a.pdf cannot be shown: it is damaged (" in await tools.error("read", path="a.pdf")
    assert "pages is for PDF files" in await tools.error("read", path="b.txt", pages="1")


async def test_a_pdf_follows_the_rules_of_every_file(tools: Tools) -> None:
    """A secret's name, a link to one, another name of one, and a folder outside."""
    secret = tools.file(".env", pdf_file(["key"]))
    (tools.root / "link.pdf").symlink_to(".env")
    os.link(secret, tools.root / "other.pdf")

    for path in (".env", "link.pdf", "other.pdf"):
        assert "may hold secrets" in await tools.error("read", path=path), path
    assert "outside" in await tools.error("read", path="/proc/self/root/etc/passwd")


@pytest.mark.parametrize(
    ("name", "words"),
    [("b.txt", "Did you mean a.txt?"), (".env", "may hold secrets"), ("/etc/passwd", "outside")],
)
async def test_path_that_cannot_be_read_is_an_error_with_the_reason(
    tools: Tools, name: str, words: str
) -> None:
    """S1-24: tools never read `.env`."""
    tools.file("a.txt", "")
    tools.file(".env", "KEY=1")

    assert words in await tools.error("read", path=name)


async def test_reading_a_named_pipe_does_not_hang(tools: Tools) -> None:
    os.mkfifo(tools.root / "pipe")

    assert "not a regular file" in await tools.error("read", path="pipe")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
async def test_reading_a_file_of_100_mb_needs_little_memory(tools: Tools) -> None:
    path = tools.file("a", "")
    with path.open("wb") as file:
        for _ in range(100):
            file.write((b"y" * 99 + b"\n") * 10_000)
    before = _resident_kb()

    await tools.text("read", path="a", offset=-5)
    await tools.text("read", path="a", offset=600_000, limit=1)

    assert _resident_kb() - before < 30_000


def _resident_kb() -> int:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_utf_16_file_with_a_mark_is_read_edited_and_written_as_such(
    tools: Tools, encoding: str
) -> None:
    """Resource files of Windows are; both tools refused them."""
    path = tools.file("a.rc", "\ufeffeins\r\nzwei 漢 😀\r\n".encode(encoding))

    shown = await tools.text("read", path="a.rc")
    await tools("edit", path="a.rc", edits=[{"old": "zwei", "new": "two"}])
    edited = path.read_bytes().decode(encoding)
    await tools("write", path="a.rc", content="über\n")

    assert shown.splitlines() == [
        "1\teins",
        "2\tzwei 漢 😀",
        "[UTF-16, which edit and write keep; CRLF line endings]",
    ]
    assert edited == "\ufeffeins\r\ntwo 漢 😀\r\n"
    assert path.read_bytes() == "\ufeffüber\r\n".encode(encoding)
