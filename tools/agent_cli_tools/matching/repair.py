"""Repair the new lines of a misquoted edit to match the file."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from typing import Literal, TypeAlias

from agent_cli.contracts.wording import counted
from agent_cli.system.alignment import align
from agent_cli_tools.matching.document import Document
from agent_cli_tools.matching.frames import PLAIN, Line, Quoted, Unclear, split_line


def repaired(
    file: Document, first: int, old: Sequence[str], new: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return what replaces the lines of *file* from line *first* on, and the repairs made.

    Lines of *new* that *old* has as well stay as the file has them.

    Raises:
        Unclear: *old* does not stand there, or it is open what to write.
    """
    there = file.lines[first : first + len(old)]
    result, repairs = list(new), list[str]()
    if there == old:
        return result, repairs
    here, quoted, following = ([split_line(line) for line in lines] for lines in (there, old, new))
    blocks = align(old, new)
    changed = [i for block in blocks if block.kind != "equal" for i in range(*block[3:])]
    texts = [i for i in changed if not following[i].is_blank]
    indents, shift = reindented(file, first, quoted, following, texts)
    bodies = rewritten(
        "\n".join(line.body for line in here),
        "\n".join(line.body for line in quoted),
        "\n".join(following[i].body for i in texts),
        file.text,
    ).split("\n")
    lost = [len(a.trail) - len(b.trail) for a, b in zip(here, quoted, strict=True)]
    if min(lost) < 0:
        raise Unclear("old ends a line in blanks that are not there")
    for block in blocks:
        if block.kind == "replace" and any(lost[block.a_start : block.a_end]):
            raise Unclear("a line there ends in blanks that old has not")
        if block.kind == "equal":
            result[block.b_start : block.b_end] = there[block.a_start : block.a_end]
    blank = [following[i] for i in changed if following[i].is_blank]
    if blank and any(count and line.is_blank for count, line in zip(lost, quoted, strict=True)):
        raise Unclear("blank lines there hold blanks that old has not")
    if shift and any(line.trail for line in blank):
        raise Unclear("it is open whether new is to have a line of blanks only")
    for i, indent, body in zip(texts, indents, bodies, strict=False):
        result[i] = indent + body + following[i].trail
    if shift:
        repairs.append(f"indentation ({shift})")
    if any(lost):
        repairs.append("blanks at line ends")
    if any(a.body != b.body for a, b in zip(here, quoted, strict=True)):
        repairs.append("typographic characters")
    return result, repairs


# Typographic characters and their plain forms, composed and decomposed letters.
#
# Where quotation and file differ in them, unchanged text keeps the file's characters, and new text
# gets them only where that is certain.

_FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
_COMPARED_CHARS_MAX = 20_000


def rewritten(there: str, old: str, new: str, file_text: str) -> str:
    """Return *new* with the characters of the file.

    Args:
        there: Lines of the file without indentation and trailing blanks.
        old: The same lines as quoted.
        new: The replacement lines.
        file_text: The whole file, which shows the characters it uses.

    Raises:
        Unclear: The lines differ in other ways, or it is unknown how to write a new one.
    """
    if there == old:
        return new
    for form in _FORMS:
        if unicodedata.normalize(form, old) == there:
            return unicodedata.normalize(form, new)
    file_texts = _file_texts(there, old)
    if max(len(old), len(new)) > _COMPARED_CHARS_MAX:
        raise Unclear("the lines there have other typographic characters than old")
    known: dict[str, set[str]] = {}
    for character, written in zip(old, file_texts, strict=True):
        known.setdefault(character, set()).add(written)
    pieces: list[str] = []
    position = 0
    for a, b, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        pieces += [_inserted(character, known, file_text) for character in new[position:b]]
        pieces += file_texts[a : a + size]
        position = b + size
    return "".join(pieces)


def _file_texts(there: str, old: str) -> list[str]:
    """Return the text of *there* for each character of *old*."""
    plain = [PLAIN.get(character, character) for character in old]
    # Several plain characters may represent one character of the file.
    at = [
        (one, character if index == 0 else "")
        for character in there
        for index, one in enumerate(PLAIN.get(character, character))
    ]
    if "".join(plain) != "".join(one for one, _ in at):
        raise Unclear("the lines there differ in more than their typography", fits=False)
    file_texts: list[str] = []
    position = 0
    for piece in plain:
        file_texts.append("".join(text for _, text in at[position : position + len(piece)]))
        position += len(piece)
    return file_texts


def _inserted(character: str, known: dict[str, set[str]], file_text: str) -> str:
    """Return *character* of new text as the file writes it."""
    file_texts = known.get(character, {character})
    if character in PLAIN:
        if len(file_texts) == 1 and file_texts != {character}:
            return next(iter(file_texts))
        # Its kind was misquoted, and the file does not use it; quotes are of one kind.
        misquoted = (PLAIN[other] for other in known if other in PLAIN and known[other] != {other})
        kinds = {plain.replace("'", '"') for plain in misquoted} - {"-"}
        if character not in file_text and PLAIN[character].replace("'", '"') in kinds:
            return PLAIN[character]
    elif file_texts == {character}:
        return character
    raise Unclear(f"it is open whether new means {character} or another form of it")


