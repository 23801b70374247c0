"""Scripts that say all they do: simple commands of literal words, joined by && || ; | and newline.

The tree must consist of known parts only, and every character of the script must belong to one of
them or be a blank between two: what the parser passes over in silence is never run unread.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from agent_cli.policies.shell.syntax import descendants, is_descriptor, source, syntax_tree
from agent_cli.policies.shell.words import NotLiteral, Word, literal_word, odd_character

if TYPE_CHECKING:
    from tree_sitter import Node

SCRIPT_CHARS_MAX = 10_000
JOINED_MAX = 50
_SHOWN_MAX = 40

_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation"})
_NAMED = _WORDS | {
    *("program", "list", "pipeline", "redirected_statement", "command", "command_name"),
    *("string_content", "file_redirect", "file_descriptor", "comment"),
}
_SEPARATORS = frozenset({"&&", "||", ";", "\n", "|", "|&"})
_FILE_OPERATORS = frozenset({">", ">>", "&>", "&>>", "<"})
_ANONYMOUS = _SEPARATORS | _FILE_OPERATORS | {'"', ">&"}
_BLANKS = re.compile(r"[ \t]+")
_SPACE = re.compile(r"[ \t\n]*")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program and its arguments, and what joins it to the command before it.

    Attributes:
        words: At least one; the first is the program's name as written.
        after: "" at the beginning, else one of && || ; | |& or a newline.
    """

    words: tuple[Word, ...]
    after: str = ""

    @property
    def text(self) -> str:
        """The words, for people; not to be run."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A script that says less than it does; `construct` is the first thing that makes it so."""

    construct: str


class _NotPlain(Exception):
    """The message names the construct."""


def parse(script: str) -> tuple[SimpleCommand, ...] | Unknown:
    """Return the simple commands of *script* in order, or why they cannot be told."""
    if len(script) > SCRIPT_CHARS_MAX:
        return Unknown(f"more than {SCRIPT_CHARS_MAX:,} characters")
    if odd := odd_character(script):
        return Unknown(odd)
    root = syntax_tree(script)
    text = script.encode()
    try:
        _check_passed_over(text[: root.start_byte] + text[root.end_byte :], _SPACE)
        for node in descendants(root):
            _check_known(node, text)
        commands = tuple(_commands(root))
    except (_NotPlain, NotLiteral) as found:
        return Unknown(str(found))
    return commands or Unknown("no command at all")


def _check_known(node: "Node", text: bytes) -> None:
    if node.type == "ERROR" or node.is_missing:
        raise _NotPlain("a syntax error, or syntax unknown here")
    if node.type not in (_NAMED if node.is_named else _ANONYMOUS):
        raise _NotPlain(_readable(node))
    if node.type == "file_descriptor" and not is_descriptor(node):
        raise _NotPlain(f"an option before a redirect: {source(node)}")
    if node.type == "comment" and text[: node.start_byte][-1:] not in (b"", b" ", b"\t", b"\n"):
        raise _NotPlain("a number sign that may not begin a comment")


def _readable(node: "Node") -> str:
    name = node.type.replace("_", " ")
    shown = " ".join(source(node).split())
    if not node.is_named:
        return f"operator {shown}"
    # The command itself stands on the screen already; half of it again explains nothing.
    return f"{name}: {shown}" if len(shown) <= _SHOWN_MAX else f"{name}, which no rule can judge"


def _commands(node: "Node", after: str = "", depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield the commands below *node*, a program, a list, a pipeline or one command."""
    if depth > JOINED_MAX:
        raise _NotPlain(f"more than {JOINED_MAX} commands joined")
    if node.type == "command":
        yield SimpleCommand(_words(node), after)
    elif node.type == "redirected_statement":
        # It may belong to the last of several commands only; the redirects accepted do not care.
        body, *redirects = _children(node, _BLANKS)
        for redirect in redirects:
            _check_redirect(redirect)
        yield from _commands(body, after, depth)
    else:
        yield from _joined(node, after, depth)


def _joined(node: "Node", after: str, depth: int) -> Iterator[SimpleCommand]:
    if node.type not in ("program", "list", "pipeline"):
        raise _NotPlain(_readable(node))
    if not node.children:
        raise _NotPlain("no command at all")
    for child in _children(node, _SPACE):
        if child.type in _SEPARATORS:
            after = child.type
        elif child.type != "comment":
            yield from _commands(child, after, depth + 1)
            after = "\n"


def _children(node: "Node", gap: re.Pattern[str]) -> Sequence["Node"]:
    """Return the children of *node*; between two, nothing but *gap* may have been passed over."""
    text, begin = node.text or b"", node.start_byte
    for before, child in pairwise(node.children):
        _check_passed_over(text[before.end_byte - begin : child.start_byte - begin], gap)
    _check_passed_over(text[: node.children[0].start_byte - begin], _SPACE)
    _check_passed_over(text[node.children[-1].end_byte - begin :], _SPACE)
    return node.children


def _check_passed_over(text: bytes, known: re.Pattern[str]) -> None:
    if not known.fullmatch(text.decode()):
        raise _NotPlain("text the parser passes over")


def _words(command: "Node") -> tuple[Word, ...]:
    parts = _children(command, _BLANKS)
    names = [part.type for part in parts]
    if names[0] != "command_name" or not _WORDS.issuperset(names[1:]):
        # Bash reads `> file ls` as a redirect, and so must we.
        raise _NotPlain("a redirect before the end of a command")
    words = tuple(literal_word(source(part)) for part in parts)
    if words[0].glob:
        raise _NotPlain("a pattern for a program's name")
    return words


def _check_redirect(redirect: "Node") -> None:
    """Accept /dev/null, &1 and &2; the parser takes words behind a destination for more of them."""
    if redirect.type != "file_redirect":
        raise _NotPlain(_readable(redirect))
    parts = [part for part in redirect.children if part.type != "file_descriptor"]
    operator, *destinations = parts
    if len(destinations) != 1:
        raise _NotPlain(f"words behind a redirect: {source(redirect)[:60]}")
    target = literal_word(source(destinations[0]))
    known = ("1", "2") if operator.type == ">&" else ("/dev/null",)
    if target.text not in known:
        raise _NotPlain(f"redirect {source(redirect)[:60]}")
