"""Decode the words of a shell script: strictly as literals, or generously as likely values.

`literal_word` is strict and decides what may run without approval: it reads the source itself, so
that an error of the parser inside a word does not matter. `likely_word` is generous and serves the
rules that deny: an unknown value is None.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import product
from types import MappingProxyType

from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

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
_ESCAPE = late_pattern(r'\\([$`"\\\n])')
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_VARIABLE = late_pattern(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*|[?#$]))", re.ASCII
)
# Variables that hold no secret; only the shell knows their values.
_HARMLESS_VARIABLES = frozenset(
    {
        *("?", "#", "$", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "LANG", "TERM"),
        *("HOSTNAME", "UID", "EUID", "SECONDS", "RANDOM", "LINENO", "BASH_VERSION", "OSTYPE"),
        *("VIRTUAL_ENV", "TMPDIR", "COLUMNS", "LINES", "HOME"),
    }
)
_ONE_WORD = late_pattern(r"[\w./+,:@%=-]+", re.ASCII)
# Inside double quotes, a dollar sign before any other character is literal: "end$".
_DOLLAR = late_pattern(r"\$(?![\w{(\[@*#?$!-])", re.ASCII)
_ESCAPED_WORDS = frozenset({"\\;", "\\(", "\\)", "\\!", "\\{", "\\}", "\\{\\}"})
_BRACES = late_pattern(r"\{([\w./+,:@%=*?-]*)\}", re.ASCII)
_WITH_BRACES = late_pattern(rf"(?:[\w./+,:@%=*?-]|{_BRACES.pattern})+", re.ASCII)
_RANGE = late_pattern(r"(-?[1-9]\d{0,3}|0)\.\.(-?[1-9]\d{0,3}|0)")
_EXPANSIONS_MAX = 100
_EXPANDED = late_pattern(r'(?:[^$`"\\]|\\.)*', re.DOTALL)
_QUOTED = late_pattern(r"'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
_PIECE = late_pattern(rf"{_QUOTED.pattern}|\\(?P<escaped>.?)|(?P<plain>.)", re.DOTALL)
_EXPANDING = frozenset("*?[{$`")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the program will receive it.

    Attributes:
        glob: It is a pattern, replaced by the names it matches.
        untold: It contains a value known only to the shell, such as $?; `text` is an example.
    """

    text: str
    glob: bool = False
    untold: bool = False


class NotLiteral(Exception):
    """A word is not literal; the message names the reason."""


class TooManyWords(NotLiteral):
    """The braces of a word stand for more words than are looked at."""

    def __init__(self) -> None:
        super().__init__("braces that stand for too many words")


def literal_words(
    source: str, variables: Mapping[str, str] = _NO_VARIABLES, *, words_max: int = _EXPANSIONS_MAX
) -> tuple[Word, ...]:
    """Return the words of *source*: one, or several if it has brace expansions.

    Raises:
        TooManyWords: They are more than *words_max*.
        NotLiteral: Bash would expand something else in it, or might.
    """
    if source in _ESCAPED_WORDS:
        return (Word(source.replace("\\", "")),)
    if source == "{}" or "{" not in source or not _WITH_BRACES.fullmatch(source):
        return (Word(source),) if source == "{}" else (literal_word(source, variables),)
    # Bash expands braces before anything else.
    words = [literal_word(each, braces=True) for each in _unbraced(source, words_max) if each]
    if len(words) > words_max:
        raise TooManyWords
    return tuple(words)


def _unbraced(source: str, words_max: int) -> Iterator[str]:
    """Yield the brace expansions of *source*."""
    pieces = [
        _alternatives(piece) if at % 2 else [piece]
        for at, piece in enumerate(_BRACES.split(source))
    ]
    if any(len(piece) > words_max for piece in pieces):
        raise TooManyWords
    for count, chosen in enumerate(product(*pieces)):
        if count > words_max:
            return
        yield "".join(chosen)


