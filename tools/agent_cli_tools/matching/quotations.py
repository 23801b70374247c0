"""Undo what models add to a quotation or do to it as a whole, in both old and new.

Each reading is accepted only if the rest has exactly one place in the file.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

AROUND = "blank lines around it"

_NUMBER = re.compile(r"[ \t]*(\d+)( ?)([:|→\t])")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(?:(.*)\n)?[ \t]*\1[ \t]*\n?", re.DOTALL)
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?:\\\\)*\\(?!\\)")


@dataclass(frozen=True, slots=True)
class Quotation:
    """A text to find and its replacement, with LF endings.

    Attributes:
        without: The additions removed or undone; empty for the text as given.
        in_lines: Whether it can only be whole lines, not a part of one.
    """

    old: str
    new: str
    without: tuple[str, ...] = ()
    in_lines: bool = False


_Way: TypeAlias = Callable[[Quotation], Iterator[Quotation]]


def quotations(old: str, new: str) -> Iterator[Quotation]:
    """Yield the possible readings of *old* and *new*, the least changed first."""
    plain = Quotation(old, new)
    seen = {(old, new)}
    ends = [plain]
    yield plain
    for way in (_fenced, _numbered, _escaped_html, _doubled_backslashes, _escaped, _surrounded):
        found = [one for end in ends for one in way(end) if one.old.strip()]
        if not found:
            continue
        for one in found:
            if (one.old, one.new) not in seen:
                seen.add((one.old, one.new))
                yield one
        if way is not _surrounded:
            ends += found


def _fenced(given: Quotation) -> Iterator[Quotation]:
    old, new = _FENCE.fullmatch(given.old), _FENCE.fullmatch(given.new)
    if old and new:
        # Fences enclose whole lines; empty fences enclose none, not even a blank one.
        texts = (f"{match[2]}\n" if match[2] else "" for match in (old, new))
        yield _without(given, "a code fence", *texts, in_lines=True)


def _numbered(given: Quotation) -> Iterator[Quotation]:
    old = _Numbers.of(given.old)
    if old is None or not old.is_run:
        return
    new = _Numbers.of(given.new)
    if new is None or new.mark != old.mark:
        # If only some lines are numbered, or in different ways, numbers cannot be told from text.
        if any(
            match[3] == old.mark for match in map(_NUMBER.match, given.new.split("\n")) if match
        ):
            return
        yield _without(given, "line numbers", old.text, given.new, in_lines=True)
        if old.is_spaced:
            yield _without(given, "line numbers", old.unspaced, given.new, in_lines=True)
        return
    yield _without(given, "line numbers", old.text, new.text, in_lines=True)
    if old.is_spaced and new.is_spaced:
        yield _without(given, "line numbers", old.unspaced, new.unspaced, in_lines=True)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A text whose lines all start with a number and the same mark."""

    numbers: tuple[int, ...]
    mark: str
    lines: tuple[str, ...]
    ending: str

    @classmethod
    def of(cls, text: str) -> "_Numbers | None":
        body = text.removesuffix("\n")
        matches = [_NUMBER.match(line) for line in body.split("\n")]
        found = [match for match in matches if match]
        if len(found) < len(matches) or len({match[3] for match in found}) > 1:
            return None
        return cls(
            tuple(int(match[1]) for match in found),
            found[0][3],
            tuple(match.string[match.end() :] for match in found),
            text[len(body) :],
        )

    @property
    def is_run(self) -> bool:
        return self.numbers == tuple(range(self.numbers[0], self.numbers[0] + len(self.numbers)))

    @property
    def is_spaced(self) -> bool:
        """Whether there is a blank between every mark and its line."""
        return self.mark != "\t" and all(line[:1] in {" ", ""} for line in self.lines)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + self.ending

    @property
    def unspaced(self) -> str:
        return "\n".join(line.removeprefix(" ") for line in self.lines) + self.ending


def _escaped_html(given: Quotation) -> Iterator[Quotation]:
    old = html.unescape(given.old)
    if old == given.old:
        return
    new = html.unescape(given.new)
    # A text with both escaped and bare characters may not be escaped as a whole.
    if new == given.new or not re.search("[<>]", _ENTITY.sub("", given.new)):
        yield _without(given, "HTML escapes", old, new)


def _doubled_backslashes(given: Quotation) -> Iterator[Quotation]:
    if "\\\\" not in given.old or any(map(_ODD_BACKSLASHES.search, (given.old, given.new))):
        return
    old, new = (text.replace("\\\\", "\\") for text in (given.old, given.new))
    yield _without(given, "doubled backslashes", old, new)


def _escaped(given: Quotation) -> Iterator[Quotation]:
    """Undo the JSON escapes of a text that was escaped twice."""
    if "\\" not in given.old:
        return
    try:
        old, new = (json.loads(f'"{text}"', strict=False) for text in (given.old, given.new))
    except ValueError:
        return
    if old != given.old:
        yield _without(given, "JSON escapes", old, new)


def _surrounded(given: Quotation) -> Iterator[Quotation]:
    """Remove one blank line around both; removing more would hide a missing line.

    If the numbers of blank lines at an end differ, it is unclear which ones surround the text.
    """
    texts = (given.old, given.new)
    if not all(len(text) > 1 and text[0] == text[-1] == "\n" for text in texts):
        return
    old, new = (text[1:-1] for text in texts)
    if given.new.strip():
        is_certain = _line_ends_around(given.old) == _line_ends_around(given.new)
    else:
        is_certain = not new and old[0] != "\n" and not old.endswith("\n\n")
    if is_certain:
        yield _without(given, AROUND, old, new, in_lines=True)


def _line_ends_around(text: str) -> tuple[int, int]:
    """Return the numbers of newlines at the start and at the end of *text*."""
    return len(text) - len(text.lstrip("\n")), len(text) - len(text.rstrip("\n"))


def _without(
    given: Quotation, what: str, old: str, new: str, *, in_lines: bool = False
) -> Quotation:
    return Quotation(old, new, (*given.without, what), given.in_lines or in_lines)
