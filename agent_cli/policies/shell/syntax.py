"""The only place that knows the parser: text of a bash script in, its syntax tree out."""

from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


# A decision looks at the same script three times; what is odd enough takes the parser a second.
@lru_cache(maxsize=8)
def syntax_tree(script: str) -> "Node":
    """Return the root of the tree of *script*; what cannot be parsed is an ERROR node in it."""
    # A lone surrogate is no character; "?" is what no whitelist knows.
    return _parser().parse(script.encode(errors="replace")).root_node


def source(node: "Node") -> str:
    """Return the text that *node* stands for."""
    return (node.text or b"").decode()


def is_descriptor(node: "Node") -> bool:
    """Tell whether *node* numbers a stream: of `sort -oa1>b` the parser says that -oa1 does."""
    return node.type == "file_descriptor" and source(node).isdecimal()


def descendants(node: "Node", *, leaves: Collection[str] = frozenset()) -> Iterator["Node"]:
    """Yield *node* and all below it, in the order of the text; nothing below *leaves*."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type not in leaves:
            waiting.extend(reversed(node.children))


@cache
def _parser() -> "Parser":
    # Loaded with the first command: a session without one does not pay for the grammar.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))
