"""Find the commands in text that a script prints, feeds or assigns, and then runs.

`. <(printf 'git reset --hard')` and `eval "$x"` run a text that `readings` does not follow. Where a
script runs such a text, each text in it may be that one.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.policies.shell.readings import BEYOND, UNSEEN, Reading, readings
from agent_cli.policies.shell.syntax import descendants, source, syntax_tree
from agent_cli.policies.shell.words import likely_word

_PRINTS: Final = frozenset({"echo", "printf"})


def possible_commands(script: str) -> list[Reading]:
    """Return the readings of *script*, and of each text in it if it runs text."""
    seen = list(readings(script))
    return [*seen, *fed_commands(script, seen)]


def fed_commands(script: str, seen: Sequence[Reading]) -> Iterator[Reading]:
    """Yield the readings of each text in *script*, whose own readings are *seen*.

    Nothing if it runs only what stands in it.
    """
    if UNSEEN in seen or BEYOND in seen:
        for text in dict.fromkeys(_texts(script, seen)):
            yield from (reading for reading in readings(text) if reading != UNSEEN)


def _texts(script: str, seen: Sequence[Reading]) -> Iterator[str]:
    for words in [each for each in seen if each and each[0] in _PRINTS]:
        printed = [word.replace(r"\n", "\n") for word in words[1:] if word]
        yield from (" ".join(printed), *printed)
    for node in descendants(syntax_tree(script)):
        if node.type == "herestring_redirect":
            yield from (likely_word(source(each)) or "" for each in node.named_children)
        elif node.type == "heredoc_body":
            yield source(node)
        elif node.type == "variable_assignment":
            yield likely_word(source(node).partition("=")[2]) or ""
