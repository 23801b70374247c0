"""Syntax highlighting line by line, keeping the lexer's state between lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from agent_cli.repl.markdown.styles import Spans, Theme, TokenKind, plain

if TYPE_CHECKING:
    from agent_cli.repl.markdown.lexing import LineLexer

Tokens: TypeAlias = tuple[tuple[int, int, TokenKind], ...]
# Longer lines are data or minified code, and take some lexers quadratic time.
_LINE_CHARS_MAX: Final = 2000
_NAME: Final = re.compile(r"[\w+#.-]+")

# The first matching prefix decides.
_KINDS: Final[tuple[tuple[str, TokenKind], ...]] = (
    ("Comment", "comment"),
    ("Keyword.Constant", "number"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Literal.Number", "number"),
    ("Literal", "string"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Tag", "keyword"),
    ("Name.Attribute", "name"),
    ("Name.Decorator", "builtin"),
    ("Name.Builtin", "builtin"),
    ("Name.Exception", "builtin"),
    ("Generic.Inserted", "inserted"),
    ("Generic.Deleted", "deleted"),
    ("Generic.Heading", "heading"),
    ("Generic.Subheading", "heading"),
)


@lru_cache(maxsize=512)
def _kind(token: str) -> TokenKind | None:
    return next((kind for prefix, kind in _KINDS if token.startswith(prefix)), None)


def code_tokens(lines: Iterable[str], language: str) -> Iterator[Tokens]:
    """Yield for each of *lines* where its tokens begin and end, and their kinds.

    Args:
        lines: Lines of one file, from its beginning.
        language: A name or the ending of a file's name; nothing is yielded if it is not known.
    """
    lexer_of = _lexer_of(language.lower())
    if lexer_of is None:
        return
    lexer = lexer_of()
    for line in lines:
        tokens: list[tuple[int, int, TokenKind]] = []
        at = 0
        for token, found in lexer.tokens(line) if len(line) <= _LINE_CHARS_MAX else ():
            if (kind := _kind(token)) and found:
                tokens.append((at, at + len(found), kind))
            at += len(found)
        yield tuple(tokens) if at == len(line) else ()


class Highlighter:
    """Highlights the lines of one code block in order."""

    def __init__(self, lexer: "LineLexer", colours: Mapping[TokenKind, str]) -> None:
        self._lexer = lexer
        self._colours = colours

    def line(self, text: str) -> Spans:
        """Return the next line in colour."""
        if len(text) > _LINE_CHARS_MAX:
            return [(text, "")]
        spans: Spans = []
        for token, found in self._lexer.tokens(text):
            kind = _kind(token)
            style = self._colours.get(kind, "") if kind else ""
            if spans and spans[-1][1] == style:
                spans[-1] = spans[-1][0] + found, style
            elif found:
                spans.append((found, style))
        # If a lexer loses some of the text, show it without colours.
        return spans if plain(spans) == text else [(text, "")]

    def copy(self) -> "Highlighter":
        """Return a copy that can look ahead without advancing this one."""
        return Highlighter(self._lexer.copy(), self._colours)


def highlighter(info: str, theme: Theme) -> Highlighter | None:
    """Return a highlighter for the language of a fence, if it is known and has colours."""
    name = _NAME.match(info)
    lexer = _lexer_of(name[0].lower()) if name and theme.tokens else None
    return Highlighter(lexer(), theme.tokens) if lexer else None


@lru_cache(maxsize=32)
def _lexer_of(name: str) -> "Callable[[], LineLexer] | None":
    # Imported with the first code block, because it takes tens of milliseconds.
    from agent_cli.repl.markdown.lexing import line_lexer_of

    return line_lexer_of(name)
