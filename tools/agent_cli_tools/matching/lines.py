"""Split a line into three parts, and normalise it for loose search."""

import unicodedata

from agent_cli.system.records import dataclass

PLAIN = {
    **dict.fromkeys("‘’‚‛′ʼ", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f", " "),
    "…": "...",
}
"""Typographic characters and their plain equivalents."""

_BLANKS = " \t\r\v\f"
_PLAIN_TABLE = str.maketrans(PLAIN)


class Unclear(Exception):
    """An edit whose result is not certain; the message says why, as part of a sentence.

    Attributes:
        fits: Whether the quotation may still be of these lines.
    """

    def __init__(self, why: str, *, fits: bool = True) -> None:
        super().__init__(why)
        self.fits = fits


@dataclass(frozen=True, slots=True)
class Line:
    """A line as `indent + body + trail`; a blank line is all trail."""

    indent: str
    body: str
    trail: str

    @property
    def is_blank(self) -> bool:
        """Whether the line is blank."""
        return not self.body


def split_line(text: str) -> Line:
    """Split *text*, which has no line ending, into its parts."""
    body = text.strip(_BLANKS)
    if not body:
        return Line("", "", text)
    start = text.index(body[0])
    return Line(text[:start], body, text[start + len(body) :])


class LooseLines(dict[str, str]):
    """A normal form of lines that is equal for all misquotations of a line.

    The forms are kept, because most lines stay the same from edit to edit.
    """

    def __missing__(self, line: str) -> str:
        plain = line
        # A line of an ellipsis alone marks omitted lines.
        if not line.isascii() and line.strip() != "…":
            plain = unicodedata.normalize("NFC", line).translate(_PLAIN_TABLE)
        self[line] = key = " ".join(plain.split())
        return key
