"""Find what is lost of repositories: by commands of git, and by moves of their `.git`."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile
from pathlib import Path, PurePath
from typing import Final

from agent_cli.policies.shell.assignments import NEW
from agent_cli.policies.shell.deleted_folders import (
    DELETERS,
    FINDS,
    QUOTES,
    is_history,
    is_vital,
    sources_and_target,
    within,
)
from agent_cli.policies.shell.effects import listed_effect
from agent_cli.policies.shell.losses import takes_try_back
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.searches import FORCE, IS_FORCED
from agent_cli.policies.shell.starters import FIND_ENDS, STARTERS, base_name, git_call
from agent_cli.policies.shell.words import has_glob
from agent_cli.system.loading import late_pattern

MOVES_HISTORY: Final = "moves the history of a repository to where it may be lost"
_PARTS: Final = late_pattern(r"[{},/]")
_EXPANDS: Final = late_pattern(r"[${`]")
_HERE: Final = late_pattern(r"(?:\$\{?PWD\}?|\$\(pwd\)|`pwd`)/?")
_NAMES_HISTORY: Final = late_pattern(
    r"(?<![\w./*-])(?:\./)?\.git(?![\w.*-]|/[\w.*])", re.IGNORECASE
)
SECTION: Final = late_pattern(r"(?m)^\s*\[{1,2}([\w.:-]+)[^][\n]*\]{1,2}")
"""The line that begins a section of settings: of git, or in TOML."""
# The settings whose value git runs.
_RUN_BY_GIT: Final = late_pattern(
    r"pager|editor|askpass|sshcommand|fsmonitor|external|textconv|command|cmd|clean|smudge|process"
    r"|helper|program|difffilter|log|show|diff",
    re.IGNORECASE,
)
_MOVES_MAX: Final = 2_000
_EVERYTHING = r"\./?|:/|\*"
# An argument that makes a git command behind it irreversible.
_GIT_LOSSES = tuple(
    (subcommand, late_pattern(argument))
    for subcommand, argument in (
        ("reset", r"--h(?:a(?:rd?)?)?|--me\w*"),
        ("checkout", rf"{FORCE}|{_EVERYTHING}"),
        ("switch", rf"{FORCE}|--di.*"),
        ("branch", r"-\w*D\w*"),
        ("stash", "drop|clear"),
        ("reflog", "expire|delete"),
        ("update-ref", "-d"),
        ("symbolic-ref", r"-\w*d\w*|--de\w*"),
        ("worktree", FORCE),
        ("read-tree", "--reset"),
        ("gc", r"--prune=(?:now|all)"),
        ("checkout-index", FORCE),
        ("submodule", FORCE),
    )
)
_DELETE = late_pattern(r"-\w*d\w*|--de(?:l(?:e(?:te?)?)?)?")
_CLEAN_TRIES = late_pattern(r"-[dfiqxX]*n[dfiqxXn]*|--dry-run")
_CLEAN_VALUE = late_pattern(r"-\w*e|--exclude")
_CLEAN_FLAGS = late_pattern(r"-[dfqxX]+|--(?:force|quiet)?")
_NO_NAME = late_pattern(r"^[-:]|[*?\[\\]")
_PUSH_TRIES = late_pattern(r"-[qvfdu]*n[qvfdu]*|--dry-run")
_PUSH_VALUE = late_pattern(r"-\w*o|--(?:push-o|rec|exe|rep).*")
_GIT_PUSH = late_pattern(
    r"-\w*[fd]\w*|--(?:force|mirror|delete|prune).*|--(?:forc|mirro|mirr|mir|delet|dele|del|prun)"
    r"|[+:].*",
    re.DOTALL,
)


def lost_by_git(arguments: Reading, root: PurePath, *, moved: bool) -> str | None:
    """Return why git with *arguments* cannot be undone; *moved* if the folder is uncertain."""
    words = [word for word in arguments if word is not None]
    if _cleans_named(arguments, root, moved=moved):
        return None
    for subcommand, argument in _GIT_LOSSES:
        if subcommand not in words:
            continue
        behind = words[words.index(subcommand) + 1 :]
        if found := next(filter(argument.fullmatch, behind), None):
            does = listed_effect("git", (subcommand, *behind))
            return f"{does or f'git {subcommand} {found}'}, which git cannot undo"
    forced = any(map(IS_FORCED.fullmatch, words))
    if "branch" in words and forced and any(map(_DELETE.fullmatch, words)):
        return "git branch deletes commits that are in no other branch"
    if "restore" in words and not _only_unstages(words[words.index("restore") + 1 :]):
        return "git restore discards changes that are not committed"
    if "checkout" in arguments and _checks_files_out(
        arguments[arguments.index("checkout") + 1 :], root
    ):
        return "git checkout of files discards changes that are not committed"
    # Behind another subcommand, it is a word of another command in the same code.
    is_rm = "rm" in words and (None in arguments or words[0] == "rm" or words[0][:1] == "-")
    if is_rm and forced and "--cached" not in words:
        return "git rm --force discards changes that are not committed"
    if "push" in words and any(map(_GIT_PUSH.fullmatch, words)) and not _only_says(words):
        return "git push can overwrite or delete remote commits"
    if "prune" in git_call(words)[:1] and not _only_says(words):
        return "git prune deletes commits that nothing names, which git cannot undo"
    if (
        "clean" in words
        and (forced or "clean.requireForce=false" in words)
        and not _lists_only(words[words.index("clean") + 1 :])
    ):
        return "git clean deletes files that git does not hold"
    return None


def moves_history_away(
    commands: Sequence[tuple[str, Reading]], root: PurePath, script: str
) -> bool:
    """Return whether *commands* of *script*, in this order, may lose a repository's data by `mv`.

    They move it, or the whole of *root*, outside *root*, or delete it where it was moved to. What
    is moved is the repository's data where it is not known, and the script names them.
    """
    if not (moves := {arguments for name, arguments in commands if name == "mv"}):
        return False
    moved_to: list[str] = []
    is_named = _names_history(commands) or _NAMES_HISTORY.search(script) is not None
    paths: dict[str, str] = {}  # A long command is read from each word on.
    for name, arguments in commands:
        if len(moved_to) > _MOVES_MAX:
            return True
        if name == "mv":
            if arguments[-1:] == (None,) and None in arguments[:-1] and arguments[:-1] in moves:
                continue  # the same once more, with a name behind
            own = takewhile(lambda word: word not in FIND_ENDS, arguments)
            sources, target = sources_and_target(tuple(own))
            if target is not None and is_named:
                sources = tuple(each or ".git" for each in sources)
            for each in filter(None, sources):
                source = paths.get(each) or os.path.normpath(within(each, root))
                paths[each] = source
                if not (is_history(source) or _holds(source, moved_to) or _is_around(each, root)):
                    continue
                if target is None or target.startswith(NEW) or _is_outside(target, root):
                    return True
                inside = os.path.normpath(within(target, root))
                moved_to += (inside, os.path.normpath(f"{inside}/{PurePath(source).name}"))
        elif name in FINDS and "mv" in arguments and "-delete" not in arguments:
            continue
        elif moved_to and (name in DELETERS or "clean" in arguments[:1]):
            named = (os.path.normpath(within(word, root)) for word in arguments if word)
            if any(_holds(each, moved_to) for each in named):
                return True
    return False


def moves_hidden_away(words: Sequence[str]) -> bool:
    """Return whether `mv` with *words*, as written, takes away `.git` by a pattern or a variable.

    Also the whole folder of the workspace.
    """
    names = [*map(base_name, words)]
    if "mv" not in names or (names[0] != "mv" and names[0] not in STARTERS):
        return False
    arguments = words[names.index("mv") + 1 :]
    sources, target = sources_and_target(tuple(QUOTES.sub("", word) for word in arguments))
    if not target or not target.startswith(("/", "~", "..", "$")) or _HERE.match(target):
        return False
    return any(source and _may_be_history(source) for source in sources)


def _may_be_history(source: str) -> bool:
    *_, name = parts = _PARTS.split(source.rstrip("/"))
    if _EXPANDS.search(source):
        return ".git" in parts or _HERE.fullmatch(source) is not None
    return name.startswith(".") and has_glob(name) and fnmatchcase(".git", name)


def _names_history(commands: Iterable[tuple[str, Reading]]) -> bool:
    return any(word and is_history(word) for _, arguments in commands for word in arguments)


def _holds(path: str, moved_to: Sequence[str]) -> bool:
    """Return whether *path* is one of *moved_to*, or a folder around or in it."""
    return any(
        f"{each}/".startswith(f"{path}/") or (each != "." and path.startswith(f"{each}/"))
        for each in moved_to
    )


def _is_around(path: str, root: PurePath) -> bool:
    """Return whether *path* is *root* or a folder around it."""
    whole = PurePath(os.path.normpath(root / path))
    return whole == root or whole in root.parents


def _is_outside(target: str, root: PurePath) -> bool:
    return is_vital(target, root) and not (
        is_history(target) or PurePath(target) in (PurePath(), root)
    )


def _only_unstages(words: Sequence[str]) -> bool:
    """Return whether `git restore` with *words* leaves the files in the working tree alone."""
    options = [word for word in words if word.startswith("-")]
    staged = any(re.fullmatch(r"-\w*S\w*|--st\w*", word) for word in options)
    return staged and not any(re.fullmatch(r"-\w*W\w*|--w\w*", word) for word in options)


def _checks_files_out(arguments: Reading, root: PurePath) -> bool:
    """Return whether `git checkout` overwrites files, known or not, and changes no branch."""
    words = [word or "?" for word in arguments]
    if any(re.match(r"-[bBt]|--orphan|--track", word) for word in words):
        return False
    named = [word for word in words if not word.startswith("-")]
    return (
        "--" in words[:-1]
        or len(named) > 1
        or any(re.match(r"--(?:pathspec-from|ours|theirs)", word) for word in words)
        or any(Path(root, name).exists() for name in named)
    )


def _lists_only(words: Sequence[str]) -> bool:
    """Return whether `git clean` with *words* only says what it would delete."""
    own = [*takewhile(lambda word: word != "--", words)]
    return not takes_try_back(own) and any(
        _CLEAN_TRIES.fullmatch(word) and not _CLEAN_VALUE.fullmatch(before)
        for before, word in pairwise(("", *own))
    )


def _cleans_named(arguments: Reading, root: PurePath, *, moved: bool) -> bool:
    """Return whether git with *arguments* is a `clean` of what it names, as `rm -r` of that is."""
    if arguments[:1] != ("clean",) or moved:
        return False
    paths = [word for word in arguments[1:] if not _CLEAN_FLAGS.fullmatch(word or "")]
    return bool(paths) and not any(
        is_vital(each, root) or _NO_NAME.search(each or "-") for each in paths
    )


def _only_says(words: Sequence[str]) -> bool:
    """Return whether `git push` or `git prune` with *words* only says what it would do."""
    return not takes_try_back(words) and any(
        _PUSH_TRIES.fullmatch(word) and not _PUSH_VALUE.fullmatch(before)
        for before, word in pairwise(("", *takewhile(lambda word: word != "--", words)))
    )


def commands_of_git(text: str, words: Set[str | None]) -> Iterator[str]:
    """Yield the scripts that git runs by *text*, its settings: aliases that are among *words*."""
    section = ""
    for line in text.replace("\\\n", " ").split("\n"):
        if found := SECTION.match(line):
            section, line = found[1].casefold(), line[found.end() :]
        key, _, value = line.partition("=")
        name, value = key.strip(), value.strip().replace('\\"', "\0").replace('"', "")
        value = value.replace("\0", '"')
        if section == "alias" and not {None, name}.isdisjoint(words):
            yield value[1:] if value.startswith("!") else f"git {value}"
        elif section != "alias" and _RUN_BY_GIT.fullmatch(name):
            yield value.removeprefix("!")
