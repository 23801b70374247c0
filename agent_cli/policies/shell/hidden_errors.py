"""Whether a script keeps errors of its commands out of its output.

A command that runs read-only is known to have wanted more by what it says about refused accesses.
"""

from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.syntax import (
    descendants,
    is_descriptor,
    opened_file,
    source,
    syntax_tree,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_BOTH: Final = frozenset({"&>", "&>>"})
_TO_FILE: Final = frozenset({">", ">>", ">|", "<>"})
_ELSEWHERE: Final = frozenset({"pipeline", "command_substitution", "process_substitution"})


def hides_errors(script: str) -> bool:
    """Return whether *script* sends errors elsewhere than to its output: away, or to a filter."""
    for node in descendants(syntax_tree(script)):
        if node.type == "|&" or (node.type == "file_redirect" and _hides(node)):
            return True
    return False


def _hides(redirect: "Node") -> bool:
    operator, stream = _operator(redirect), _stream(redirect)
    opened = opened_file(redirect)
    target = source(opened) if opened else ""
    if operator in _BOTH:
        return True
    if operator in (">&", ">&-") and not (target.isdecimal() and stream != "2"):
        return stream in ("", "2") and not (target == "1" and not _is_taken(redirect))
    return stream == "2" and operator in _TO_FILE


def _is_taken(redirect: "Node") -> bool:
    """Return whether standard output goes elsewhere at this redirect, and errors with it."""
    earlier = redirect.prev_sibling
    while earlier is not None:
        if earlier.type == "file_redirect" and _stream(earlier) in ("", "1"):
            return True
        earlier = earlier.prev_sibling
    around = redirect.parent
    while around is not None and around.type not in _ELSEWHERE:
        around = around.parent
    return around is not None


def _operator(redirect: "Node") -> str:
    return next((child.type for child in redirect.children if not child.is_named), "")


def _stream(redirect: "Node") -> str:
    return next((source(child) for child in redirect.children if is_descriptor(child)), "")
