"""Find the files named in a script, for the rules that forbid reading them.

Like `readings`, this searches everywhere and rejects nothing: also quoted scripts of other
languages, here-documents and patterns. Only existing files count.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.readings import base_name, readings
from agent_cli.policies.shell.words import NotLiteral, Word, literal_words
from agent_cli.sandbox.protected import what_it_starts, why_protected
from agent_cli.system.late_patterns import late_pattern

_QUOTES = late_pattern(r"\\\n|[\\'\"]")
_WORD_ENDS = late_pattern(r"[\s;&|<>()`]+")
_PATH_ENDS = late_pattern(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = late_pattern(r"\$(?:HOME\b|\{HOME\})")
_GLOB = late_pattern(r"[*?\[]")
_INSIDE_WORD = late_pattern(r"[=@:,]")
_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_PROGRAMS = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/")
_OTHER_RIGHTS = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "agent-cli"})
_FOLDERS_MAX = 20
# Represents any file of a folder, so that a rule about all files in the folder matches. No rule
# about certain files matches it, because it is a private-use character.
_ANY_FILE = "\ue000"


def named_paths(script: str, reach: Reach) -> Iterator[PurePath]:
    """Yield the absolute paths that *script* names, as written and with links resolved.

    For a folder, a placeholder for any file in it is added. A relative path is resolved against
    every folder that the script names, because it may be used in any of them.
    """
    words = list(dict.fromkeys(_words(script, reach)))
    folders = dict.fromkeys([str(reach.root)])
    for word in words:
        path = os.path.normpath(reach.root / word)
        if len(folders) < _FOLDERS_MAX and os.path.isdir(path):  # noqa: PTH112 - many words
            folders[path] = None
    for folder in folders:
        for word in words:
            for name in _expanded(word, folder, reach):
                yield from _as_found(os.path.normpath(os.path.join(folder, name)))  # noqa: PTH118


def leaves_workspace(script: str, reach: Reach) -> bool:
    """Return whether a command of *script* names a path outside the workspace, or one that is kept.

    Secrets are kept, and files that make programs act. Programs and devices such as /dev/null do
    not count; nor what another language would open. A command with other rights, or one that starts
    this program, leaves it too.
    """
    for words in readings(_HOME.sub(lambda _found: reach.home, script)):
        if words and words[0] and base_name(words[0]) in _OTHER_RIGHTS:
            return True
        if any(_is_outside(piece, reach) for word in words if word for piece in _pieces(word)):
            return True
    named = {*_words(script, reach)}
    return any(_acts(word, reach) for word in named) or any(
        map(reach.is_secret, named_paths(script, reach))
    )


def _acts(word: str, reach: Reach) -> bool:
    """Return whether *word* is a file of the workspace that makes programs act."""
    path = Path(os.path.normpath(reach.root / word))
    if "\0" in word or not path.is_relative_to(reach.root):
        return False
    return bool(why_protected(path, reach.root) or what_it_starts(path, reach.root))


def _pieces(word: str) -> Iterator[str]:
    """Yield *word*, and what stands behind the name of an option or an @ in it."""
    yield word
    yield from _INSIDE_WORD.split(word)[1:]


def _is_outside(word: str, reach: Reach) -> bool:
    if word.startswith("~") and not word.startswith(("~/", "~+")) and word != "~":
        return True  # the home of another user
    written = _at_home(word, reach)
    if not written.startswith("/") and ".." not in written.split("/"):
        return False
    path = os.path.normpath(reach.root / written)
    return not (path in _DEVICES or path.startswith(_PROGRAMS) or reach.holds(path))


def _words(script: str, reach: Reach) -> Iterator[str]:
    """Yield every piece of *script* that may be a path."""
    text = _HOME.sub(lambda _found: reach.home, script)
    for each in (text, _QUOTES.sub("", text)):
        for word in _WORD_ENDS.split(each):
            yield from _unbraced(word)
        yield from (_at_home(word, reach) for word in _PATH_ENDS.split(each) if word)
    for reading in readings(text):
        yield from (_at_home(word, reach) for word in reading if word)


def _at_home(word: str, reach: Reach) -> str:
    return reach.home + word[1:] if word == "~" or word.startswith("~/") else word


def _unbraced(word: str) -> Iterator[str]:
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
