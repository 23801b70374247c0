"""Make PDF files for tests."""

import io
from collections.abc import Sequence

from pypdf import PdfReader, PdfWriter

SCANNED = ""
"""A page without text."""


def pdf_file(pages: Sequence[str]) -> bytes:
    """Return a PDF with a page for each text, line by line; one without characters has no text."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for at, text in enumerate(pages):
        lines = "".join(f"({line}) Tj T* " for line in text.split("\n"))
        drawn = f"BT /F1 12 Tf 14 TL 50 800 Td {lines}ET" if text else "0 0 m 9 9 l S"
        objects += [
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>"
            f"/Contents {5 + 2 * at} 0 R>>",
            f"<</Length {len(drawn)}>>\nstream\n{drawn}\nendstream",
        ]
    return assembled(objects)


def assembled(objects: Sequence[str]) -> bytes:
    """Return a PDF file of *objects*, of which the first is the catalogue."""
    written, offsets = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        written
        + f"xref\n0 {size}\n0000000000 65535 f \n{table}".encode()
        + f"trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{len(written)}\n%%EOF\n".encode()
    )


def encrypted(data: bytes, password: str) -> bytes:
    """Return *data* encrypted; with the password "" any program may open it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()
