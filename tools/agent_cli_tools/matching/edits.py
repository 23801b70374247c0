"""Apply several edits to one text, all of them or none.

It does not access files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent_cli_tools.matching.document import Document
from agent_cli_tools.matching.places import Edit, EditPlaces, NoMatch, locate

__all__ = ["Edit", "Edited", "NoMatch", "apply_edits"]


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, and the repairs each edit needed; none for an exact edit."""

    text: str
    repairs: tuple[tuple[str, ...], ...]


def apply_edits(text: str, edits: Sequence[Edit]) -> Edited:
    """Return *text* with all *edits* applied in order; each sees the results of earlier ones.

    Raises:
        NoMatch: One of them has no unique place; then none is applied.
    """
    document = Document.of(text)
    try:
        return _one_by_one(document, edits)
    except NoMatch:
        # Edits refer to the original file: an earlier edit may have added a copy of the text that a
        # later one looks for.
        if len(edits) > 1:
            try:
                return _at_once(document, edits)
            except NoMatch:
                pass
        raise


def _one_by_one(document: Document, edits: Sequence[Edit]) -> Edited:
    repairs: list[tuple[str, ...]] = []
    for number, edit in enumerate(edits, 1):
        found = _locate_numbered(document, edit, number, len(edits))
        document = document.replaced(found.spans)
        repairs.append(found.repairs)
    return Edited(document.original, tuple(repairs))


def _at_once(document: Document, edits: Sequence[Edit]) -> Edited:
    found = [_locate_numbered(document, edit, i, len(edits)) for i, edit in enumerate(edits, 1)]
    spans = sorted((span for one in found for span in one.spans), key=lambda span: span.start)
    for span, following in pairwise(spans):
        if following.start < span.end:
            line = document.line_number(following.start) + 1
            raise NoMatch(f"Two edits change the text at line {line}. Make one edit of them.")
    return Edited(document.replaced(spans).original, tuple(one.repairs for one in found))


def _locate_numbered(document: Document, edit: Edit, number: int, count: int) -> EditPlaces:
    try:
        return locate(document, edit)
    except NoMatch as error:
        if count == 1:
            raise
        raise NoMatch(f"Edit {number} of {count}: {error}\nNone of the edits was made.") from error
