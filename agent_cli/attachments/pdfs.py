"""PDF files for the model: as a document where its API takes one, otherwise as the text of pages.

The file is a stranger's, so it is parsed in a process of its own; see pdf_process.py.
"""

import asyncio
import base64
import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.media_files import (
    DOCUMENT_BYTES_MAX,
    DOCUMENT_PAGES_MAX,
    PAGE_CHARS_MAX,
    PDF_BYTES_MAX,
    document_block,
)
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import counted
from agent_cli.system.asked_program import TooMuchOutput, ask_program

_LIMIT_S: Final = 30.0
_PROGRAM: Final = Path(__file__).with_name("pdf_process.py")
_RANGE: Final = re.compile(r"(\d{1,6})(?:\s*([-–])\s*(\d{1,6})?)?")
_FAULTS: Final = {
    "password": "it needs a password; decrypt a copy first, for example with qpdf --decrypt",
    "limit": "it holds more than is read of one file; split a copy, for example with qpdf",
    "memory": "reading it takes more than 1 GB of memory; split a copy, for example with qpdf",
}
_NO_TEXT: Final = (
    "no text, only images (it may be a scan); make text in a copy, for example with ocrmypdf"
)


class PdfContent(NamedTuple):
    """The content of a PDF for the model: a document, or a text.

    Attributes:
        measure: "3 pages", "pages 3–7 of 12 as text".
        following: The pages to ask for next, "8-"; "" behind the last one asked for.
    """

    measure: str
    text: str = ""
    document: Block | None = None
    following: str = ""


async def pdf_content(
    data: bytes, name: str, *, pages: str = "", documents: bool, chars_max: int
) -> PdfContent:
    """Return the part of the PDF file *data* that the model is shown.

    Args:
        name: Its name for the model.
        pages: A page, "3", or a range, "3-7" or "3-"; "" for the whole file.
        documents: Whether the API takes documents. A large file, and pages that have text, are
            shown as text nevertheless: that costs a third.
        chars_max: Characters of text, in whole pages.

    Raises:
        UsageError: It cannot be shown; the message is a clause that says why.
    """
    first, last = _range(pages)
    found = await _ask(data, "text", first, last, chars_max)
    total, texts = int(found["pages"]), list(map(str, found["texts"]))
    if not texts:
        has = f"it has {counted(total, 'page')}" if total else "it has no pages"
        raise UsageError(f"{has}, so there is no page {first}" if total else has)
    end = min(last or total, total)
    if documents and not (pages and any(texts)):
        must_copy = bool(pages or found["was_encrypted"])
        if block := await _document(data, name, first, end, texts, must_copy=must_copy):
            shown = counted(total, "page") if not pages else _pages(first, end, total)
            return PdfContent(shown, document=block)
    shown_to = first + len(texts) - 1
    if not any(texts):
        raise UsageError(f"{_pages(first, shown_to, total)} hold {_NO_TEXT}")
    text = "\n".join(f"[page {at}]\n{text}" for at, text in enumerate(texts, first))
    following = f"{shown_to + 1}-{last if last and last <= total else ''}"
    return PdfContent(
        f"{_pages(first, shown_to, total)} as text",
        text,
        following=following if shown_to < end else "",
    )


async def _document(
    data: bytes, name: str, first: int, last: int, texts: list[str], *, must_copy: bool
) -> Block | None:
    """Return the pages *first* to *last* as a document; None if it would be too large."""
    count = last - first + 1
    if count > DOCUMENT_PAGES_MAX or sum(map(len, texts)) > count * PAGE_CHARS_MAX:
        return None
    if must_copy:
        copied = await _ask(data, "copy", first, last, DOCUMENT_PAGES_MAX)
        data = base64.b64decode(str(copied["copy"]))
    if len(data) > DOCUMENT_BYTES_MAX:
        return None
    return document_block(data, name, pages=count)


async def _ask(data: bytes, task: str, first: int, last: int, limit: int) -> dict[str, Any]:
    """Return the answer of the process of its own.

    Raises:
        UsageError: It has none.
    """
    if len(data) > PDF_BYTES_MAX:
        raise UsageError("it is larger than 50 MB; split a copy, for example with qpdf")
    # Not -I, which knows no packages that pip installed for the user alone.
    command = [sys.executable, "-P", str(_PROGRAM), task, str(first), str(last), str(limit)]
    try:
        async with asyncio.timeout(_LIMIT_S):
            ran = await ask_program(
                command,
                data,
                environment={},
                workspace=_PROGRAM.parent,
                output_bytes_max=2 * DOCUMENT_BYTES_MAX,
            )
    except TimeoutError:
        raise UsageError(_too_slow()) from None
    except (OSError, TooMuchOutput) as error:
        raise UsageError(f"it cannot be read: {str(error) or 'it is too large'}") from error
    try:
        answer: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        raise UsageError(_too_slow()) from None  # a limit has ended the process
    if fault := answer.get("fault"):
        damage = f"it is damaged ({answer.get('reason')})"
        raise UsageError(_FAULTS.get(str(fault), damage))
    return answer


def _too_slow() -> str:
    return f"reading it takes more than {_LIMIT_S:.0f} s; ask for fewer pages"


def _range(pages: str) -> tuple[int, int]:
    """Return the first and the last page of *pages*; 0 for the last of the file."""
    if not pages:
        return 1, 0
    found = _RANGE.fullmatch(pages.strip())
    first = int(found[1]) if found else 0
    last = int(found[3] or 0) if found and found[2] else first
    if not found or not first or (last and last < first):
        raise UsageError(f'pages are "3", "3-7" or "3-", not "{pages[:40]}"')
    return first, last


def _pages(first: int, last: int, total: int) -> str:
    named = f"page {first}" if first == last else f"pages {first}–{last}"
    return f"{named} of {total:,}"
