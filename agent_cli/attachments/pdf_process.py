"""Read the PDF on stdin in a process of its own, which a hostile file can only fill or end.

    python -P pdf_process.py text FIRST LAST CHARS_MAX   prints the text of pages
    python -P pdf_process.py copy FIRST LAST PAGES_MAX   prints a PDF of these pages, in base64

The answer is one JSON object. FIRST counts from 1, LAST 0 means the last page. Memory and processor
time are limited before the first byte is parsed. It imports nothing of this program.
"""

import base64
import io
import json
import logging
import re
import resource
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pypdf import PdfReader

MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
PROCESSOR_S_MAX: Final = 20
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def main(arguments: list[str]) -> dict[str, Any]:  # Any: an object of JSON
    """Return the answer to *arguments*."""
    _limit_itself()
    logging.disable()
    try:
        return _answer(arguments[0], *map(int, arguments[1:]))
    except MemoryError:
        return {"fault": "memory"}
    except Exception as error:  # pypdf raises anything for a damaged file
        return {"fault": "damaged", "reason": f"{type(error).__name__}: {error}"[:200]}


def _answer(task: str, first: int, last: int, limit: int) -> dict[str, Any]:
    from pypdf import PdfReader  # under the limits
    from pypdf.errors import LimitReachedError

    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        was_encrypted = reader.is_encrypted
        if was_encrypted and not reader.decrypt(""):
            return {"fault": "password"}
        pages = len(reader.pages)
        shown = range(first - 1, min(last or pages, pages))
        answer = _texts(reader, shown, limit) if task == "text" else _copy(reader, shown, limit)
    except LimitReachedError:
        return {"fault": "limit"}
    return {"pages": pages, "was_encrypted": was_encrypted, **answer}


def _limit_itself() -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CPU, PROCESSOR_S_MAX),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # macOS limits no address space
            resource.setrlimit(kind, (limit, limit))


def _texts(reader: "PdfReader", shown: range, chars_max: int) -> dict[str, Any]:
    """Return the text of whole pages, at least of one, within *chars_max* characters."""
    texts: list[str] = []
    room = chars_max
    for number in shown:
        text = _CONTROLS.sub("", reader.pages[number].extract_text()).strip()
        text = text.encode(errors="replace").decode()
        if texts and len(text) > room:
            break
        texts.append(text[:chars_max])
        room -= len(text)
    return {"texts": texts}


def _copy(reader: "PdfReader", shown: range, pages_max: int) -> dict[str, Any]:
    from pypdf import PdfWriter  # rare

    writer = PdfWriter()
    for number in shown[:pages_max]:
        writer.add_page(reader.pages[number])
    written = io.BytesIO()
    writer.write(written)
    return {"copy": base64.b64encode(written.getvalue()).decode()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])))
