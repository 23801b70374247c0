"""Locate an edit in a text: exactly, or by known kinds of misquotation, but never by guessing.

An inexact edit must quote whole lines with exactly one place, for which it is certain what to
write.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.matching.alignment import common_start
from agent_cli_tools.matching.endings import flatten
from agent_cli_tools.matching.inside_indentation import inside_indentation
from agent_cli_tools.matching.lines import Unclear
from agent_cli_tools.matching.mismatches import (
    JOINS,
    LISTED_MAX,
    ambiguous,
    not_found,
    repaired_everywhere,
    unclear,
)
from agent_cli_tools.matching.quotations import AROUND, Quotation, quotations
from agent_cli_tools.matching.repair import Repaired, repaired
from agent_cli_tools.matching.source import Source, Span

_CANDIDATES_MAX = 64
_INDENT = re.compile(r"[ \t]*")
_MISSING = "old lacks a line that is there, and would fit another place if it were repaired"
_MISSING_AT_END = "old has a blank line around it that is there, but after more lines"
_LINE_END_KEPT = "the line end that new lacks"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace *old*, which must occur once, with *new*; `all` replaces every occurrence."""

    old: str
    new: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class EditPlaces:
    """The places of an edit in order, and the repairs it needed; none if it was exact."""

    spans: tuple[Span, ...]
    repairs: tuple[str, ...] = ()


class NoMatch(ToolError):
    """An edit has no place, or more than one; the message shows what the file has instead."""


class _NotThere(Exception):
    """The message for the model if no place is found."""


def locate(source: Source, edit: Edit) -> EditPlaces:
    """Return the places of *edit* in *source*.

    Raises:
        NoMatch: There is no place, or several without `all`, or it is unclear what to write.
    """
    if not edit.old:
        if source.original:
            raise NoMatch("old is empty. Give the text to replace, or use write for all of it.")
        return EditPlaces((Span(0, 0, edit.new),))
    if "\r\n" in edit.old and edit.old in source.original:
        found = _with_crlf(source, edit)
        if found:
            return found
    # A file of one line shows no ending, so those of new stay.
    new = flatten(edit.new) if "\n" in source.original else edit.new
    readings: list[EditPlaces] = []
    why = ""
    for quotation in quotations(flatten(edit.old), new):
        try:
            found = _read(source, quotation, everywhere=edit.all)
        except _NotThere as error:
            why = why or str(error)
        except NoMatch:
            # Without its surroundings a text may match in more places; an exact match would win.
            if not readings or quotation.old in source.text:
                raise
        else:
            if found and not found.repairs:
                return found
            readings += [found] if found else []
    if not readings:
        raise NoMatch(why or not_found(source.lines, flatten(edit.old)))
    return _only_reading(source, readings)


def _read(source: Source, quotation: Quotation, *, everywhere: bool) -> EditPlaces | None:
    given = Edit(quotation.old, quotation.new, everywhere)
    found = None if quotation.in_lines else _exact(source, given)
    found = found or _by_lines(source, given)
    if found and AROUND in quotation.without:
        first = source.original.count("\n", 0, found.spans[0].start)
        old, new = (text.removesuffix("\n").split("\n") for text in (quotation.old, quotation.new))
        if source.may_lack_line(first, old, new):
            raise _NotThere(unclear(source.lines, first, len(old), _MISSING_AT_END))
    return found and replace(found, repairs=(*quotation.without, *found.repairs))


def _only_reading(source: Source, readings: list[EditPlaces]) -> EditPlaces:
    """Return the reading with the fewest repairs, unless another has a different result."""
    fewest = min(readings, key=lambda found: len(found.repairs))
    others = [found for found in readings if found.repairs[:1] != fewest.repairs[:1]]
    changes = _changes(source, fewest)
    if any(_changes(source, other) != changes for other in others):
        first = source.original.count("\n", 0, fewest.spans[0].start)
        raise NoMatch(unclear(source.lines, first, 1, "old can be read in two ways"))
    return fewest


def _changes(source: Source, found: EditPlaces) -> list[tuple[int, str, str]]:
    """Return the changes, without unchanged text at both ends of each span."""
    changes: list[tuple[int, str, str]] = []
    for span in found.spans:
        before = source.original[span.start : span.end]
        head = common_start(before, span.new)
        tail = common_start(before[head:][::-1], span.new[head:][::-1])
        changes.append(
            (span.start + head, before[head : len(before) - tail], span.new[head:][: -tail or None])
        )
    return changes


def _with_crlf(source: Source, edit: Edit) -> EditPlaces | None:
    """Return the places of a text quoted with its CRLF endings."""
    starts = _places(source.original, edit)
    flat = Edit(flatten(edit.old), flatten(edit.new), edit.all)
    if flat.old == flat.new:
        # Only the endings change.
        return EditPlaces(tuple(Span(at, at + len(edit.old), edit.new) for at in starts))
    return _exact_at(source, flat, [source.flat.flat_offset(at) for at in starts])


def _exact(source: Source, edit: Edit) -> EditPlaces | None:
    # The model does not see line endings, so places that differ only in them are equivalent.
    return _exact_at(source, edit, _places(source.text, edit))


