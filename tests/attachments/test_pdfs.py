"""PDF files for the model: documents, text by pages, and what cannot be shown."""

import io
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from agent_cli.attachments import pdfs
from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.pdfs import PdfContent, pdf_content
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.media_files import DOCUMENT_PAGES_MAX, document_block, pages_of
from agent_cli.contracts.timeline import Block
from agent_cli.system.asked_program import ProgramAnswer, ask_program
from tests.forked import arguments_of
from tests.pdf_files import SCANNED, assembled, encrypted, pdf_file
from tests.tables import each_row

PAPER = pdf_file(["Introduction\nof the paper", "Method", "Results"])
CHARS_MAX = 10_000


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the process that reads a file: a new one takes a third of a second for its imports."""
    forked = arguments_of(str(pdfs._PROGRAM))  # here, as the server may take longer than a file may

    async def ask(command: Sequence[str], data: bytes, **options: Any) -> ProgramAnswer:
        program, _option, _script, *arguments = command
        return await ask_program([program, *forked, *arguments], data, **options)

    monkeypatch.setattr(pdfs, "ask_program", ask)


async def shown(
    data: bytes, *, pages: str = "", documents: bool = True, chars_max: int = CHARS_MAX
) -> PdfContent:
    return await pdf_content(data, "a.pdf", pages=pages, documents=documents, chars_max=chars_max)


async def refusal(data: bytes, *, pages: str = "", documents: bool = True) -> str:
    with pytest.raises(UsageError) as raised:
        await shown(data, pages=pages, documents=documents)
    return str(raised.value)


def pages_in(block: Block | None) -> list[str]:
    """Return the texts of the pages of a document."""
    assert block is not None
    source = block["source"]
    assert isinstance(source, dict)
    reader = PdfReader(io.BytesIO(b64decode(str(source["data"]))))
    assert not reader.is_encrypted
    return [page.extract_text().strip() for page in reader.pages]


async def test_a_short_file_is_a_document_as_it_is() -> None:
    """With its pages in the title, by which its tokens are estimated."""
    found = await shown(PAPER)

    assert found == PdfContent("3 pages", document=document_block(PAPER, "a.pdf", pages=3))
    assert found.document
    assert (found.document["title"], pages_of(found.document)) == ("a.pdf (3 pages)", 3)


async def test_an_api_without_documents_gets_the_text_of_the_pages() -> None:
    found = await shown(PAPER, documents=False)

    text = "[page 1]\nIntroduction\nof the paper\n[page 2]\nMethod\n[page 3]\nResults"
    assert found == PdfContent("pages 1–3 of 3 as text", text)


@each_row(
    ("pages", "text", "measure"),
    [
        ("2", "[page 2]\nMethod", "page 2 of 3 as text"),
        ("2-3", "[page 2]\nMethod\n[page 3]\nResults", "pages 2–3 of 3 as text"),
        ("2-", "[page 2]\nMethod\n[page 3]\nResults", "pages 2–3 of 3 as text"),
        ("3-99", "[page 3]\nResults", "page 3 of 3 as text"),
        (" 3 – 3 ", "[page 3]\nResults", "page 3 of 3 as text"),
    ],
)
async def test_pages_asked_for_are_text_for_every_api(pages: str, text: str, measure: str) -> None:
    """It costs a third of a document."""
    assert await shown(PAPER, pages=pages) == PdfContent(measure, text)


@each_row(("asked", "following"), [("", "2-"), ("1-3", "2-3"), ("1-9", "2-")])
async def test_pages_that_do_not_fit_are_named(asked: str, following: str) -> None:
    found = await shown(PAPER, pages=asked, documents=False, chars_max=30)

    assert (found.measure, found.following) == ("page 1 of 3 as text", following)


async def test_a_page_longer_than_the_limit_is_cut() -> None:
    found = await shown(pdf_file(["a" * 500]), documents=False, chars_max=30)

    assert found.text == f"[page 1]\n{'a' * 30}"


async def test_a_long_file_is_shown_as_text() -> None:
    """A document of so many pages would cost more than a person expects of one file."""
    found = await shown(pdf_file(["text"] * (DOCUMENT_PAGES_MAX + 1)))

    assert (found.document, found.measure) == (None, "pages 1–21 of 21 as text")


async def test_pages_without_text_are_a_document_of_these_pages() -> None:
    """A scanned book: only the pages asked for are sent."""
    found = await shown(pdf_file([SCANNED] * 30), pages="4-6")

    assert found.measure == "pages 4–6 of 30"
    assert pages_in(found.document) == ["", "", ""]


async def test_a_file_that_anybody_may_open_is_sent_without_its_encryption() -> None:
    """The API refuses it otherwise; many files are encrypted to forbid printing."""
    found = await shown(encrypted(PAPER, ""))

    assert pages_in(found.document)[1:] == ["Method", "Results"]
    assert found.document
    assert pages_of(found.document) == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encrypted(PAPER, "secret"), "it needs a password; decrypt a copy first"),
        (b"%PDF-1.7\n", "it is damaged ("),
        (PAPER[:300], "it is damaged ("),
        (b"%PDF-1.7\n" + bytes(range(256)) * 100, "it is damaged ("),
        (pdf_file([]), "it has no pages"),
    ],
    ids=["encrypted", "empty", "cut off", "noise", "no pages"],
)
async def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(
    data: bytes, reason: str
) -> None:
    assert (await refusal(data)).startswith(reason)


async def test_pages_that_are_too_large_together_are_refused_with_that_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdfs, "DOCUMENT_BYTES_MAX", 10)

    assert await refusal(PAPER) == "it cannot be read: it is too large"


async def test_scanned_pages_have_no_text_for_an_api_without_documents() -> None:
    said = await refusal(pdf_file([SCANNED] * 2), documents=False)

    assert said.startswith("pages 1–2 of 2 hold no text, only images (it may be a scan)")


@each_row("pages", ["0", "x", "5-2", "-3", "1,3", "9999999"])
async def test_pages_that_are_none_are_refused(pages: str) -> None:
    assert await refusal(PAPER, pages=pages) == f'pages are "3", "3-7" or "3-", not "{pages}"'


async def test_a_page_beyond_the_end_is_refused() -> None:
    assert await refusal(PAPER, pages="4-5") == "it has 3 pages, so there is no page 4"


def _bomb() -> bytes:
    """Return a PDF whose one page unpacks to 2 GB: one packed block, 350 times."""
    piece, checksum = b"0 0 m " * 1_000_000, 1
    for _ in range(350):
        checksum = zlib.adler32(piece, checksum)
    packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    # RFC 1950: a header, blocks, an empty last one, and the checksum of what is unpacked.
    packed = zlib.compress(b"\x78\x01" + block * 350 + b"\x03\x00" + checksum.to_bytes(4), 9)
    stream = f"<</Length {len(packed)}/Filter[/FlateDecode/FlateDecode]>>\nstream\n"
    return assembled(
        [
            "<</Type/Catalog/Pages 2 0 R>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
            f"{stream}{packed.decode('latin-1')}\nendstream",
        ]
    )


def _letters() -> bytes:
    """Return a PDF of 20 kB of which each of 60 pages draws the same 200,000 letters.

    A single page of as many is refused as damaged by pypdf, which counts.
    """
    packed = zlib.compress(b"BT /F1 9 Tf (a) Tj T* ET " * 200_000, 9)
    stream = f"<</Length {len(packed)}/Filter/FlateDecode>>\nstream\n"
    return assembled(
        [
            "<</Type/Catalog/Pages 2 0 R>>",
            f"<</Type/Pages/Kids[{'3 0 R ' * 60}]/Count 60>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F1 5 0 R"
            ">>>>>>",
            f"{stream}{packed.decode('latin-1')}\nendstream",
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ]
    )


HOSTILE: dict[str, Callable[[], bytes]] = {
    "unpacks": _bomb,
    "ring of pages": lambda: assembled(
        ["<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R 2 0 R]/Count 9>>"]
    ),
    "deep": lambda: assembled(["<</Type/Catalog/Pages 2 0 R>>", "[" * 500_000]),
    "many": lambda: assembled(
        [
            "<</Type/Catalog/Pages 2 0 R>>",
            f"<</Type/Pages/Kids[{'3 0 R ' * 200_000}]/Count 200000>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        ]
    ),
    "many letters": _letters,
}


async def test_a_file_with_more_than_is_read_is_not_called_damaged() -> None:
    """pypdf counts what it unpacks and how many pages there are."""
    said = await refusal(HOSTILE["many"]())

    assert said == "it holds more than is read of one file; split a copy, for example with qpdf"


@pytest.mark.parametrize(
    "kind",
    [
        *sorted({*HOSTILE} - {"many", "many letters"}),
        pytest.param("many letters", marks=pytest.mark.slow),
    ],
)
async def test_a_hostile_file_ends_within_bounds(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, which is limited in memory and time; this one stays small."""
    monkeypatch.setattr(pdfs, "ask_program", ask_program)  # a new process, as for a person
    data, begun = HOSTILE[kind](), time.monotonic()

    try:
        found = await shown(data)
    except UsageError as error:
        said = str(error)
    else:
        said = found.measure

    assert said
    assert "\n" not in said
    assert time.monotonic() - begun < pdfs._LIMIT_S + 10