# Find the shift between quoted and actual indentation, and apply it to new lines.
#
# `new` is indented either like the quotation `old`, so that it must be shifted as well, or like the
# file. It is shifted only if a line that both have shows which, and if all shifts that explain the
# quotation give the same result.

_TAB_WIDTHS = range(1, 9)
_TABBED = "spaces written as tabs"

_Shift: TypeAlias = tuple[str, Callable[[str], str | None]]
"""A name, and a function from quoted indentation to that of the file, if there is one."""

_Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Indentations: (in the file, quoted)."""


def reindented(
    file: Document,
    first: int,
    old: Sequence[Line],
    new: Sequence[Line],
    changed: Sequence[int],
) -> tuple[list[str], str]:
    """Return the indentations of the *changed* lines of *new* in the file, and the repair made.

    Args:
        file: The file, which has the lines *old* from line *first* on.

    Raises:
        Unclear: No shift explains the quotation, or it is open how to indent *new*.
    """
    there = [split_line(line) for line in file.lines[first : first + len(old)]]
    pairs = [(a.indent, b.indent) for a, b in zip(there, old, strict=True) if not a.is_blank]
    quoted = [new[i].indent for i in changed]
    if all(a == b for a, b in pairs):
        return quoted, ""
    found = list(_shifts(pairs))
    if not found:
        raise Unclear(_difference(pairs), fits=False)
    results = {tuple(map(apply, quoted)): (name, apply) for name, apply in found}
    if len(results) > 1 or any(None in result for result in results):
        raise Unclear(_difference(pairs) + ", which leaves the indentation of new open")
    ((result, (name, apply)),) = results.items()
    indents = [indent for indent in result if indent is not None]
    if indents == quoted:
        return quoted, name
    quotation = Quoted(there, old, new, file.unit_near(first), *file.around(first, len(old)))
    moved = [replace(line, indent=apply(line.indent) or "") for line in new]
    if not quotation.is_one_frame(moved):
        raise Unclear("new is not indented as old is, and old not as the lines there are")
    if (scaled := _scaled(pairs, new)) and quotation.may_be_scaled(scaled, moved):
        raise Unclear(_difference(pairs) + ", by a shift or by a factor")
    if name == _TABBED and any(line.body.count("`") % 2 for line in new):
        raise Unclear("spaces in a string of several lines may be meant as spaces")
    return indents, name


def _shifts(pairs: _Pairs) -> Iterator[_Shift]:
    """Yield the shifts that turn each quoted indentation into the file's."""
    there, quoted = pairs[0]
    if there.endswith(quoted):
        missing = there.removesuffix(quoted)
        if all(a == missing + b for a, b in pairs):
            yield f"{_counted(missing)} added to every line", missing.__add__
    elif quoted.endswith(there):
        extra = quoted.removesuffix(there)
        if all(b == extra + a for a, b in pairs):
            name = f"{_counted(extra)} removed from every line"
            yield name, partial(_removed, extra=extra)
    for width in _TAB_WIDTHS:
        if all(a == _spaced(b, width) for a, b in pairs):
            yield "tabs written as spaces", partial(_spaced, width=width)
        if all("\t" not in b and _spaced(a, width) == b for a, b in pairs):
            known = {b: a for a, b in pairs}
            yield _TABBED, partial(_tabbed, width=width, known=known)


def _removed(indent: str, extra: str) -> str | None:
    return indent.removeprefix(extra) if indent.startswith(extra) else None


def _spaced(indent: str, width: int) -> str:
    return indent.replace("\t", " " * width)


def _tabbed(indent: str, width: int, known: dict[str, str]) -> str | None:
    """Return *indent* in tabs, or in the file's mix of tabs and spaces."""
    if indent.strip(" "):
        return None
    return known.get(indent, "\t" * (len(indent) // width) + " " * (len(indent) % width))


def _scaled(pairs: _Pairs, new: Sequence[Line]) -> list[Line] | None:
    """Return *new* with its indentation multiplied, if a factor explains the quotation as well."""
    there, quoted = map(len, pairs[0])
    if not (there and quoted) or any(len(a) * quoted != len(b) * there for a, b in pairs):
        return None
    is_whole = not any(len(line.indent) * there % quoted for line in new)
    if "\t" in "".join(map("".join, pairs)) or not is_whole:
        return None
    return [replace(line, indent=" " * (len(line.indent) * there // quoted)) for line in new]


def _difference(pairs: _Pairs) -> str:
    there, quoted = next(pair for pair in pairs if pair[0] != pair[1])
    return f"a line there is indented by {_counted(there)}, in old by {_counted(quoted)}"


def _counted(indent: str) -> str:
    if not indent:
        return "nothing"
    kind = {" ": "space", "\t": "tab"}.get(indent[0], "blank")
    return counted(len(indent), "blank" if indent.strip(indent[0]) else kind)
