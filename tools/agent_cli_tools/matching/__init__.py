"""Locate the edits of a model in a text, and apply all of them or none; pure.

A text that stands there exactly once is replaced literally, whatever its lines look like. Only
where it does not, `old` is interpreted: as whole lines with exactly one place, by known kinds of
misquotation, for which it is certain what to write. Nothing is guessed.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from agent_cli.contracts.errors import ToolError
from agent_cli.system.records import dataclass
from agent_cli_tools.matching.document import Document, Span, flatten
from agent_cli_tools.matching.frames import Unclear
from agent_cli_tools.matching.mismatches import LISTED_MAX, ambiguous, not_found, unclear
from agent_cli_tools.matching.quotations import AROUND, Quotation, quotations
from agent_cli_tools.matching.repair import repaired

_CANDIDATES_MAX = 64
_LACKING_MAX = 3
_MISSING = "old lacks a line that is there, and would fit another place if it were repaired"
_MISSING_AT_END = "old has a blank line around it that is there, but after more lines"
_JOINS = "old ends with a line end and new does not, which would join two lines"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace *old*, which must occur once, with *new*; `all` replaces every occurrence."""

    old: str
    new: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class LocatedEdit:
    """The places of an edit in order, and the repairs it needed; none if it was exact."""

    spans: tuple[Span, ...]
    repairs: tuple[str, ...] = ()


class NoMatch(ToolError):
    """An edit has no place, or more than one; the message shows what the file has instead."""


class Ambiguous(NoMatch):
    """A text stands in several places."""

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        super().__init__(ambiguous([text.count("\n", 0, start) + 1 for start in starts]))
        self.starts = starts


def locate(document: Document, edit: Edit) -> LocatedEdit:
    """Return the places of *edit* in *document*.

    Raises:
        NoMatch: There is no place, or several without `all`, or it is unclear what to write.
    """
    if not edit.old:
        if document.text:
            raise NoMatch("old is empty. Give the text to replace, or use write for all of it.")
        return LocatedEdit((Span(0, 0, edit.new, is_verbatim=True),))
    if "\r" in edit.old and (spans := _with_its_ends(document, edit)):
        return LocatedEdit(spans)
    if spans := _exact(document, edit):
        return LocatedEdit(spans)
    readings: list[LocatedEdit] = []
    why: NoMatch | None = None
    exact: list[tuple[str, ...]] = []
    for quotation in quotations(flatten(edit.old), flatten(edit.new)):
        # What stands there exactly is not interpreted further.
        if any(quotation.without[: len(each)] == each != quotation.without for each in exact):
            continue
        try:
            found = _read(document, quotation, everywhere=edit.all)
        except NoMatch as error:
            why = why or error
        else:
            readings += [found] if found else []
            exact += [quotation.without] if found and found.repairs == quotation.without else []
    # With its blank lines, old may stand where it is not clear what to write.
    if not readings or (why and AROUND in readings[0].repairs):
        raise why or NoMatch(not_found(document.lines, flatten(edit.old)))
    fewest = min(readings, key=lambda found: len(found.repairs))
    if len(readings) > 1 and len({document.replaced(each.spans).text for each in readings}) > 1:
        first = document.line_number(fewest.spans[0].start)
        raise NoMatch(unclear(document.lines, first, 1, "old can be read in two ways"))
    return fewest


def _with_its_ends(document: Document, edit: Edit) -> tuple[Span, ...]:
    """Return the spans of a text that was quoted with its CRLF, or with half of one."""
    text, spans = document.original, list[Span]()
    # If new has LF where old has CRLF, its ends are not meant, unless they are all that changes.
    has_ends = "\r\n" in edit.new or "\n" not in edit.new or edit.new == flatten(edit.old)
    is_verbatim = has_ends or "\r\n" not in edit.old
    for at in _starts(text, edit):
        start, end, new = at, at + len(edit.old), edit.new
        if start and text[start - 1 : start + 1] == "\r\n":
            start, new = start - 1, f"\r{new}"
        if text[end - 1 : end + 1] == "\r\n":
            end, new = end + 1, f"{new}\n"
        offsets = document.offsets(start, end)
        spans.append(Span(*offsets, new if is_verbatim else flatten(new), is_verbatim))
    return tuple(spans)


def _exact(document: Document, edit: Edit) -> tuple[Span, ...]:
    """Return the spans where a text stands, with any line ends."""
    flat = replace(edit, old=flatten(edit.old))

    def has_ends(at: int) -> bool:
        return flat.old == edit.old and document.has_only_lf(at, at + len(flat.old))

    try:
        starts = _starts(document.text, flat)
    except Ambiguous as error:
        # Of places that differ in their line ends only, one may be literally what was quoted.
        starts = list(filter(has_ends, error.starts))
        text = document.original
        if len(starts) != 1 or text.find(edit.old) != text.rfind(edit.old):
            raise
    is_verbatim = "\r\n" in edit.new and all(map(has_ends, starts[:1]))
    new = edit.new if is_verbatim else flatten(edit.new)
    return tuple(Span(at, at + len(flat.old), new, is_verbatim) for at in starts)


