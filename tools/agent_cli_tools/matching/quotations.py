"""Undo additions and changes that models make to a whole quotation, in both old and new.

Each reading is accepted only if the rest has exactly one place in the file.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from agent_cli.system.records import dataclass

AROUND = "blank lines around it"

_NUMBER = re.compile(r"[ \t]*(\d{1,9})( ?[:|→\t])")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(?:(.*)\n)?[ \t]*\1[ \t]*\n?", re.DOTALL)
_BLANKS = re.compile(r"^[ \t]+$", re.MULTILINE)
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?:\\\\)*\\(?!\\)")
_TABS = re.compile(r"^(?:\\t|[ \t])+", re.MULTILINE)
_NO_QUOTES = re.compile(r"\"{3}|'{3}|(?<=\w)'(?=\w)")


@dataclass(frozen=True, slots=True)
class Quotation:
    """A text to find and its replacement, with LF endings."""

    old: str
    new: str
    without: tuple[str, ...] = ()
    """The additions removed or undone; empty for the text as it is."""
    in_lines: bool = False
    """Whether it can only be whole lines, not a part of one."""


_Texts: TypeAlias = Iterator[tuple[str, str]]
"""Readings of old and new."""


def quotations(old: str, new: str) -> Iterator[Quotation]:
    """Yield the possible readings of *old* and *new*, the least changed first."""
    found = [Quotation(old, new)]
    yield found[0]
    for what, undo, in_lines in _WAYS:
        for reading in tuple(found):
            for texts in undo(reading.old, reading.new):
                if texts[0].strip() and texts[0] != reading.old:
                    without = (*reading.without, what)
                    found.append(Quotation(*texts, without, reading.in_lines or in_lines))
                    yield found[-1]


def _fenced(old: str, new: str) -> _Texts:
    """Remove the fences; around an empty text they enclose no line, not even a blank one."""
    fences = _FENCE.fullmatch(old), _FENCE.fullmatch(new)
    inside = [match[2] or "" for match in fences if match]
    if len(inside) == len(fences):
        yield f"{inside[0]}\n", inside[1] and f"{inside[1]}\n"
        if inside[0].endswith("\n"):
            yield inside[0], inside[1]


def _numbered(old: str, new: str) -> _Texts:
    """Remove the numbers, if they follow each other on all lines of old."""
    texts = [_lines(old), _lines(new)]
    was, becomes = ([match for match in map(_NUMBER.match, lines) if match] for lines in texts)
    if len(was) < len(texts[0]) or len({match[2] for match in was}) > 1:
        return
    if any(int(b[1]) - int(a[1]) != 1 for a, b in pairwise(was)):
        return
    of_new = [match for match in becomes if match[2] == was[0][2]]
    if of_new and len(of_new) < len(texts[1]):
        # If only some lines are numbered, numbers cannot be told from text.
        return
    rest = [[match.string[match.end() :] for match in found] for found in (was, of_new)]
    ends = "\n" * old.endswith("\n"), "\n" * new.endswith("\n")
    for blank in ("", " ")[: 1 if was[0][2] == "\t" else 2]:
        if all(line.startswith(blank) or not line for lines in rest for line in lines):
            cut = ["\n".join(line.removeprefix(blank) for line in lines) for lines in rest]
            yield cut[0] + ends[0], cut[1] + ends[1] if of_new else new


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _trailing(old: str, new: str) -> _Texts:
    """Remove the blanks in which all lines of old end, and all lines of new or none."""
    texts = [line for line in _lines(old) if line.strip()]
    blanks = min((line[len(line.rstrip(" \t")) :] for line in texts), key=len, default="")
    has_new = any(line.endswith(blanks) for line in _lines(new))
    quoted = [*_lines(old), *(_lines(new) if has_new else [])]
    if not blanks or not all(line.endswith(blanks) for line in quoted if line.strip()):
        return
    alone = {line for line in quoted if not line.strip()}
    if alone == {blanks} or not any(line.endswith(blanks) for line in alone):
        # Here, a blank line ends in them only if all do.
        was, becomes = (
            "\n".join(line.removesuffix(blanks) for line in text.split("\n")) for text in (old, new)
        )
        yield was, becomes if has_new else new


def _filled(old: str, new: str) -> _Texts:
    """Empty the blank lines."""
    yield _BLANKS.sub("", old), _BLANKS.sub("", new)


def _escaped_html(old: str, new: str) -> _Texts:
    try:
        was, becomes = html.unescape(old), html.unescape(new)
    except ValueError:
        return  # a character's number has thousands of digits
    # A text with both escaped and bare characters may not be escaped as a whole.
    if becomes == new or not re.search("[<>]", _ENTITY.sub("", new)):
        yield was, becomes


def _doubled_backslashes(old: str, new: str) -> _Texts:
    if not any(map(_ODD_BACKSLASHES.search, (old, new))):
        yield old.replace("\\\\", "\\"), new.replace("\\\\", "\\")


def _escaped(old: str, new: str) -> _Texts:
    """Undo escapes of a JSON string: all, only escaped quotes, or only escaped line ends."""
    with suppress(ValueError):
        whole, instead = (json.loads(f'"{text}"') for text in (old, new))
        # Unless a quote shows that all of it was escaped, a line end may be one of a string.
        if '\\"' in new or not _breaks_string(instead, whole):
            yield whole, instead
    # If new has bare quotes as well, an escaped one may be one of a string.
    if '\\"' not in new or '"' not in new.replace('\\"', ""):
        yield old.replace('\\"', '"'), new.replace('\\"', '"')
    tabs = partial(_TABS.sub, lambda match: match[0].replace("\\t", "\t"))
    was, becomes = (tabs(text.replace("\\n", "\n")) for text in (old, new))
    if '\\"' not in old + new and not _breaks_string(becomes, was):
        yield was, becomes


def _breaks_string(new: str, old: str) -> bool:
    """Return whether some line that *new* has and *old* has not has a quote without its partner."""
    added = (_NO_QUOTES.sub("", line) for line in {*new.split("\n")} - {*old.split("\n")})
    return any(line.count(quote) % 2 for line in added for quote in "\"'`")


def _surrounded(old: str, new: str) -> _Texts:
    """Remove one blank line around both; removing more would hide a missing line.

    If the numbers of blank lines at an end differ, it is unclear which ones surround the text.
    """
    if all(len(text) > 1 and text[0] == text[-1] == "\n" for text in (old, new)):
        inside = old[1:-1], new[1:-1]
        if new.strip():
            ends = [(x.find(x.strip("\n")), x[::-1].find(x.strip("\n")[::-1])) for x in (old, new)]
            is_certain = ends[0] == ends[1]
        else:
            is_certain = not inside[1] and old[1] != "\n" and not old.endswith("\n\n\n")
        if is_certain:
            yield inside


_WAYS: Sequence[tuple[str, Callable[[str, str], _Texts], bool]] = (
    ("a code fence", _fenced, True),
    ("line numbers", _numbered, True),
    ("blanks at line ends", _trailing, True),
    ("blanks in blank lines", _filled, True),
    ("HTML escapes", _escaped_html, False),
    ("doubled backslashes", _doubled_backslashes, False),
    ("JSON escapes", _escaped, False),
    (AROUND, _surrounded, True),
)
"""What is undone, how, and whether the rest can only be whole lines, not a part of one."""