def _alternatives(inside: str) -> list[str]:
    if "," in inside:
        return inside.split(",")
    if found := _RANGE.fullmatch(inside):
        first, last = int(found[1]), int(found[2])
        step = 1 if last >= first else -1
        return [str(number) for number in range(first, last + step, step)]
    if ".." in inside:
        raise NotLiteral("a brace")
    return [f"{{{inside}}}"]  # Braces around a single item are literal: HEAD@{1}.


def literal_word(
    source: str, variables: Mapping[str, str] = _NO_VARIABLES, *, braces: bool = False
) -> Word:
    """Return the word of *source* with quotes removed as in bash.

    Args:
        variables: Variables with known values.
        braces: Remaining braces are literal.

    Raises:
        NotLiteral: Bash would expand something in it, or might.
    """
    if source == "!":
        return Word(source)
    text, at, glob, untold = "", 0, False, False
    while at < len(source):
        if source[at] in "'\"":
            quoted = _QUOTED.match(source, at)
            if quoted is None:
                raise NotLiteral("a quotation without an end")
            piece = _quoted(quoted, variables)
            text, untold, at = text + piece.text, untold or piece.untold, quoted.end()
            continue
        if found := _VARIABLE.match(source, at):
            piece = _value(found, variables, quoted=False)
            text, untold, at = text + piece.text, untold or piece.untold, found.end()
            continue
        if not (braces and source[at] in "{}"):
            _check_unquoted(source, at)
        glob = glob or source[at] in _GLOB
        text += source[at]
        at += 1
    if glob and (text != source or untold):
        raise NotLiteral("a pattern with quotes in it")
    return Word(text, glob, untold)


def _value(found: re.Match[str], variables: Mapping[str, str], *, quoted: bool) -> Word:
    """Return the value of the variable *found*."""
    name = found["braced"] or found["bare"]
    if (value := variables.get(name)) is not None:
        if quoted or _ONE_WORD.fullmatch(value):
            return Word(value)
        raise NotLiteral(f"${name} without quotes, which may become several words")
    if name in _HARMLESS_VARIABLES:
        return Word("0", untold=True)
    raise NotLiteral(f"${name}, whose value is not known")


def _check_unquoted(source: str, at: int) -> None:
    character = source[at]
    if character == "~":
        # Bash expands ~ at the beginning, behind a : and behind a =.
        known = at > 0 and (source[at - 1].isalnum() or source[at - 1] == "^")
    elif character == "^":
        known = at > 0
    elif character.isascii():
        known = character in _SAFE_ASCII
    else:
        known = character.isalnum()
    if not known:
        raise NotLiteral(_NAMES.get(character, f"the character {character!r}"))


def _quoted(quoted: re.Match[str], variables: Mapping[str, str]) -> Word:
    """Return the text between quotes."""
    if quoted["single"] is not None:
        return Word(quoted["single"])
    source = quoted["double"]
    text, at, untold = "", 0, False
    while at < len(source):
        if found := _VARIABLE.match(source, at):
            piece = _value(found, variables, quoted=True)
            text, untold, at = text + piece.text, untold or piece.untold, found.end()
            continue
        if source[at] == "`" or (source[at] == "$" and not _DOLLAR.match(source, at)):
            raise NotLiteral("an expansion in double quotes")
        width = 2 if source[at] == "\\" else 1
        text += _unquoted(source[at : at + width])
        at += width
    return Word(text, untold=untold)


def _unquoted(text: str) -> str:
    # In bash a backslash escapes only these five characters here, and is literal otherwise.
    return _ESCAPE.sub(lambda found: found[1].replace("\n", ""), text)


def likely_word(source: str) -> str | None:
    """Return the likely value of *source*, escapes resolved; None if it may vary."""
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
    """Return the first invisible or misleading character in *script*, described; else None.

    These are control characters, marks that change the text direction, zero-width characters, and
    spaces that the shell does not treat as blanks.
    """
    for character in script:
        if character in " \n\t" or "!" <= character <= "~":
            continue
        category = unicodedata.category(character)
        if category[0] in "CZ":
            return f"the character U+{ord(character):04X}"
    return None
