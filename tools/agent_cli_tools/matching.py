"""Where an edit belongs in a text: exactly, or as models misquote it, but never by guessing.

Each tier forgives one habit: blanks at line ends, a shifted indentation, typographic quotes,
line numbers copied along. A tier must find exactly one place, and only that place changes; a text
that differs in a word is not found. Knows nothing of files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.endings import FlatText, flatten, with_endings_of
from agent_cli_tools.mismatches import LISTED_MAX, ambiguous, not_found
from agent_cli_tools.tiers import TIERS, repaired, windows

_NUMBERED = re.compile(r"^[ \t]*(\d+)(?:\t|→)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace *old*, which must occur once, by *new*; `all` replaces every occurrence."""

    old: str
    new: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` becomes *new*."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Found:
    """Where an edit applies, in order, and the tier that found it; "exact" needs no mention."""

    spans: tuple[Span, ...]
    tier: str = "exact"


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, and the tier of each edit that was applied."""

    text: str
    tiers: tuple[str, ...]


class NoMatch(ToolError):
    """An edit has no place, or more than one; the text says what is there instead."""


def apply_edits(text: str, edits: Sequence[Edit]) -> Edited:
    """Return *text* with all *edits* made, in order; each sees what the earlier ones wrote.

    Raises:
        NoMatch: One of them has no place of its own; then none is made.
    """
    try:
        return _one_by_one(text, edits)
    except NoMatch:
        # Written with the file of before in mind: an earlier edit may have added a copy of what
        # a later one looks for.
        try:
            return _at_once(text, edits)
        except NoMatch:
            pass
        raise


def _one_by_one(text: str, edits: Sequence[Edit]) -> Edited:
    tiers = []
    for number, edit in enumerate(edits, 1):
        found = _locate_numbered(text, edit, number, len(edits))
        text = _replaced(text, found.spans)
        tiers.append(found.tier)
    return Edited(text, tuple(tiers))


def _at_once(text: str, edits: Sequence[Edit]) -> Edited:
    found = [_locate_numbered(text, edit, i, len(edits)) for i, edit in enumerate(edits, 1)]
    spans = sorted((span for one in found for span in one.spans), key=lambda span: span.start)
    for span, following in pairwise(spans):
        if following.start < span.end:
            raise NoMatch("Two edits change the same text. Make one edit of them.")
    return Edited(_replaced(text, spans), tuple(one.tier for one in found))


def _locate_numbered(text: str, edit: Edit, number: int, count: int) -> Found:
    try:
        return locate(text, edit)
    except NoMatch as error:
        if count == 1:
            raise
        raise NoMatch(f"Edit {number} of {count}: {error} None of the edits was made.") from error


def _replaced(text: str, spans: Sequence[Span]) -> str:
    pieces, position = [], 0
    for span in spans:
        pieces += [text[position : span.start], span.new]
        position = span.end
    return "".join([*pieces, text[position:]])


def locate(text: str, edit: Edit) -> Found:
    """Return where *edit* applies in *text*.

    Raises:
        NoMatch: Nowhere, or in several places without `all`.
    """
    if not edit.old:
        if text:
            raise NoMatch("old is empty. Give the text to replace, or use write for all of it.")
        return Found((Span(0, 0, edit.new),))
    found = _exact(text, edit) or _by_lines(text, edit) or _without_numbers(text, edit)
    if found is None:
        raise NoMatch(not_found(text, edit.old))
    return found


def _exact(text: str, edit: Edit) -> Found | None:
    if "\r\n" in edit.old and edit.old in text:
        # Whoever writes CRLF and finds it means the endings too.
        starts = _places(text, edit)
        return _found([Span(start, start + len(edit.old), edit.new) for start in starts])
    # The model sees no line endings, so places that differ only there are equally good.
    flat = FlatText(text)
    edit = replace(edit, old=flatten(edit.old))
    spans = []
    for place in _places(flat.text, edit):
        start = flat.original_offset(place)
        end = flat.original_offset(place + len(edit.old))
        spans.append(Span(start, end, with_endings_of(text, start, end, edit.new)))
    return _found(spans)


def _found(spans: Sequence[Span]) -> Found | None:
    return Found(tuple(spans)) if spans else None


def _places(text: str, edit: Edit) -> list[int]:
    """Return where `old` starts: all places that do not overlap, or the only one."""
    starts: list[int] = []
    position = text.find(edit.old)
    while position >= 0 and (edit.all or len(starts) <= LISTED_MAX):
        starts.append(position)
        position = text.find(edit.old, position + (len(edit.old) if edit.all else 1))
    if len(starts) > 1 and not edit.all:
        raise NoMatch(ambiguous([text.count("\n", 0, start) + 1 for start in starts]))
    return starts


def _by_lines(text: str, edit: Edit) -> Found | None:
    """Find whole lines that are the same but for one habit."""
    old, new = flatten(edit.old), flatten(edit.new)
    if not old.strip():
        return None
    takes_last_ending = old.endswith("\n") and not new.endswith("\n")
    if old.endswith("\n"):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    flat = FlatText(text)
    lines, old_lines = flat.text.split("\n"), old.split("\n")
    for tier in TIERS:
        places = windows(lines, old_lines, tier)
        if len(places) > 1:
            raise NoMatch(ambiguous([place + 1 for place, _ in places]))
        for first, repair in places:
            there = lines[first : first + len(old_lines)]
            # Deleted lines leave no line behind, not even one that was blank before.
            new_lines = repaired(there, old_lines, new.split("\n"), repair) if new else [""]
            if new_lines is None:
                continue
            start = sum(len(line) + 1 for line in lines[:first])
            end = start + len("\n".join(there)) + takes_last_ending
            start = flat.original_offset(start)
            end = flat.original_offset(min(end, len(flat.text)))
            return Found(
                (Span(start, end, with_endings_of(text, start, end, "\n".join(new_lines))),),
                tier.name,
            )
    return None


def _without_numbers(text: str, edit: Edit) -> Found | None:
    """Find a text that was copied together with the line numbers `read` shows."""
    old = flatten(edit.old)
    numbers = [int(match[1]) for match in _NUMBERED.finditer(old)]
    lines = old.removesuffix("\n").split("\n")
    if len(numbers) != len(lines) or numbers != [*range(numbers[0], numbers[0] + len(lines))]:
        return None
    stripped = Edit(_NUMBERED.sub("", old), _NUMBERED.sub("", flatten(edit.new)), edit.all)
    if not stripped.old.strip():
        return None
    found = _exact(text, stripped) or _by_lines(text, stripped)
    return replace(found, tier="line numbers") if found else None
