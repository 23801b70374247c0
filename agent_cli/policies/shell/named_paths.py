"""Find the files named in a script, for the rules that forbid reading them.

Like `readings`, this searches everywhere and rejects nothing: also quoted scripts of other
languages, here-documents and patterns. Only existing files count.
"""

import os
from collections.abc import Iterator
from pathlib import PurePath

from agent_cli.policies.shell.reach import OutOfReach, Reach, matches
from agent_cli.policies.shell.readings import readings
from agent_cli.policies.shell.words import NotLiteral, TooManyWords, literal_words
from agent_cli.system.loading import late_pattern

_QUOTES = late_pattern(r"\\\n|[\\'\"]")
_WORD_ENDS = late_pattern(r"[\s;&|<>()`]+")
_PATH_ENDS = late_pattern(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = late_pattern(r"\$(?:HOME\b|\{HOME\})")
_GLOB = late_pattern(r"[*?\[]")
# At most seconds of work. Beyond it nothing is known about the rest, so a person has to look.
_TRIED_MAX = 50_000
_UNBRACED_MAX = 10_000
# Represents any file of a folder, so that a rule about all files in the folder matches. No rule
# about certain files matches it, because it is a private-use character.
_ANY_FILE = "\ue000"


def named_paths(script: str, reach: Reach) -> Iterator[PurePath]:
    """Yield the absolute paths that *script* names, as written and with links resolved.

    For a folder, a placeholder for any file in it is added. A relative path is resolved against
    every folder that the script names, because it may be used in any of them.

    Raises:
        OutOfReach: There are too many to try; those that were tried come before.
    """
    words = list(dict.fromkeys(named_words(script, reach)))
    named = (os.path.normpath(reach.root / word) for word in words)
    folders = dict.fromkeys((str(reach.root), *filter(os.path.isdir, named)))
    tried = (
        os.path.join(folder, name)  # noqa: PTH118 - many words
        for folder in folders
        for word in words
        for name in _expanded(word, folder)
    )
    for count, path in enumerate(tried):
        if count >= _TRIED_MAX:
            raise OutOfReach("names too many files and folders to check each of them")
        yield from _as_found(os.path.normpath(path))


def named_words(script: str, reach: Reach) -> Iterator[str]:
    """Yield every piece of *script* that may be a path.

    Raises:
        OutOfReach: As `unbraced`.
    """
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
    """Yield the brace expansions of *word*; nothing if there are none.

    Raises:
        OutOfReach: There are too many.
    """
    if "{" in word:
        try:
            yield from (each.text for each in literal_words(word, words_max=_UNBRACED_MAX))
        except TooManyWords as found:
            raise OutOfReach(str(found)) from found
        except NotLiteral:
            return


def _expanded(word: str, folder: str) -> Iterator[str]:
    yield word
    if _GLOB.search(word):
        yield from matches(word, folder)


def _as_found(path: str) -> Iterator[PurePath]:
    if not os.path.lexists(path):
        return
    for each in dict.fromkeys((path, os.path.realpath(path))):
        yield PurePath(each)
        if os.path.isdir(each):  # noqa: PTH112 - many words
            yield PurePath(each, _ANY_FILE)
