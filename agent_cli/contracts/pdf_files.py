"""PDF files as document blocks of a message: which ones are sent as such, and what they cost.

The title of a block says how many pages it has, for the model and for estimates.
"""

import base64
import re
from typing import Final

from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import counted, one_line

PDF_BYTES_MAX: Final = 50 * 1024 * 1024
"""The largest file that is read at all."""
# The API takes 100 pages with a small window, and reads each as text and as an image.
DOCUMENT_PAGES_MAX: Final = 20
DOCUMENT_BYTES_MAX: Final = 10 * 1024 * 1024
# Characters that a page of a document has on average at most; more is shown as text, in parts.
PAGE_CHARS_MAX: Final = 10_000
# The text of a page and its image.
USUAL_PAGE_TOKENS: Final = 3_000
PAGE_TOKENS_MAX: Final = 5_000 + PAGE_CHARS_MAX
_TITLE_CHARS_MAX: Final = 200
_PAGES: Final = re.compile(r" \((\d+) pages?\)$")


def is_pdf(start: bytes) -> bool:
    """Return whether a file that begins with *start* is a PDF."""
    return start.startswith(b"%PDF-")


def document_block(data: bytes, name: str, *, pages: int) -> Block:
    """Return the PDF file *data* of that many *pages* as a content block."""
    encoded = base64.b64encode(data).decode()
    source: Block = {"type": "base64", "media_type": "application/pdf", "data": encoded}
    title = f"{one_line(name, _TITLE_CHARS_MAX)} ({counted(pages, 'page')})"
    return {"type": "document", "source": source, "title": title}


def pages_of(block: Block) -> int:
    """Return the number of pages of a document block; 0 if its title does not say it."""
    found = _PAGES.search(str(block.get("title")))
    return int(found[1]) if found else 0


def without_document(block: Block, why: str) -> str:
    """Return the text that stands for a document block where *why* it was left out."""
    title = block.get("title")
    named = f"The document {title}" if isinstance(title, str) and title else "A document"
    return f"[{named} was left out here: {why}. read with pages shows the text of a PDF.]"
