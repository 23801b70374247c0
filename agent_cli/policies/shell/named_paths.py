"""Find the files named in a script, for the rules that forbid reading them.

Like `readings`, this searches everywhere and rejects nothing: also quoted scripts of other
languages, here-documents and patterns. Only existing files count.
"""

import os
from collections.abc import Iterator
from pathlib import PurePath

from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.readings import readings
from agent_cli.policies.shell.words import NotLiteral, Word, literal_words
from agent_cli.system.loading import late_pattern

_QUOTES = late_pattern(r"\\\n|[\\'\"]")
_WORD_ENDS = late_pattern(r"[\s;&|<>()`]+")
_PATH_ENDS = late_pattern(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = late_pattern(r"\$(?:HOME\b|\{HOME\})")
_GLOB = late_pattern(r"[*?\[]")
_FOLDERS_MAX = 20
# Represents any file of a folder, so that a rule about all files in the folder matches. No rule
# about certain files matches it, because it is a private-use character.
_ANY_FILE = "\ue000"


def named_paths(script: str, reach: Reach) -> Iterator[PurePath]:
    """Yield the absolute paths that *script* names, as written and with links resolved.

    For a folder, a placeholder for any file in it is added. A relative path is resolved against
    every folder that the script names, because it may be used in any of them.
    """
    words = list(dict.fromkeys(named_words(script, reach)))
    folders = dict.fromkeys([str(reach.root)])
    for word in words:
        path = os.path.normpath(reach.root / word)
        if len(folders) < _FOLDERS_MAX and os.path.isdir(path):  # noqa: PTH112 - many words
            folders[path] = None
    for folder in folders:
        for word in words:
            for name in _expanded(word, folder, reach):
                yield from _as_found(os.path.normpath(os.path.join(folder, name)))  # noqa: PTH118


def named_words(script: str, reach: Reach) -> Iterator[str]:
    """Yield every piece of *script* that may be a path."""
    text = _HOME.sub(lambda _found: reach.home, script)
    for each in (text, _QUOTES.sub("", text)):
        for word in _WORD_ENDS.split(each):
            yield from unbraced(word)
        yield from (at_home(word, reach) for word in _PATH_ENDS.split(each) if word)
    for reading in readings(text):
        yield from (at_home(word, reach) for word in reading if word)


def at_home(word: str, reach: Reach) -> str:
    """Return *word* with a ~ at its beginning replaced by the home directory."""
    return reach.home + word[1:] if word == "~" or word.startswith("~/") else word


def unbraced(word: str) -> Iterator[str]:
    """Yield the brace expansions of *word*; nothing if there are none."""
    if "{" in word:
        try:
            yield from (each.text for each in literal_words(word))
        except NotLiteral:
            return


def _expanded(word: str, folder: str, reach: Reach) -> Iterator[str]:
    yield word
    if _GLOB.search(word):
        try:
            yield from reach.expand(Word(word, glob=True), folder)
        except Objection:
            return


def _as_found(path: str) -> Iterator[PurePath]:
    if not os.path.lexists(path):
        return
    for each in dict.fromkeys((path, os.path.realpath(path))):
        yield PurePath(each)
        if os.path.isdir(each):  # noqa: PTH112 - many words
            yield PurePath(each, _ANY_FILE)
