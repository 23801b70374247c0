"""Images and PDF files as blocks of a message: how they are recognised, their limits and costs.

An image that the API refuses makes every later request of the session fail. The title of a document
block says how many pages it has, for the model and for estimates.
"""

import base64
from typing import Final, NamedTuple

from agent_cli.contracts.options import require
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import counted, one_line
from agent_cli.system.loading import late_pattern

# The API's limits for one image: pixels of a side, and bytes before base64 encoding.
_SIDE_MAX: Final = 8_000
_BYTES_MAX: Final = 10 * 1024 * 1024 * 3 // 4
# Of all images in a request, in base64: the API accepts 32 MB, and the text needs some of it.
REQUEST_CHARS_MAX: Final = 24_000_000
# Start-of-frame markers; 0xC4, 0xC8 and 0xCC among them mean something else.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
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
_PAGES: Final = late_pattern(r" \((\d+) pages?\)$")


class ImageFacts(NamedTuple):
    """The media type of an image file, and its size in pixels and bytes."""

    media_type: str
    width: int
    height: int
    size: int

    @property
    def fault(self) -> str:
        """Why it is too large for the API, as a predicate; "" if it is not."""
        if max(self.width, self.height) <= _SIDE_MAX and self.size <= _BYTES_MAX:
            return ""
        return (
            f"is too large to be sent ({self.width}×{self.height} pixels, {self.size / 1e6:.1f} MB;"
            f" at most {_SIDE_MAX} pixels a side and {_BYTES_MAX / 1e6:.1f} MB)"
        )


def image_type(start: bytes) -> str | None:
    """Return the media type of an image by its first 12 bytes; None if the API does not take it."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_facts(data: bytes) -> ImageFacts:
    """Return the facts about an image file from *data*, its beginning.

    Raises:
        ValueError: It is not an image, or is damaged; the message is a predicate.
    """
    media_type = image_type(data)
    if media_type is None:
        raise ValueError("is not a PNG, JPEG, GIF or WebP image")
    width, height = _size_of(data, media_type)
    if not width or not height:
        raise ValueError("is damaged: it does not say how large the image is")
    return ImageFacts(media_type, width, height, len(data))


def whole_image_facts(data: bytes) -> ImageFacts:
    """Return the facts about the image file *data*, which may still be written or half copied.

    Raises:
        ValueError: As `image_facts`, and a PNG without its last chunk.
    """
    facts = image_facts(data)
    if facts.media_type == "image/png" and b"IEND" not in data:
        raise ValueError("is damaged: its end is missing")
    return facts


def image_file_block(data: bytes) -> Block:
    """Return the image file *data* as a content block of its real type.

    Raises:
        ValueError: The API would refuse it; the message is a predicate.
    """
    facts = whole_image_facts(data)
    if facts.fault:
        raise ValueError(facts.fault)
    return image_block(data, facts.media_type)


def _size_of(data: bytes, media_type: str) -> tuple[int, int]:
    """Return width and height from the file's header; zeros if they are missing."""
    match media_type:
        case "image/png":
            return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
        case "image/gif":
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "image/webp":
            return _webp_size(data)
        case _:
            return _jpeg_size(data)


def _webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height. Source: RFC 9649 sections 2.5 to 2.7, RFC 6386 section 9.1."""
    match data[12:16]:
        case b"VP8X":
            width, height = data[24:27], data[27:30]
            return 1 + int.from_bytes(width, "little"), 1 + int.from_bytes(height, "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case _:
            width, height = data[26:28], data[28:30]
            return (
                int.from_bytes(width, "little") & 0x3FFF,
                int.from_bytes(height, "little") & 0x3FFF,
            )


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Walk the segments to the first frame. Source: ITU-T T.81 annex B."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        # A fill byte before the marker is not a segment.
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def image_block(data: bytes, media_type: str) -> Block:
    """Return an image block of *data*, the bytes of a whole file of type *media_type*.

    Raises:
        AgentCliError: *data* is text, such as the path of the file, or something else.
    """
    require(data, bytes, bytearray, memoryview, what="the data of an image")
    require(media_type, str, what="the media type of an image")
    encoded = base64.b64encode(data).decode()
    source: Block = {"type": "base64", "media_type": media_type, "data": encoded}
    return {"type": "image", "source": source}


def image_chars(block: Block) -> int:
    """Return the length of the data of an image block; 0 for other blocks."""
    source = block.get("source")
    return len(str(source.get("data"))) if isinstance(source, dict) else 0


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
