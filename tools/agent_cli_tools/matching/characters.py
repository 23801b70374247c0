"""Typographic characters and their plain forms, composed and decomposed letters.

Where quotation and file differ in them, unchanged text keeps the file's characters, and new text
gets them only where that is certain.
"""

import unicodedata
from difflib import SequenceMatcher
from typing import Literal

from agent_cli_tools.matching.lines import PLAIN, Unclear

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
    places = _places(there, old)
    if max(len(old), len(new)) > _COMPARED_CHARS_MAX:
        raise Unclear("the lines there have other typographic characters than old")
    known: dict[str, set[str]] = {}
    for character, place in zip(old, places, strict=True):
        known.setdefault(character, set()).add(place)
    pieces: list[str] = []
    position = 0
    for a, b, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        pieces += [_inserted(character, known, file_text) for character in new[position:b]]
        pieces += places[a : a + size]
        position = b + size
    return "".join(pieces)


def _places(there: str, old: str) -> list[str]:
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
    places: list[str] = []
    position = 0
    for piece in plain:
        places.append("".join(text for _, text in at[position : position + len(piece)]))
        position += len(piece)
    return places


def _inserted(character: str, known: dict[str, set[str]], file_text: str) -> str:
    """Return *character* of new text as the file writes it."""
    places = known.get(character, {character})
    if character in PLAIN:
        if len(places) == 1 and places != {character}:
            return next(iter(places))
        # Its kind was misquoted, and the file does not use it; quotes are of one kind.
        misquoted = (PLAIN[other] for other in known if other in PLAIN and known[other] != {other})
        kinds = {plain.replace("'", '"') for plain in misquoted} - {"-"}
        if character not in file_text and PLAIN[character].replace("'", '"') in kinds:
            return PLAIN[character]
    elif places == {character}:
        return character
    raise Unclear(f"it is open whether new means {character} or another form of it")
