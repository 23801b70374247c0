"""Find the files named in a script, for the rules that forbid reading them.

Like `readings`, this searches everywhere and rejects nothing: also quoted scripts of other
languages, here-documents and patterns. Only existing files count.

And tell whether a command runs no other files than those. A hook runs outside the sandbox only
then, so only two kinds count: programs known not to run what they find in the current folder, and
scripts that the command names by path.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING

from agent_cli.policies.shell.assignments import composed_words, preset_values
from agent_cli.policies.shell.braces import TooManyWords, unbraced
from agent_cli.policies.shell.reach import OutOfReach, Reach, matches
from agent_cli.policies.shell.readings import Reading, all_commands, readings
from agent_cli.policies.shell.starters import SHELLS, base_name
from agent_cli.policies.shell.syntax import (
    TOO_LONG,
    descendants,
    is_misread,
    is_too_large,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import has_glob, without_quotes
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD_ENDS = late_pattern(r"[\s;&|<>()`]+")
_PATH_ENDS = late_pattern(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = late_pattern(r"\$(?:HOME\b|\{HOME\})")
_WORKING_DIRECTORY = late_pattern(r"\$(?:PWD\b|\{PWD\})|(?<![^\s=:])~\+(?=/)")
# JSON also has braces, and brackets around some: it stands for no words.
_WITH_BRACES = late_pattern(r"(?:[\w./+,:@%=*?{}~-]|\[[^\[\]{},:]*\])+")
_JOINED_TO_OPTION = late_pattern(r"-[A-Za-z](.+)", re.DOTALL)
_ANSI_C = late_pattern(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = late_pattern(r"\\(?:(?:x|u|U)([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_EXPANSION = late_pattern(r"\$(?:\w+|\(\([^()]*\)\)|\{[^{}]*\}|\([^()]*\)|[@*#?!-])|`[^`]*`")
# A name of which a part is known; of others every file could be meant.
_PARTLY_KNOWN = late_pattern(r"(?:^|/)(?=[^/]*\w)(?=[^/]*\*)")
_CHANGES_DIRECTORY = late_pattern(r"\b(?:cd|pushd|chdir)\b")
# At most seconds of work. Beyond it nothing is known about the rest, so a person has to look.
_TRIED_MAX = 50_000
_UNBRACED_MAX = 10_000
_TOO_MANY = "names too many files and folders to check each of them"
# Represents any file of a folder, so that a rule about all files in the folder matches. No rule
# about certain files matches it, because it is a private-use character.
_ANY_FILE = "\ue000"
# None of these reads a script, a plugin or a configuration in the current folder.
_KEEP_TO_THEMSELVES = frozenset(
    {
        *("cat", "echo", "printf", "jq", "grep", "egrep", "fgrep", "tee", "tr", "cut", "head"),
        *("tail", "sort", "uniq", "wc", "date", "sleep", "test", "[", "[[", "true", "false", ":"),
        *("exit", "read", "mkdir", "touch", "cp", "mv", "ln", "rm", "basename", "dirname"),
        *("realpath", "readlink", "stat", "ls", "pwd", "cd", "logger", "uname", "hostname"),
        *("whoami", "id", "mktemp", "chmod", "base64", "sha256sum", "md5sum", "shasum", "return"),
        *("shift", "break", "continue", "local", "tput", "curl", "seq", "expr", "cmp", "diff"),
        *("notify-send", "terminal-notifier", "osascript", "say", "afplay", "paplay", "aplay"),
        *("canberra-gtk-play", "pw-play", "wall", "xdg-open"),
    }
)
# Options with which one of them does.
_READS_MORE = {"curl": late_pattern(r"-\w*K.*|--conf.*"), "sort": late_pattern(r"--comp.*")}
_INTERPRETERS = SHELLS | {
    *("python", "python3", "node", "ruby", "perl", "php", "lua", "osascript", "source", "."),
}
# `-I` and the like change nothing about the script that follows.
_HARMLESS_OPTIONS = frozenset({"-u", "-I", "-B", "-E", "-s", "-S", "-O", "-e", "-eu", "-x"})
_OPTIONS_OF_SHELLS_ONLY = frozenset({"-e", "-eu", "-x"})
# A shell sets these without any effect on the programs that it finds or on what they load.
_PLAIN_VARIABLE = late_pattern(r"(?!LD_|DYLD_)[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_LOADING = late_pattern(
    r"PATH|\w*(?:PATH|LIB|OPT|OPTS|OPTIONS|HOME|ENV|PRELOAD|STARTUP|CONFIG|RC)|IFS|SHELL|EDITOR"
    r"|PAGER|BROWSER|GIT_\w+|BASH\w*|PROMPT_COMMAND|PS\d",
    re.ASCII | re.IGNORECASE,
)
_OF_THE_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/snap/", "/home/linuxbrew/")
_TOOL_FOLDERS = frozenset({"bin", "shims", "sbin"})


def named_paths(script: str, reach: Reach) -> Iterator[PurePath]:
    """Yield the absolute paths that *script* names, as written and with links resolved.

    For a folder, a placeholder for any file in it is added. A relative path is resolved against
    every folder that the script names or may go to, because it may be used in any of them.

    Raises:
        OutOfReach: There are too many to try; those that were tried come before.
    """
    yield from paths_of(list(dict.fromkeys(named_words(script, reach))), script, reach)


def paths_of(words: Sequence[str], script: str, reach: Reach) -> Iterator[PurePath]:
    """Yield the paths that *words* name, the `named_words` of *script*, as `named_paths` does."""
    folders = _folders(script, words, reach)
    tried = (
        os.path.join(folder, name)  # noqa: PTH118 - many words
        for folder in folders
        for word in words
        for name in _expanded(word, folder)
    )
    for count, path in enumerate(tried):
        if count >= _TRIED_MAX:
            raise OutOfReach(_TOO_MANY)
        yield from _as_found(os.path.normpath(path))


def _folders(script: str, words: Sequence[str], reach: Reach) -> Iterable[str]:
    """Return every folder in which *script* may use its *words*: one step for each `cd` in it.

    Raises:
        OutOfReach: There are too many to try.
    """
    found = {str(reach.root): None}
    newest = list(found)
    for _step in range(max(1, len(_CHANGES_DIRECTORY.findall(script)))):
        if len(newest) * len(words) > _TRIED_MAX:
            raise OutOfReach(_TOO_MANY)
        named = (
            os.path.normpath(os.path.join(folder, word))  # noqa: PTH118 - many words
            for folder in newest
            for word in words
        )
        newest = list(filter(os.path.isdir, dict.fromkeys(named).keys() - found.keys()))
        found |= dict.fromkeys(newest)
    return found


def named_words(script: str, reach: Reach) -> Iterator[str]:
    """Yield every piece of *script* that may be a path.

    Raises:
        OutOfReach: As `unbraced`, or the script is too long.
    """
    if is_too_large(script):
        raise OutOfReach(TOO_LONG)
    text = _HOME.sub(lambda _found: reach.home, script)
    text = _WORKING_DIRECTORY.sub(lambda _found: str(reach.root), text)
    plain = without_quotes(_ANSI_C.sub(_decoded, text))
    for each in dict.fromkeys((text, plain)):
        for word in _WORD_ENDS.split(each):
            yield from (at_home(found, reach) for found in brace_words(word))
        yield from (at_home(word, reach) for word in _PATH_ENDS.split(each) if word)
    for composed in composed_words(script, preset_values(reach)):
        bare = without_quotes(_ANSI_C.sub(_decoded, composed))
        yield from (at_home(word, reach) for word in brace_words(bare))
        yield from (at_home(word, reach) for word in (bare, *_PATH_ENDS.split(bare)) if word)
    # An expansion may be any text, also none: sec${unset}ret.
    expanded = _EXPANSION.sub("*", _EXPANSION.sub("*", plain))
    if expanded != plain:
        words = filter(_PARTLY_KNOWN.search, _WORD_ENDS.split(expanded))
        yield from (at_home(word, reach) for word in words)
    for word in filter(None, dict.fromkeys(chain.from_iterable(readings(text)))):
        yield at_home(word, reach)
        if joined := _JOINED_TO_OPTION.match(word):
            yield at_home(joined[1], reach)


def _decoded(text: re.Match[str]) -> str:
    """Return the value of a $'…' string; a character that no path can hold is left out."""

    def character(escape: re.Match[str]) -> str:
        if escape[3]:
            return escape[3]
        code = int(escape[1], 16) if escape[1] else int(escape[2], 8)
        return chr(code) if 0 < code < 0xD800 else ""

    return _ESCAPE.sub(character, text[1])


def at_home(word: str, reach: Reach) -> str:
    """Return *word* with a ~ at its beginning replaced by the home directory."""
    return reach.home + word[1:] if word == "~" or word.startswith("~/") else word


def brace_words(word: str) -> Iterator[str]:
    """Yield the brace expansions of *word*, and what is the value of an option in them.

    Raises:
        OutOfReach: There are too many.
    """
    if "{" not in word or not _WITH_BRACES.fullmatch(word):
        return
    try:
        for each in unbraced(word, words_max=_UNBRACED_MAX):
            yield from dict.fromkeys((each, each.rpartition("=")[2]))
    except TooManyWords as found:
        raise OutOfReach(str(found)) from found


def _expanded(word: str, folder: str) -> Iterator[str]:
    yield word
    if has_glob(word):
        yield from matches(word, folder)


def _as_found(path: str) -> Iterator[PurePath]:
    if not os.path.lexists(path):
        return
    for each in dict.fromkeys((path, os.path.realpath(path))):
        yield PurePath(each)
        if os.path.isdir(each):  # noqa: PTH112 - many words
            yield PurePath(each, _ANY_FILE)


def runs_own_files_only(command: str | Sequence[str]) -> bool:
    """Return whether it is certain that *command* runs nothing of the current folder.

    Files that it names by a path are judged elsewhere, by where they lie.

    Args:
        command: A script for a shell, or the words of one command.
    """
    if not isinstance(command, str):
        return _is_own(tuple(command))
    tree = syntax_tree(command)
    nodes = list(descendants(tree))
    if tree.has_error or any(map(is_misread, nodes)):
        return False
    if not all(_is_plain(node) for node in nodes if node.type == "variable_assignment"):
        return False
    return all(map(_is_own, all_commands(command)))


def _is_plain(assignment: "Node") -> bool:
    name = source(assignment).partition("=")[0].removesuffix("+")
    return bool(_PLAIN_VARIABLE.fullmatch(name)) and not _LOADING.fullmatch(name)


def _is_own(words: Reading) -> bool:
    if not words or words[0] is None:
        return False
    head, name = words[0], base_name(words[0])
    if name in _INTERPRETERS:
        return _is_script(words[1:], of_shell=name in SHELLS)
    if name in _KEEP_TO_THEMSELVES:
        reads_more = _READS_MORE.get(name)
        return not (reads_more and any(map(reads_more.match, filter(None, words))))
    return _is_path(head)


def _is_script(arguments: Reading, *, of_shell: bool) -> bool:
    """Return whether *arguments* begin with the path of a script that does not move with us."""
    for word in arguments:
        if word in _HARMLESS_OPTIONS and (of_shell or word not in _OPTIONS_OF_SHELLS_ONLY):
            continue
        return word is not None and _is_path(word)
    return False


def _is_path(word: str) -> bool:
    """Return whether *word* is the path of a script of the user, not of an installed program."""
    if not word.startswith(("/", "~/")) or word.startswith(_OF_THE_SYSTEM):
        return False
    return PurePath(word).parent.name not in _TOOL_FOLDERS
