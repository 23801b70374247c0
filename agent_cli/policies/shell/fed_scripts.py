"""Find the commands in text that a script prints, feeds, assigns or hands on, and that then run.

`. <(printf 'git reset --hard')` and `eval "$x"` run a text that `readings` does not follow. Where a
script runs such a text, each text in it may be that one. A program that is not known may run its
arguments, and code of another language what stands in its strings.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from agent_cli.policies.shell.effects import is_known
from agent_cli.policies.shell.foreign_code import commands_in, is_code, reads_code, started_by
from agent_cli.policies.shell.readings import (
    BEYOND,
    UNSEEN,
    Reading,
    pieces,
    readings,
    tails,
)
from agent_cli.policies.shell.starters import OPTION_OF_PROSE, OPTION_WITH_PROSE, started_at
from agent_cli.policies.shell.syntax import descendants, source, syntax_tree
from agent_cli.policies.shell.words import likely_word

_PRINTS: Final = frozenset({"echo", "printf"})
# As an argument of another program, a subcommand of its own: `adb reboot`.
_SUBCOMMANDS: Final = frozenset({"shutdown", "reboot", "halt", "poweroff"})


def possible_commands(script: str) -> list[Reading]:
    """Return the readings of *script*, and of each text in it that may run."""
    seen = list(readings(script))
    return [*seen, *fed_commands(script, seen)]


def fed_commands(script: str, seen: Sequence[Reading]) -> Iterator[Reading]:
    """Yield the readings of each text in *script* that may run; its own readings are *seen*."""
    codes = [words for words in seen if is_code(words)]
    texts = dict.fromkeys(text for words in codes for text in started_by(words))
    if any(map(reads_code, codes)):
        for text in documents(script):
            texts |= dict.fromkeys(commands_in(text))
    if UNSEEN in seen or BEYOND in seen:
        texts |= dict.fromkeys(_texts(script, seen))
    for text in texts:
        yield from (reading for reading in readings(text) if reading != UNSEEN)
    whole: Reading = ()
    for words in dict.fromkeys(seen):
        told = words[:-1] if words[-1:] == (None,) else words
        if not told or told[1:] == whole[len(whole) - len(told) + 1 :]:
            continue  # What it has behind it has been read from each word on.
        if started_at(told) is not None:
            whole = told
        elif told[0] is None or not is_known(told[0]):
            whole = told
            yield from _handed_on(told)


def documents(script: str) -> Iterator[str]:
    """Yield the here-documents and here-strings of *script*."""
    for node in descendants(syntax_tree(script)):
        if node.type == "herestring_redirect":
            yield "".join(map(without_quotes, map(source, node.named_children)))
        elif node.type == "heredoc_body":
            yield source(node)


def without_quotes(word: str) -> str:
    """Return *word* without quotes around it."""
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if is_quoted else word


def _texts(script: str, seen: Sequence[Reading]) -> Iterator[str]:
    for words in [each for each in seen if each and each[0] in _PRINTS]:
        printed = [word.replace(r"\n", "\n").replace(r"\t", "\t") for word in words[1:] if word]
        yield from (" ".join(printed), *printed)
    yield from documents(script)
    for node in descendants(syntax_tree(script)):
        if node.type == "variable_assignment":
            yield likely_word(source(node).partition("=")[2]) or ""


def _handed_on(words: Reading) -> Iterator[Reading]:
    """Yield the commands that a program may run of its arguments."""
    told = [
        word
        for before, word in pairwise(words)
        if not OPTION_OF_PROSE.fullmatch(before or "")
        and not OPTION_WITH_PROSE.fullmatch(word or "")
    ]
    inside = (pieces(word) for word in told if word and " " in word)
    for command in (*tails(told), *(each for found in inside for each in found)):
        if len(command) > 1 and command[0] not in _SUBCOMMANDS:
            yield command
