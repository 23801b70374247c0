"""Decode the words of a shell script: strictly as literals, or generously as likely values.

`literal_word` is strict and decides what may run without approval: it reads the source itself, so
that an error of the parser inside a word does not matter. `likely_word` is generous and serves the
rules that deny: an unknown value is None.
"""

import re
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent_cli.policies.shell.braces import TooManyWords, unbraced
from agent_cli.policies.shell.syntax import NOT_WORDS, source
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

_SAFE_ASCII = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-^~*?[]"
)
_PLAIN_WORD = late_pattern(r"[\w./+@%,=:*?~-]+")
_GLOB_CHARACTERS = frozenset("*?[")
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
_QUOTES = late_pattern(r"\\\n|[\\'\"]")
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
_WITH_BRACES = late_pattern(r"[\w./+,:@%=*?{}-]+", re.ASCII)
# Braces around a single item are literal: HEAD@{1}.
_LITERAL_BRACES = late_pattern(r"(?:[^{}]|\{(?:(?!\.\.)[^{},])*\})*")
_EXPANSIONS_MAX = 100
_LIKELY_WORDS_MAX = 20
_EXPANDED = late_pattern(r'(?:[^$`"\\]|\\.)*', re.DOTALL)
_QUOTED = late_pattern(r"'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
_STANDS_FOR_ITSELF = r"[^*?\[{$`'\"\\]"
_PIECE = late_pattern(
    rf"\$'(?P<ansi>(?:[^'\\]|\\.)*)'|{_QUOTED.pattern}|\\(?P<escaped>.?)"
    rf"|(?P<plain>{_STANDS_FOR_ITSELF}+|.)",
    re.DOTALL,
)
_ANSI_ESCAPE = late_pattern(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS: Mapping[str, str] = MappingProxyType(
    dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
)
_IS_PLAIN = late_pattern(rf"{_STANDS_FOR_ITSELF}*")
_EXPANDING = frozenset("*?[{$`")
# The way models write a text of several lines; nothing in a heredoc with a quoted mark expands.
_HEREDOC_TEXT = late_pattern(
    r"\"\$\(cat << ?'(?P<mark>\w+)'\n(?P<text>(?:.*\n)*?)(?P=mark)\n[ \t]*\)\"", re.ASCII
)
# Bash 3.2, which macOS has, ends a substitution within a heredoc, at a ) or by quotes, and goes on
# behind its end where a ${ or $[ in it is open.
_ENDS_OLD_SUBSTITUTIONS = frozenset("'\"`\\()$")
# In code of another language, what begins a literal.
_LITERAL_BEGIN = late_pattern(r"'''|\"\"\"|['\"`]|(?P<perl>(?:%[qQwWx]|q[qwx]?)\s*[{(\[/|])")
# By what begins a literal: its content, as far as it goes without the end.
_LITERAL_CONTENT = {
    "'''": late_pattern(r"[^']*+(?>(?:'(?!'')[^']*+)*)"),
    '"""': late_pattern(r'[^"]*+(?>(?:"(?!"")[^"]*+)*)'),
    "'": late_pattern(r"(?>(?:[^'\\\n]|\\.)*)", re.DOTALL),
    '"': late_pattern(r'(?>(?:[^"\\\n]|\\.)*)', re.DOTALL),
    "`": late_pattern(r"(?>(?:[^`\\]|\\.)*)", re.DOTALL),
    **{
        begin: late_pattern(rf"[^{re.escape(end)}]*+")
        for begin, end in (("{", "}"), ("(", ")"), ("[", "]"), ("/", "/"), ("|", "|"))
    },
}


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the program will receive it.

    Attributes:
        glob: It is a pattern, replaced by the names it matches.
        unknown: It contains a value known only to the shell, such as $?; `text` is an example.
    """

    text: str
    glob: bool = False
    unknown: bool = False


class NotLiteral(Exception):
    """A word is not literal; the message names the reason."""


def has_glob(text: str) -> bool:
    """Return whether *text* has a character that makes it a pattern for paths."""
    return not _GLOB_CHARACTERS.isdisjoint(text)


def literal_words(source: str, variables: Mapping[str, str] = _NO_VARIABLES) -> tuple[Word, ...]:
    """Return the words of *source*: one, or several if it has brace expansions.

    Raises:
        NotLiteral: They are more than 100, or bash would expand something else in it, or might.
    """
    if source in _ESCAPED_WORDS:
        return (Word(source.replace("\\", "")),)
    if source == "{}" or "{" not in source or not _WITH_BRACES.fullmatch(source):
        return (Word(source),) if source == "{}" else (literal_word(source, variables),)
    # Bash expands braces before anything else.
    try:
        expanded = [*unbraced(source, words_max=_EXPANSIONS_MAX)]
    except TooManyWords as found:
        raise NotLiteral(str(found)) from found
    if not all(map(_LITERAL_BRACES.fullmatch, expanded)):
        raise NotLiteral("a brace")
    return tuple(literal_word(each, braces=True) for each in expanded if each)


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
    if (written := heredoc_text(source)) is not None:
        return Word(written)
    text, at, glob, unknown = "", 0, False, False
    while at < len(source):
        if source[at] in "'\"":
            quoted = _QUOTED.match(source, at)
            if quoted is None:
                raise NotLiteral("a quotation without an end")
            piece = _quoted(quoted, variables)
            text, unknown, at = text + piece.text, unknown or piece.unknown, quoted.end()
            continue
        if found := _VARIABLE.match(source, at):
            piece = _value(found, variables, quoted=False)
            text, unknown, at = text + piece.text, unknown or piece.unknown, found.end()
            continue
        if not (braces and source[at] in "{}"):
            _check_unquoted(source, at)
        glob = glob or source[at] in _GLOB_CHARACTERS
        text += source[at]
        at += 1
    if glob and (text != source or unknown):
        raise NotLiteral("a pattern with quotes in it")
    return Word(text, glob, unknown)


_CONDITION_TOKEN = late_pattern(r"(?:[^\s'\"\\]|'[^']*'|\"(?:[^\"\\]|\\.)*\")+")
_JOINING = frozenset({"&&", "||", "(", ")", "!", "!="})


def bracket_words(source: str, variables: Mapping[str, str]) -> tuple[Word, ...]:
    """Return the words of a `[` or `[[` command, brackets included.

    Raises:
        NotLiteral: One of them is not literal, or joined to its neighbour.
    """
    texts = list(_condition_tokens(source))
    opening = texts[0] if texts else ""
    if {"[": "]", "[[": "]]"}.get(opening) != texts[-1] or len(texts) < 2:
        raise NotLiteral("a condition that cannot be parsed")
    inner = [
        Word(text)
        if text in _JOINING and (opening == "[[" or text in ("!", "!="))
        else literal_word(text, variables)
        for text in texts[1:-1]
    ]
    return (Word(opening), *inner, Word(texts[-1]))


def _condition_tokens(source: str) -> Iterator[str]:
    at = 0
    while at < len(source):
        found = _CONDITION_TOKEN.match(source, at)
        if found is None:
            raise NotLiteral("a condition that cannot be parsed")
        yield found[0]
        at = found.end()
        while at < len(source) and source[at] in " \t":
            at += 1


def heredoc_text(source: str) -> str | None:
    """Return the text of `"$(cat <<'EOF' ... EOF)"`, None if *source* is anything else."""
    found = _HEREDOC_TEXT.fullmatch(source) if source.startswith('"$(') else None
    if found is None:
        return None
    text = found["text"]
    # The heredoc may end there, and commands follow: in a substitution, bash also takes a line that
    # only begins with the mark if it holds a parenthesis, and runs the rest of the line.
    if any(line.startswith(found["mark"]) for line in text.split("\n")):
        return None
    if sys.platform == "darwin" and not _ENDS_OLD_SUBSTITUTIONS.isdisjoint(text):
        return None
    return text.rstrip("\n")


def _value(found: re.Match[str], variables: Mapping[str, str], *, quoted: bool) -> Word:
    """Return the value of the variable *found*."""
    name = found["braced"] or found["bare"]
    if (value := variables.get(name)) is not None:
        if quoted or _ONE_WORD.fullmatch(value):
            return Word(value)
        raise NotLiteral(f"${name} without quotes, which may become several words")
    if name in _HARMLESS_VARIABLES:
        return Word("0", unknown=True)
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
    text, at, unknown = "", 0, False
    while at < len(source):
        if found := _VARIABLE.match(source, at):
            piece = _value(found, variables, quoted=True)
            text, unknown, at = text + piece.text, unknown or piece.unknown, found.end()
            continue
        if source[at] == "`" or (source[at] == "$" and not _DOLLAR.match(source, at)):
            raise NotLiteral("an expansion in double quotes")
        width = 2 if source[at] == "\\" else 1
        text += _unquoted(source[at : at + width])
        at += width
    return Word(text, unknown=unknown)


def _unquoted(text: str) -> str:
    # In bash a backslash escapes only these five characters here, and is literal otherwise.
    return _ESCAPE.sub(lambda found: found[1].replace("\n", ""), text)


def without_quotes(text: str) -> str:
    """Return *text* without its quotes, backslashes and joined lines, whatever they mean."""
    return _QUOTES.sub("", text)


def likely_word(source: str) -> str | None:
    """Return the likely value of *source*, escapes resolved; None if it may vary."""
    if source == "{}" or _IS_PLAIN.fullmatch(source):  # {} has no braces to expand
        return source
    if (written := heredoc_text(source)) is not None:
        return written
    text = ""
    for piece in _PIECE.finditer(source):
        if piece["ansi"] is not None:
            text += unescaped(piece["ansi"]).partition("\0")[0]
        elif piece["single"] is not None:
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


def likely_words(source: str) -> Sequence[str | None]:
    """Return the likely values of the words that *source* becomes: several if it has braces."""
    if "{" not in source or not _WITH_BRACES.fullmatch(source):
        return (likely_word(source),)
    try:
        expanded = [*unbraced(source, words_max=_LIKELY_WORDS_MAX)]
    except TooManyWords:
        return (None,)
    return [likely_word(each) for each in expanded if each]


def words_of(command: "Node") -> list["Node"]:
    """Return the words of *command*, a redirection behind its program among them."""
    return [child for child in command.children if child.type not in NOT_WORDS]


def text_of(word: "Node") -> str | None:
    """Return the text of *word*, a pattern as written; None if it is not known."""
    if word.type == "file_redirect":
        return None
    written = source(word)
    return written if _PLAIN_WORD.fullmatch(written) else likely_word(written)


def unquoted(word: str) -> str:
    """Return *word* without quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def decoded(word: str) -> Iterator[str]:
    """Yield the texts that *word* is if it is base64 or hexadecimal."""
    for decode in (b64decode, bytes.fromhex):
        try:
            yield decode(word).decode()
        except ValueError:
            continue


def literals_in(code: str) -> Iterator[str]:
    """Yield what stands in quotes of any language, one behind the other.

    The time grows with the length of *code* alone: from a begin in a literal without an end, one
    of its kind would end nowhere either.
    """
    at = 0
    endless: dict[str, int] = {}
    while begin := _LITERAL_BEGIN.search(code, at):
        at = begin.start() + 1
        # Three quotes without three others are an empty literal, and a quote.
        marks = (begin[0][-1],) if begin["perl"] else dict.fromkeys((begin[0], begin[0][0]))
        for mark in marks:
            start = begin.end() if begin["perl"] else begin.start() + len(mark)
            if start <= endless.get(mark, 0):
                continue
            content = _LITERAL_CONTENT[mark].match(code, start)
            assert content, "an empty content matches"
            end, closing = content.end(), 1 if begin["perl"] else len(mark)
            if end < len(code) if begin["perl"] else code.startswith(mark, end):
                yield content[0]
                at = end + closing
                break
            endless[mark] = end


def unescaped(text: str) -> str:
    """Return *text* with its escapes resolved, as in `$'…'` and by `printf`."""
    return _ANSI_ESCAPE.sub(_ansi_character, text)


def _ansi_character(found: re.Match[str]) -> str:
    """Return the character of an escape in `$'…'`."""
    byte, short, long, octal, control, letter = found.groups()
    if letter:
        return _ANSI_LETTERS.get(letter, found[0])
    if control:
        return chr(ord(control) & 31)
    code = int(octal, 8) & 255 if octal else int(byte or short or long, 16)
    return chr(code) if code < 0xD800 or 0xE000 <= code <= sys.maxunicode else "\ufffd"
