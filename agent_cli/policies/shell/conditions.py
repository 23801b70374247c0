"""Check `test`, `[` and `[[`: comparisons of files and strings without side effects."""

from collections.abc import Iterator, Mapping, Sequence

from agent_cli.policies.shell.words import NotLiteral, Word, literal_word
from agent_cli.system.late_patterns import late_pattern

_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknprstuwxzGLNOS")
_TEXT_BINARY = frozenset({"=", "==", "!="})
_NUMBER_BINARY = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_FILE_BINARY = frozenset({"-nt", "-ot", "-ef"})
_BINARY = _TEXT_BINARY | _NUMBER_BINARY | _FILE_BINARY
_NUMBER = late_pattern(r"-?\d{1,9}")
_TOKEN = late_pattern(r"(?:[^\s'\"\\]|'[^']*'|\"(?:[^\"\\]|\\.)*\")+")
_JOINING = frozenset({"&&", "||", "(", ")", "!", "!="})


def bracket_words(source: str, variables: Mapping[str, str]) -> tuple[Word, ...]:
    """Return the words of a `[` or `[[` command, brackets included.

    Raises:
        NotLiteral: One of them is not literal, or joined to its neighbour.
    """
    texts = list(_tokens(source))
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


def _tokens(source: str) -> Iterator[str]:
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise NotLiteral("a condition that cannot be parsed")
        yield found[0]
        at = found.end()
        while at < len(source) and source[at] in " \t":
            at += 1


def only_compares(name: str, words: Sequence[Word]) -> bool:
    """Return whether `test`, `[` or `[[` with *words* only compares."""
    words = words if name == "test" else words[:-1]
    if name == "[[":
        return _conjunction(list(words))
    return not any(word.glob for word in words) and _comparison(list(words), arithmetic=False)


def _conjunction(words: list[Word]) -> bool:
    """Return whether the *words* of a `[[` are comparisons joined by && and ||."""
    part: list[Word] = []
    parts = [part]
    for word in words:
        if word.text in ("&&", "||"):
            part = []
            parts.append(part)
        else:
            part.append(word)
    return all(_comparison(each, arithmetic=True) for each in parts)


def _comparison(words: list[Word], *, arithmetic: bool) -> bool:
    # -v and -R take a variable, and a subscript in its name may hold a command. In `[[`, operands
    # of numeric comparisons are evaluated, with the same effect; elsewhere they are plain text.
    if words and words[0].text == "!" and not words[0].untold:
        words = words[1:]
    match words:
        case [Word() as only]:
            return not only.untold and not only.glob
        case [operator, operand]:
            return operator.text in _UNARY and not operator.untold and not operand.glob
        case [left, operator, right] if operator.text in _NUMBER_BINARY:
            return all(
                _NUMBER.fullmatch(word.text) or not (arithmetic or word.glob)
                for word in (left, right)
            )
        case [left, operator, right] if operator.text in _BINARY and not operator.untold:
            return not left.glob and (arithmetic or not right.glob)
        case _:
            pass
    return False
