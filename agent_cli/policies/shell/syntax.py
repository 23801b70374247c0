"""The interface to the parser: returns the syntax tree of a bash script."""

from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
"""The operators of redirects that write the file they open."""


# Cached: a decision parses the same script three times, and some scripts take a second.
@lru_cache(maxsize=8)
def syntax_tree(script: str) -> "Node":
    """Return the root of the tree of *script*; unparsable text is an ERROR node."""
    # A lone surrogate cannot be encoded; it becomes "?", which no allowlist accepts.
    return _parser().parse(script.encode(errors="replace")).root_node


def source(node: "Node") -> str:
    """Return the source text of *node*."""
    return (node.text or b"").decode()


def is_descriptor(node: "Node") -> bool:
    """Return whether *node* is a stream number; in `sort -oa1>b` the parser takes -oa1 for one."""
    return node.type == "file_descriptor" and source(node).isdecimal()


def redirect_words(redirect: "Node") -> list["Node"]:
    """Return the words of a redirect: the file it opens, then the words that the command gets.

    Before them may stand what the parser takes for a stream number; see `is_descriptor`.
    """
    return [child for child in redirect.children if child.is_named and not is_descriptor(child)]


def opened_file(redirect: "Node") -> "Node | None":
    """Return the word that names the file a redirect opens."""
    words = (word for word in redirect_words(redirect) if word.type != "file_descriptor")
    return next(words, None)


def descendants(node: "Node", *, leaves: Collection[str] = frozenset()) -> Iterator["Node"]:
    """Yield *node* and its descendants in text order, but nothing below *leaves*."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type not in leaves:
            waiting.extend(reversed(node.children))


@cache
def _parser() -> "Parser":
    # Loaded with the first command, so that other sessions do not load the grammar.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))
