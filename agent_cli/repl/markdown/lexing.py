"""Pygments' lexers, adapted to one line at a time. The only module that imports pygments."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, cast

# pygments has no type annotations, so its objects are annotated where they are used.
from pygments.lexer import (  # type: ignore[import-untyped]
    ExtendedRegexLexer,
    Lexer,
    RegexLexer,
)
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, String, _TokenType  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

Token: TypeAlias = tuple[str, str]
"""The name of the token type, such as "Literal.String", and the text."""


class LineLexer(Protocol):
    """Splits the lines of one text into tokens; a copy continues independently."""

    def tokens(self, line: str) -> Iterator[Token]:
        """Return the tokens of the next line."""
        ...

    def copy(self) -> "LineLexer":
        """Return a copy in the same state."""
        ...


# Deeper stacks lose their outer states, because the stack is copied often.
_STATES_MAX: Final = 100
_COMMENT: Final = "Comment.Multiline"
_Target: TypeAlias = int | str | tuple[str, ...] | None
# A rule's match and its action: a token type, or a callable that splits the match further.
_Action: TypeAlias = Callable[[RegexLexer, re.Match[str]], Iterator[tuple[int, Hashable, str]]]
_Rule: TypeAlias = tuple[re.Match[str] | None, _Action | None, _Target]
_Match: TypeAlias = Callable[[str, int], re.Match[str] | None]
_Rules: TypeAlias = Mapping[str, Sequence[tuple[_Match, _Action | None, _Target]]]


def line_lexer_of(name: str) -> Callable[[], LineLexer] | None:
    """Return a function that makes a lexer for a language; None if Pygments does not know it."""
    try:
        lexer = get_lexer_by_name(name)
    except ClassNotFound:
        return None
    # A lexer with its own algorithm or context has no state to keep.
    if not isinstance(lexer, RegexLexer) or isinstance(lexer, ExtendedRegexLexer):
        return lambda: _Stateless(lexer)
    has_c_comments = any(
        kind in Comment and text.startswith("/*")
        for _, kind, text in lexer.get_tokens_unprocessed("/* x */")
    )
    return lambda: _Stateful(lexer, has_c_comments=has_c_comments)


class _Stateless:
    """Lexes each line separately: right for JSON and similar, a guess for templates."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer

    def tokens(self, line: str) -> Iterator[Token]:
        for _, kind, text in self._lexer.get_tokens_unprocessed(line + "\n"):
            yield _name(kind), text.rstrip("\n")

    def copy(self) -> "_Stateless":
        return self


class _Stateful:
    """Keeps the lexer's stack of states from line to line.

    Block comments of the C family are a single pattern in most lexers and would end with their
    first line; they are tracked here.
    """

    def __init__(
        self,
        lexer: RegexLexer,
        *,
        has_c_comments: bool,
        stack: tuple[str, ...] = ("root",),
        inside_comment: bool = False,
    ) -> None:
        self._lexer = lexer
        self._has_c_comments = has_c_comments
        self._stack = list(stack)
        self._inside_comment = inside_comment

    def tokens(self, line: str) -> Iterator[Token]:
        start = 0
        if self._inside_comment:
            end = line.find("*/")
            start = len(line) if end < 0 else end + 2
            yield _COMMENT, line[:start]
            if end < 0:
                return
            self._inside_comment = False
        yield from self._from(line, start)

    def _from(self, line: str, start: int) -> Iterator[Token]:
        """Lex from *start* on as `RegexLexer` does, and keep the final stack."""
        text = line + "\n"
        position = start
        while position < len(text):
            match, action, target = self._rule(text, position)
            if self._opens_comment(line, position, match, action):
                self._inside_comment = True
                yield _COMMENT, line[position:]
                return
            if match is None:
                yield "Error", text[position].rstrip("\n")
                position += 1
                continue
            if isinstance(action, _TokenType):
                yield _name(action), match[0].rstrip("\n")
            elif action is not None:
                for _, kind, found in action(self._lexer, match):
                    yield _name(kind), found.rstrip("\n")
            position = match.end()
            self._enter(target)
        del self._stack[1:-_STATES_MAX]

    def _rule(self, text: str, position: int) -> _Rule:
        """Return the first rule of the current state that matches.

        Reads the private `_tokens`: the public `get_tokens_unprocessed` does not return its final
        stack, so that each line would need a pass over the whole block.
        """
        rules: _Rules = cast("Any", self._lexer)._tokens
        for matches, action, target in rules[self._stack[-1]]:
            if match := matches(text, position):
                return match, action, target
        if text[position] == "\n":
            self._stack = ["root"]
        return None, None, None

    def _enter(self, target: _Target) -> None:
        if isinstance(target, int):
            # Never pop the first state, however many a lexer asks to pop.
            del self._stack[max(len(self._stack) + target, 1) :]
        elif target == "#push":
            self._stack.append(self._stack[-1])
        elif target is not None:
            for state in target:
                if state == "#pop":
                    del self._stack[max(len(self._stack) - 1, 1) :]
                else:
                    self._stack.append(self._stack[-1] if state == "#push" else state)

    def _opens_comment(
        self, line: str, at: int, match: re.Match[str] | None, action: object
    ) -> bool:
        """Return whether a comment that does not end on this line begins at *at*."""
        return (
            self._has_c_comments
            and line.startswith("/*", at)
            and "*/" not in line[at + 2 :]
            and (match is None or not match[0] or not _is_string(action))
        )

    def copy(self) -> "_Stateful":
        return _Stateful(
            self._lexer,
            has_c_comments=self._has_c_comments,
            stack=tuple(self._stack),
            inside_comment=self._inside_comment,
        )


def _is_string(action: object) -> bool:
    return isinstance(action, _TokenType) and action in String


@lru_cache(maxsize=1024)
def _name(kind: Hashable) -> str:
    return str(kind).removeprefix("Token.")