async def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdfs, "_LIMIT_S", 0.001)

    assert (await refusal(PAPER)).startswith("reading it takes more than")


async def test_a_named_pdf_goes_with_the_message() -> None:
    """Its block precedes the text, and the user is told its pages."""
    Path("paper.pdf").write_bytes(PAPER)
    told: list[str] = []

    message = await Attachments(Path.cwd(), documents=True, tell=told.append).message(
        "sum up @paper.pdf"
    )

    assert message.content[0] == document_block(PAPER, "paper.pdf", pages=3)
    assert message.text == "sum up @paper.pdf"
    assert told == ["attached @paper.pdf: 3 pages"]


async def test_a_named_pdf_is_text_for_an_api_without_documents() -> None:
    Path("paper.pdf").write_bytes(PAPER)
    told: list[str] = []

    message = await Attachments(Path.cwd(), tell=told.append).message("sum up @paper.pdf")

    assert message.text.startswith(
        "[The user attached the file paper.pdf: pages 1–3 of 3 as text]\n[page 1]\nIntroduction\n"
    )
    assert told == ["attached @paper.pdf: pages 1–3 of 3 as text"]


async def test_a_named_pdf_that_may_not_or_cannot_be_read_is_not_attached() -> None:
    """The rules of every other file hold: the refusal comes before a byte is read."""
    Path("broken.pdf").write_bytes(b"%PDF-1.7\n")
    Path("kept.pdf").write_bytes(PAPER)
    Path("link.pdf").symlink_to("kept.pdf")
    told: list[str] = []

    message = await Attachments(
        Path.cwd(),
        documents=True,
        refusal=lambda path: "a rule forbids it" if path.name == "kept.pdf" else "",
        tell=told.append,
    ).message("@broken.pdf @kept.pdf @link.pdf")

    assert message.text == "@broken.pdf @kept.pdf @link.pdf"
    assert [block["type"] for block in message.content] == ["text"]
    assert told[0].startswith("@broken.pdf not attached: it is damaged (")
    assert told[1:] == [
        f"@{each} not attached: a rule forbids it" for each in ("kept.pdf", "link.pdf")
    ]
