"""Decide whether a user's command runs only the user's own files.

A hook runs outside the sandbox only if that is certain. `make`, `npx`, `git` and most other
programs run what they find in the current folder, so only two kinds count: programs known not to
do that, and scripts that the command names by path. Which files some of the others run is here,
too.
"""

import re
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from agent_cli.policies.shell.readings import Reading, all_commands
from agent_cli.policies.shell.starters import SHELLS, base_name
from agent_cli.policies.shell.syntax import descendants, is_misread, source, syntax_tree
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

FileKind: TypeAlias = Literal["shell", "code", "tests", "windows", "tasks"]
"""What runs a file: a shell, another language's interpreter, tests in one, Windows, or `make`."""

_RUNS_MAKEFILES: Final = frozenset({"make", "gmake", "bmake", "just"})
_RUNS_SCRIPTS: Final = frozenset({"npm", "pnpm", "yarn", "bun", "deno", "npx", "corepack", "turbo"})
RUN_BY_NAME: Final[Mapping[str, Mapping[str, FileKind]]] = MappingProxyType(
    {
        program: dict.fromkeys(names.split(), kind)
        for programs, names, kind in cast(
            "Sequence[tuple[str, str, FileKind]]",
            (
                (" ".join(_RUNS_MAKEFILES), "*akefile *.mk *ustfile", "tasks"),
                (" ".join(_RUNS_SCRIPTS), "package.json deno.json deno.jsonc", "tasks"),
                ("python pypy ipython", "*.py", "code"),
                ("pytest py.test unittest tox nox", "*.py", "tests"),
                ("node nodejs tsx ts-node", "*.[cm]js *.[jt]s", "code"),
                ("jest vitest mocha ava", "*.[cm]js *.[jt]s *.[jt]sx", "tests"),
                ("go", "*.go", "code"),
                ("cargo rustc", "*.rs", "code"),
                ("cc gcc clang c++ g++ clang++ tcc", "*.c *.cc *.cpp *.cxx", "code"),
                ("ruby rake rspec bundle", "*.rb Rakefile Gemfile", "code"),
                ("git", "pre-* post-* commit-msg prepare-commit-msg", "shell"),
            ),
        )
        for program in programs.split()
    }
)
"""The files, by patterns of their names, that programs run by themselves where these stand."""

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


def goals_of(seen: Sequence[Reading]) -> Set[str | None]:
    """Return what *seen* may name for `make`, `npm` and the like to run; None: any."""
    runs = _RUNS_MAKEFILES | _RUNS_SCRIPTS
    calls = (words[1:] for words in seen if words and base_name(words[0] or "") in runs)
    words = chain.from_iterable(calls)
    return {word for word in words if word is None or (word[:1] != "-" and "=" not in word)}
