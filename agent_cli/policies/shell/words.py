"""Words of a shell script whose text is all there is to them: nothing in them is expanded.

Two readings of a word live here. `literal_word` is strict and decides what may run without a
question: it reads the source itself, so that a mistake of the parser inside a word cannot matter.
`likely_word` is generous and serves the rules that forbid: what it cannot know is None.
"""

import re
import unicodedata
from dataclasses import dataclass

_SAFE_ASCII = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-^~*?[]"
)
_GLOB = frozenset("*?[")
_NAMES = {
    "\\": "a backslash",
    "$": "an expansion",
    "`": "a command substitution",
    "{": "a brace",
    "}": "a brace",
    "~": "a tilde",
    "!": "a history mark",
    "#": "a number sign",
}
_ESCAPE = re.compile(r'\\([$`"\\\n])')
_EXPANDED = re.compile(r'(?:[^$`"\\]|\\.)*', re.DOTALL)
_QUOTED = re.compile(r"'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
_PIECE = re.compile(rf"{_QUOTED.pattern}|\\(?P<escaped>.?)|(?P<plain>.)", re.DOTALL)
_EXPANDING = frozenset("*?[{$`")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the program will get it; with `glob`, a pattern of which names take the place."""

    text: str
    glob: bool = False


class NotLiteral(Exception):
    """A word means more than its text; the message names what makes it so."""


def literal_word(source: str) -> Word:
    """Return the word that *source* is, quotes taken away as bash does.

    Raises:
        NotLiteral: Bash would expand something in it, or might.
    """
    if source == "!":
        return Word(source)
    text, at, glob = "", 0, False
    while at < len(source):
        if source[at] in "'\"":
            quoted = _QUOTED.match(source, at)
            if quoted is None:
                raise NotLiteral("a quotation without an end")
            text += _quoted_text(quoted)
            at = quoted.end()
            continue
        _check_unquoted(source, at)
        glob = glob or source[at] in _GLOB
        text += source[at]
        at += 1
    if glob and text != source:
        raise NotLiteral("a pattern with quotes in it")
    return Word(text, glob)


def _check_unquoted(source: str, at: int) -> None:
    character = source[at]
    if character == "~":
        # Bash expands it at the beginning, behind a : and behind a =.
        known = at > 0 and (source[at - 1].isalnum() or source[at - 1] == "^")
    elif character == "^":
        known = at > 0
    elif character.isascii():
        known = character in _SAFE_ASCII
    else:
        known = character.isalnum()
    if not known:
        raise NotLiteral(_NAMES.get(character, f"the character {character!r}"))


def _quoted_text(quoted: re.Match[str]) -> str:
    if quoted["single"] is not None:
        return quoted["single"]
    text = quoted["double"]
    if not _EXPANDED.fullmatch(text):
        raise NotLiteral("an expansion in double quotes")
    return _unquoted(text)


def _unquoted(text: str) -> str:
    # Before anything else a backslash stays what it is: these five are bash's own.
    return _ESCAPE.sub(lambda found: found[1].replace("\n", ""), text)


def likely_word(source: str) -> str | None:
    """Return what *source* most likely becomes, backslashes read too; None when it may change."""
    text = ""
    for piece in _PIECE.finditer(source):
        if piece["single"] is not None:
            text += piece["single"]
        elif piece["double"] is not None:
            if not _EXPANDED.fullmatch(piece["double"]):
                return None
            text += _unquoted(piece["double"])
        elif piece["escaped"] is not None:
            text += piece["escaped"].replace("\n", "")
        elif piece["plain"] in _EXPANDING:
            return None
        else:
            text += piece["plain"]
    return text


def odd_character(script: str) -> str | None:
    """Return what a person could not see, or would misread, in *script*; None when all is plain.

    Control characters, marks that turn the direction of text, characters without a width and
    spaces that are none to the shell.
    """
    for character in script:
        if character in " \n\t" or "!" <= character <= "~":
            continue
        category = unicodedata.category(character)
        if category[0] in "CZ":
            return f"the character U+{ord(character):04X}"
    return None