def _exact_at(source: Source, edit: Edit, starts: list[int]) -> EditPlaces | None:
    spans: list[Span] = []
    repairs: set[str] = set()
    for at, line_start, text_start in _in_lines(source.text, starts):
        if line_start < at < text_start and edit.old[0] in " \t":
            # A quotation with part of the indentation is of whole lines.
            return None
        span, repair = _exact_span(source, edit, at, line_start, text_start)
        spans.append(source.span(*span))
        repairs.add(repair)
    return EditPlaces(tuple(spans), tuple(sorted(repairs - {""}))) if spans else None


def _in_lines(text: str, starts: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield each place with the start of its line, and the start of that line's text."""
    line_start = searched = 0
    text_start = _text_start(text, 0)
    for at in starts:
        newline = text.rfind("\n", searched, at)
        if newline >= 0:
            line_start = newline + 1
            text_start = _text_start(text, line_start)
        searched = at
        yield at, line_start, text_start


def _text_start(text: str, line_start: int) -> int:
    match = _INDENT.match(text, line_start)
    assert match
    return match.end()


def _exact_span(
    source: Source, edit: Edit, at: int, line_start: int, text_start: int
) -> tuple[tuple[int, int, str], str]:
    """Return the flat span that an exact *edit* at *at* changes, and the repairs in it."""
    text, new, end, repair = source.text, edit.new, at + len(edit.old), ""
    starts_line = at <= text_start
    if edit.old.endswith("\n") and new and not new.endswith("\n") and edit.old.strip():
        if edit.old == f"{new}\n" and end == len(text):
            return (at, end, new), ""
        if starts_line and edit.old != f"{new}\n":
            new, repair = f"{new}\n", _LINE_END_KEPT
        elif starts_line or not edit.all:
            raise NoMatch(JOINS)
    if line_start < at <= text_start and edit.old.split("\n", 1)[0].strip():
        ends_line = edit.old.endswith("\n") or text[end : end + 1] in {"\n", ""}
        head, number = text[line_start:at], text.count("\n", 0, at)
        file = source.around(number, edit.old.removesuffix("\n").count("\n") + 1)
        try:
            lines = inside_indentation(head, edit.old, new, file, ends_line=ends_line)
        except Unclear as error:
            raise NoMatch(unclear(source.lines, number, 1, str(error))) from error
        if lines != head + new:
            return (line_start, end, lines), "indentation (that of the line it starts in)"
    return (at, end, new), repair


def _places(text: str, edit: Edit) -> list[int]:
    """Return the start offsets of `old`: all non-overlapping ones, or the only one."""
    starts: list[int] = []
    position = text.find(edit.old)
    while position >= 0 and (edit.all or len(starts) <= LISTED_MAX):
        starts.append(position)
        position = text.find(edit.old, position + (len(edit.old) if edit.all else 1))
    if len(starts) > 1 and not edit.all:
        raise NoMatch(ambiguous([text.count("\n", 0, start) + 1 for start in starts]))
    return starts


def _by_lines(source: Source, edit: Edit) -> EditPlaces | None:
    """Find whole lines that match except for misquotation."""
    old, new, repairs = edit.old, edit.new, tuple[str, ...]()
    deletes = old.endswith("\n") and not new
    if old.endswith("\n"):
        if new and not new.endswith("\n"):
            repairs = (_LINE_END_KEPT,)
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    if not old.strip():
        return None
    old_lines, new_lines = old.split("\n"), [] if deletes else new.split("\n")
    first, lines = _only_place(source, old_lines, new_lines, everywhere=edit.all) or (None, None)
    if first is None or lines is None:
        return None
    start = source.line_start(first)
    end = source.line_start(first + len(old_lines)) - (0 if deletes else 1)
    span = source.span(start, min(end, len(source.text)), "\n".join(lines.lines))
    return EditPlaces((span,), (*lines.repairs, *repairs))


def _only_place(
    source: Source, old: list[str], new: list[str], *, everywhere: bool
) -> tuple[int, Repaired] | None:
    """Return the first line of the only matching place, and the lines to write."""
    fitting: list[tuple[int, Repaired | Unclear]] = []
    others: list[tuple[int, Unclear]] = []
    candidates = source.find_loosely(old, _CANDIDATES_MAX)
    exact = [first for first in candidates if source.lines[first : first + len(old)] == old]
    for first in exact if len(exact) == 1 else candidates:
        there = source.lines[first : first + len(old)]
        try:
            fitting.append((first, repaired(there, old, new, source.around(first, len(old)))))
        except Unclear as error:
            (fitting if error.fits else others).append((first, error))
    if len(fitting) > 1 and everywhere:
        raise NoMatch(repaired_everywhere([first + 1 for first, _ in fitting]))
    if len(fitting) > 1:
        raise NoMatch(ambiguous([first + 1 for first, _ in fitting]))
    for first, outcome in [*fitting, *others]:
        if isinstance(outcome, Repaired):
            is_exact = all(map(_is_exact, source.lines[first:], old))
            if not is_exact and (nearly := source.find_nearly(old, first)) is not None:
                raise _NotThere(unclear(source.lines, nearly, len(old), _MISSING))
            return first, outcome
        raise _NotThere(unclear(source.lines, first, len(old), str(outcome)))
    return None


def _is_exact(there: str, quoted: str) -> bool:
    """Return whether a line was quoted exactly, except for blanks in a blank line."""
    return there == quoted or not quoted.strip()
