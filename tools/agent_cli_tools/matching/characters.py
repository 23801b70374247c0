"""Typographic characters and their plain forms, composed and decomposed letters.

Where quotation and file differ in them, unchanged text keeps the file's characters, and new text
gets them only where that is certain.
"""

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from agent_cli_tools.matching.lines import PLAIN, Unclear

_FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
_COMPARED_CHARS_MAX = 20_000
_SPELLINGS = {"-": ("-", "--", "---")}

Places: TypeAlias = list[str]
"""For each character of a quoted text, the file's text for it."""


def rewritten(
    there: Sequence[str], old: Sequence[str], new: Sequence[str], file_text: str
) -> list[str]:
    """Return *new* with the characters of the file.

    Args:
        there: Lines of the file without indentation and trailing blanks.
        old: The same lines as quoted; they differ in characters only.
        new: The replacement lines.
        file_text: The whole file, which shows the characters it uses.

    Raises:
        Unclear: The lines differ in other ways, or it is unknown how to write a new one.
    """
    if list(there) == list(old):
        return list(new)
    for form in _FORMS:
        if all(
            unicodedata.normalize(form, line) == here for line, here in zip(old, there, strict=True)
        ):
            return [unicodedata.normalize(form, line) for line in new]
    places: Places = []
    for line, here in zip(old, there, strict=True):
        places += [*_places(line, here), "\n"]
    if not new:
        return []
    return _carried("\n".join([*old, ""]), places, "\n".join(new), file_text).split("\n")


def _places(quoted: str, there: str) -> Places:
    """Return the text of *there* for each character of *quoted*."""
    places: Places = []
    position = 0
    index = 0
    while index < len(quoted):
        rest = there[position:]
        length, found = _same(quoted[index:], rest)
        if not length:
            raise Unclear("the lines there differ in more than their typography", fits=False)
        # Several plain characters may represent one character of the file.
        places += [found, *[""] * (length - 1)]
        index, position = index + length, position + len(found)
    if position != len(there):
        raise Unclear("the lines there differ in more than their typography", fits=False)
    return places


def _same(quoted: str, there: str) -> tuple[int, str]:
    """Return the number of leading characters of *quoted*, and their text in *there*."""
    if not quoted or not there:
        return 0, ""
    if quoted[0] == there[0]:
        return 1, there[0]
    if quoted[0] in PLAIN:
        plain = PLAIN[quoted[0]]
        if PLAIN.get(there[0]) == plain:
            return 1, there[0]
        for spelling in _spellings(plain):
            if there.startswith(spelling):
                return 1, spelling
    if there[0] in PLAIN:
        for spelling in _spellings(PLAIN[there[0]]):
            if quoted.startswith(spelling):
                return len(spelling), there[0]
    return 0, ""


def _spellings(plain: str) -> Sequence[str]:
    """Return the spellings of *plain*, the longest first."""
    return sorted(_SPELLINGS.get(plain, (plain,)), key=len, reverse=True)


def _carried(old: str, places: Places, new: str, file_text: str) -> str:
    if len(old) > _COMPARED_CHARS_MAX or len(new) > _COMPARED_CHARS_MAX:
        matches = []
    else:
        matches = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    known: dict[str, set[str]] = {}
    for character, place in zip(old, places, strict=True):
        known.setdefault(character, set()).add(place)
    pieces: list[str] = []
    position = 0
    for match in matches:
        pieces += [_inserted(c, known, file_text) for c in new[position : match.b]]
        pieces += places[match.a : match.a + match.size]
        position = match.b + match.size
    pieces += [_inserted(c, known, file_text) for c in new[position:]]
    return "".join(pieces)


def _inserted(character: str, known: dict[str, set[str]], file_text: str) -> str:
    """Return *character* of new text as the file writes it."""
    places = known.get(character, {character})
    if character in PLAIN:
        if len(places) == 1 and places != {character}:
            return next(iter(places))
        is_alone = character not in file_text and len(_spellings(PLAIN[character])) == 1
        if is_alone and any(
            _are_one_kind(character, other) for other in known if known[other] != {other}
        ):
            return PLAIN[character]
    elif places == {character}:
        return character
    raise Unclear(f"it is open whether new means {character} or another form of it")


def _are_one_kind(typographic: str, other: str) -> bool:
    """Return whether both are typographic quotes, or dashes, or spaces, or dots."""
    plain = {PLAIN[typographic], PLAIN.get(other)}
    return len(plain) == 1 or plain == {"'", '"'}