def _starts(text: str, edit: Edit) -> list[int]:
    """Return the start offsets of `old`: all that do not overlap, or the only one.

    Raises:
        Ambiguous: There are several, and not all are to be replaced.
    """
    starts: list[int] = []
    position = text.find(edit.old)
    while position >= 0 and (edit.all or len(starts) <= LISTED_MAX):
        starts.append(position)
        position = text.find(edit.old, position + (len(edit.old) if edit.all else 1))
    if len(starts) > 1 and not edit.all:
        raise Ambiguous(text, starts)
    return starts


def _read(document: Document, quotation: Quotation, *, everywhere: bool) -> LocatedEdit | None:
    edit = Edit(quotation.old, quotation.new, everywhere)
    spans = () if quotation.in_lines else _exact(document, edit)
    found = LocatedEdit(spans) if spans else _by_lines(document, edit)
    if not found or set(quotation.without) & set(found.repairs):
        return None  # for instance, blanks that stand there are none that were added
    if AROUND in quotation.without:
        first = document.line_number(found.spans[0].start)
        old, new = (text.removesuffix("\n").split("\n") for text in (quotation.old, quotation.new))
        if _may_lack_line(document.lines, first, old, new):
            raise NoMatch(unclear(document.lines, first, len(old), _MISSING_AT_END))
    return replace(found, repairs=(*quotation.without, *found.repairs))


def _may_lack_line(lines: Sequence[str], first: int, old: list[str], new: list[str]) -> bool:
    """Return whether lines next to *old*, quoted between blank lines, may have been omitted.

    If the file has one of the two, the other may be a blank line of the file a few lines further.
    If *new* ends like *old* there, nothing is omitted: these lines would be removed unseen.
    """
    stop = first + len(old)
    before = lines[max(0, first - 1 - _LACKING_MAX) : first][::-1]
    behind = lines[stop:-1][: 1 + _LACKING_MAX]
    was, becomes = ([line.strip() for line in text if line.strip()] for text in (old, new))
    return any(
        near[:1]
        and not near[0].strip()
        and "" in map(str.strip, far)
        and far[0].strip()
        and (not becomes or was[end] != becomes[end])
        for near, far, end in ((before, behind, -1), (behind, before, 0))
    )


def _by_lines(document: Document, edit: Edit) -> LocatedEdit | None:
    """Find whole lines that match except for misquotation."""
    old, new = edit.old, edit.new
    has_end, deletes = old.endswith("\n"), old.endswith("\n") and not new
    joins = has_end and not deletes and not new.endswith("\n")
    if has_end:
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    if not old.strip():
        return None
    old_lines, new_lines = old.split("\n"), [] if deletes else new.split("\n")
    match = _only_match(document, old_lines, new_lines, everywhere=edit.all)
    if match is None:
        return None
    first, lines, repairs = match
    stop = first + len(old_lines)
    start = first + sum(map(len, document.lines[:first]))
    end = start + sum(len(line) + 1 for line in document.lines[first:stop])
    if joins and end < len(document.text):
        raise NoMatch(unclear(document.lines, first, len(old_lines), _JOINS))
    end -= not (joins or deletes)
    span = Span(start, min(end, len(document.text)), "\n".join(lines))
    return LocatedEdit((span,), tuple(repairs))


def _only_match(
    document: Document, old: list[str], new: list[str], *, everywhere: bool
) -> tuple[int, list[str], list[str]] | None:
    """Return the first line of the only matching place, the lines to write, and the repairs."""
    found: list[tuple[int, list[str], list[str]]] = []
    unclear_ones: list[tuple[int, Unclear]] = []
    candidates = document.find_loosely(old, _CANDIDATES_MAX)
    exact = [first for first in candidates if document.lines[first : first + len(old)] == old]
    for first in exact if len(exact) == 1 and not everywhere else candidates:
        try:
            found.append((first, *repaired(document, first, old, new)))
        except Unclear as error:
            unclear_ones.append((first, error))
    fitting = [first for first, *_ in found] + [first for first, why in unclear_ones if why.fits]
    if len(fitting) > 1:
        raise NoMatch(ambiguous([first + 1 for first in fitting], nearly=everywhere))
    for first, _, repairs in found:
        nearly = _stands_nearly(document.lines, old, other_than=first) if repairs else None
        if nearly is not None:
            raise NoMatch(unclear(document.lines, nearly, len(old), _MISSING))
        return found[0]
    for first, why in sorted(unclear_ones, key=lambda one: not one[1].fits):
        raise NoMatch(unclear(document.lines, first, len(old), str(why)))
    return None


def _stands_nearly(lines: Sequence[str], old: Sequence[str], *, other_than: int) -> int | None:
    """Return a place where all of *old* stands exactly and in order, with few lines between."""
    texts = [line for line in old if line.strip()]
    if texts == [line for line in lines[other_than : other_than + len(old)] if line.strip()]:
        return None
    first = -1
    for _ in range(lines.count(texts[0])):
        first = lines.index(texts[0], first + 1)
        if abs(first - other_than) > len(old):
            rest = iter(lines[first : first + len(old) + _LACKING_MAX])
            if all(text in rest for text in texts):
                return first
    return None


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


def _locate_numbered(document: Document, edit: Edit, number: int, count: int) -> LocatedEdit:
    try:
        return locate(document, edit)
    except NoMatch as error:
        if count == 1:
            raise
        raise NoMatch(f"Edit {number} of {count}: {error}\nNone of the edits was made.") from error
