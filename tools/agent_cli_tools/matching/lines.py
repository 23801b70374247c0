"""A line in three parts, and the loose form in which a quoted line is looked for."""

import re
import unicodedata
from dataclasses import dataclass

PLAIN = {
    **dict.fromkeys("‘’‚‛′ʼ", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f", " "),
    "…": "...",
}
"""Typographic characters, and the plain text they stand for."""

_BLANKS = " \t\r\v\f"
_PLAIN_TABLE = str.maketrans(PLAIN)
_DASHES = re.compile("--+")


class Unclear(Exception):
    """The lines do not say what to write; the text says why, as part of a sentence.

    Attributes:
        fits: Whether the quoted lines can be the ones there all the same.
    """

    def __init__(self, why: str, *, fits: bool = True) -> None:
        super().__init__(why)
        self.fits = fits


@dataclass(frozen=True, slots=True)
class Line:
    """A line as `indent + body + trail`; a blank one is all trail."""

    indent: str
    body: str
    trail: str

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but blanks."""
        return not self.body

    def __str__(self) -> str:
        return self.indent + self.body + self.trail


def split_line(text: str) -> Line:
    """Return *text*, which has no line ending, in its parts."""
    body = text.strip(_BLANKS)
    if not body:
        return Line("", "", text)
    start = text.index(body[0])
    return Line(text[:start], body, text[start + len(body) :])


def loose(line: str) -> str:
    """Return what *line* has in common with every way of misquoting it."""
    if line.strip() == "…":  # for lines that were left out
        return "…"
    if not line.isascii():
        line = unicodedata.normalize("NFC", line).translate(_PLAIN_TABLE)
    key = " ".join(line.split())
    return _DASHES.sub("-", key) if "--" in key else key


class LooseLines(dict[str, str]):
    """`loose` of every line asked for, computed once: most lines stay from edit to edit."""

    def __missing__(self, line: str) -> str:
        self[line] = key = loose(line)
        return key
