"""Irreversible commands, which need a person's approval each time, in every mode."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, dropwhile, pairwise, takewhile
from pathlib import Path, PurePath
from types import MappingProxyType

from agent_cli.policies.shell.data_losses import lost_by_request
from agent_cli.policies.shell.deleted_folders import (
    FINDS,
    MOVES_HISTORY,
    REMOVES_TREES,
    RUN_FOR_EACH,
    file_made,
    is_elsewhere,
    is_recursive,
    is_vital,
    leads_out,
    lost_rights,
    moves_hidden_away,
    moves_history_away,
)
from agent_cli.policies.shell.effects import listed_effect
from agent_cli.policies.shell.foreign_code import lists_and_deletes
from agent_cli.policies.shell.losses import lost_by_subcommand, takes_try_back
from agent_cli.policies.shell.readings import BEYOND, Reading, written_commands
from agent_cli.policies.shell.searches import (
    EVERY_FILE,
    EVERY_NAME,
    FORCE,
    IS_FORCED,
    REMOVERS,
    fd_removes_all,
    feeds_xargs,
    is_narrow,
    listed_removals,
    lists_few,
    lists_some,
    lost_by_find,
    removals,
    removes_each,
    removes_output,
)
from agent_cli.policies.shell.starters import base_name, git_call, options_end
from agent_cli.policies.shell.syntax import TOO_LONG
from agent_cli.system.loading import late_pattern

_DISK = frozenset(
    {"wipefs", "fdisk", "parted", "sfdisk", "sgdisk", "gdisk", "shred", "blkdiscard", "mkswap"}
    | {"mke2fs", "mkntfs", "wipe", "scrub"}
)
_LISTS_DISKS = late_pattern(r"(?:sfdisk|fdisk|parted) (?:-l|--list)(?: /dev/\w+)*")
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_EVERYTHING = r"\./?|:/|\*"
_DEVICE = r"/dev/(?:(?:sd|hd|vd|xvd|nvme|mmcblk|r?disk|md)\w+|mapper/\S+)"
_IS_DEVICE = late_pattern(_DEVICE)
_WRITES_DEVICE = late_pattern(rf">\|?\s*{_DEVICE}")
_EVERY_NAME_HERE = late_pattern(r"(?:\./)?(?:\*\*?/)*\*+(?:\.\*)?")
_UNLINKS = frozenset({"rm", "unlink", "shred"})
_RIGHTS = frozenset({"chmod", "chown", "chgrp"})
_COPIES = frozenset({"cp", "mv", "tee", "install"})
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
_SEARCHES_MAX = 20  # each is read with all words behind it
_FIND_BY_CONTENT = frozenset({"grep", "egrep", "fgrep", "rg"})
# A mode without the owner's right to read.
_UNREADABLE = late_pattern(r"[0-3]?[0-7]{0,2}|0[0-3][0-7]{2}|[ugoa]*-[wx]*r[wx]*|[ugoa]*=")
_DELETE = late_pattern(r"-\w*d\w*|--de(?:l(?:e(?:te?)?)?)?")
# Of rsync, -e and the like take the rest of the word as a value.
_TRIES_ONLY = late_pattern(r"-[^-eBfMT]*n.*|--dry-run")
_CLEAN_TRIES = late_pattern(r"-[dfiqxX]*n[dfiqxXn]*|--dry-run")
_CLEAN_VALUE = late_pattern(r"-\w*e|--exclude")
_CLEAN_FLAGS = late_pattern(r"-[dfqxX]+|--(?:force|quiet)?")
# It changes the folder of `cd x`, or of git.
_MOVES = late_pattern(r"cdpath|git_work_tree|core\.worktree")  # of the casefolded script
_NO_NAME = late_pattern(r"^[-:]|[*?\[\\]")
_PUSH_TRIES = late_pattern(r"-[qvfdu]*n[qvfdu]*|--dry-run")
_PUSH_VALUE = late_pattern(r"-\w*o|--(?:push-o|rec|exe|rep).*")
_FORCES_TREES = late_pattern(r"-(?=\w*[rR])(?=\w*f)[dfiIrRv]+")  # not -framerate
_GIT_PUSH = late_pattern(
    r"-\w*[fd]\w*|--(?:force|mirror|delete|prune).*|--(?:forc|mirro|mirr|mir|delet|dele|del|prun)"
    r"|[+:].*",
    re.DOTALL,
)


def destructions(readings: Iterable[Reading], root: PurePath, script: str = "") -> list[str]:
    """Return descriptions of what *readings*, those of *script*, would destroy or publish."""
    is_fed = feeds_xargs(script)
    seen = [*readings]
    if (made := file_made(script, root)) and seen.count(made) == 1:
        seen.remove(made)
    commands = [*dict.fromkeys(_named(seen))]
    by_link = leads_out(commands, root)
    moved = by_link or bool(_MOVES.search(script.casefold())) or is_elsewhere(commands, root)
    if not moved:
        searches = (("find", *words) for name, words in commands if name in FINDS)
        chosen = dict(chain.from_iterable(removals(each, root) for each in searches))
        chosen |= listed_removals(seen, root) if is_fed else {}
        seen = [chosen.get(each, each) for each in seen]
        commands = [*dict.fromkeys(_named(seen))]
    found = [
        _removal(name, words, root, moved=moved, by_link=by_link)
        if name == "rm" or name in REMOVES_TREES
        else _destruction(name, words, root, moved=moved)
        for name, words in commands
    ]
    reads = any(name == "read" for name, _ in commands)
    removes_list = any(
        (name in RUN_FOR_EACH and removes_each(words))
        or (name in REMOVERS and reads and None in words)
        for name, words in commands
    )
    if not any(found) and (
        (
            removes_list
            and (moved or not lists_some(script, root))
            and not _reads_few(commands, root, may_be_folders=is_fed and not moved)
        )
        or (removes_output(script) and not _reads_few(commands, root, may_be_folders=not moved))
    ):
        found.append("deletes every file that a command lists")
    if moves_history_away(commands, root):
        found.append(MOVES_HISTORY)
    if BEYOND in seen:
        found.append(TOO_LONG)
    return list(filter(None, dict.fromkeys(found)))


def _named(seen: Iterable[Reading]) -> Iterator[tuple[str, Reading]]:
    """Yield the programs in *seen* with their arguments: one that is not known is `rm` for -rf."""
    for words in seen:
        if words and words[0]:
            yield base_name(words[0]), words[1:]
        elif _FORCES_TREES.fullmatch("".join(filter(None, words[1:2]))):
            yield "rm", words[1:]


def _reads_few(
    commands: Sequence[tuple[str, Reading]], root: PurePath, *, may_be_folders: bool
) -> bool:
    """Return whether *commands* list only files that were searched for, or what may be deleted."""
    if any(name in _FIND_BY_CONTENT for name, _ in commands):
        return True
    searches = [words for name, words in commands if name in FINDS]
    few = (
        lists_few(each, root) if may_be_folders else is_narrow(each, lists=True)
        for each in searches
    )
    return bool(searches) and all(few)


def written_losses(script: str) -> list[str]:
    """Describe what *script* loses, as written: what a device holds, or every file of a folder."""
    if _WRITES_DEVICE.search(script):
        return ["writes to a device"]
    scripts = [*written_commands(script)]
    if any(map(moves_hidden_away, scripts)):
        return [MOVES_HISTORY]
    behind = (dropwhile(lambda each: base_name(each) not in _RIGHTS, words) for words in scripts)
    if rights := next(filter(None, map(lost_rights, map(tuple, behind))), None):
        return [rights]
    found = [
        f"rm {target} deletes every file of a folder"
        for words in scripts
        for target in dropwhile(lambda word: base_name(word) not in _UNLINKS, words)
        if EVERY_NAME.fullmatch(target)
    ]
    for words in scripts:
        begins = [at for at, word in enumerate(words) if base_name(word) in ("fd", "fdfind")]
        found += [
            f"{words[at]} {EVERY_FILE}"
            for at in begins[:_SEARCHES_MAX]
            if fd_removes_all(words[at + 1 :])
        ]
        found += [TOO_LONG] if len(begins) > _SEARCHES_MAX else []
    return list(dict.fromkeys(found))


def _destruction(name: str, arguments: Reading, root: PurePath, *, moved: bool) -> str | None:
    words = [word for word in arguments if word is not None]
    if name in FINDS:
        return lost_by_find(arguments, root, moved=moved)
    if lists_and_deletes(name, words):
        return EVERY_FILE
    if name in _CHANGES:
        return _CHANGES[name](words)
    if lost := lost_by_subcommand(name, words):
        return lost
    if lost := lost_by_request(name, arguments):
        return lost
    if name == "git":
        return None if _cleans_named(arguments, root, moved=moved) else _git_loss(words, root)
    if _LISTS_DISKS.fullmatch(" ".join((name, *words))):
        return None
    if name in _DISK or name.startswith(("mkfs", "newfs")):
        return f"{name} permanently overwrites disks or files"
    if name == "dd" and any(word.startswith("of=/dev/") for word in words):
        return "dd writes to a device"
    if name in _COPIES and any(map(_IS_DEVICE.fullmatch, words)):
        return f"{name} writes to a device"
    if name in _POWER or (name in ("init", "telinit") and words[:1] in (["0"], ["6"])):
        return f"{name} stops the machine"
    return None


def _removal(
    name: str, arguments: Reading, root: PurePath, *, moved: bool, by_link: bool
) -> str | None:
    """Return why `rm` or its like, *name*, with *arguments* is dangerous.

    With *moved*, the folder is uncertain, which an absolute path does not depend on; *by_link*,
    a path may lead elsewhere than its text says.
    """
    end = options_end(arguments)
    options = [word for word in arguments[:end] if word and word.startswith("-")]
    recursive = name != "rm" or any(
        option.startswith("--r") or (option[1:2] != "-" and {"r", "R"} & set(option))
        for option in options
    )
    named = (word for word in arguments[:end] if word is None or not word.startswith("-"))
    if recursive and any(
        each is None
        or by_link
        or (name != "rm" and _EVERY_NAME_HERE.fullmatch(each))
        or is_vital(each, root)
        or (moved and each[0] != "/")
        for each in chain(named, arguments[end + 1 :])
    ):
        return "deletes folders that are unclear or outside the workspace"
    return None


def _chmod(words: Sequence[str]) -> str | None:
    if is_recursive(words) and any(map(_UNREADABLE.fullmatch, words)):
        return "chmod makes all files of a folder unreadable"
    return lost_rights(words)


def _only_tries(words: Sequence[str]) -> bool:
    return any(map(_TRIES_ONLY.fullmatch, words)) and not takes_try_back(words)


def _rsync(words: Sequence[str]) -> str | None:
    if not _only_tries(words) and any(re.match(r"--del|--remove-s", word) for word in words):
        return "rsync deletes files that the other side does not have"
    return None


def _truncate(words: Sequence[str]) -> str | None:
    size = re.search(r"(?:^| )(?:-s ?|--size[= ])(\S+)", " ".join(words))
    if size and not size[1].startswith(("+", ">")):
        return "truncate cuts files off"
    return None


_CHANGES: Mapping[str, Callable[[Sequence[str]], str | None]] = MappingProxyType(
    dict.fromkeys(_RIGHTS, lost_rights) | {"chmod": _chmod, "rsync": _rsync, "truncate": _truncate}
)


def _only_unstages(words: Sequence[str]) -> bool:
    """Return whether `git restore` with *words* leaves the files in the working tree alone."""
    options = [word for word in words if word.startswith("-")]
    staged = any(re.fullmatch(r"-\w*S\w*|--st\w*", word) for word in options)
    return staged and not any(re.fullmatch(r"-\w*W\w*|--w\w*", word) for word in options)


def _checks_files_out(words: Sequence[str], root: PurePath) -> bool:
    """Return whether `git checkout` with *words* overwrites files instead of changing branches."""
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


def _pushes_nothing(words: Sequence[str]) -> bool:
    """Return whether `git push` with *words* only says what it would push."""
    return not takes_try_back(words) and any(
        _PUSH_TRIES.fullmatch(word) and not _PUSH_VALUE.fullmatch(before)
        for before, word in pairwise(("", *takewhile(lambda word: word != "--", words)))
    )


def _git_loss(words: Sequence[str], root: PurePath) -> str | None:
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
    if "checkout" in words and _checks_files_out(words[words.index("checkout") + 1 :], root):
        return "git checkout of files discards changes that are not committed"
    if "rm" in words and forced and "--cached" not in words:
        return "git rm --force discards changes that are not committed"
    if "push" in words and any(map(_GIT_PUSH.fullmatch, words)) and not _pushes_nothing(words):
        return "git push can overwrite or delete remote commits"
    if "prune" in git_call(words)[:1] and not _only_tries(words):
        return "git prune deletes commits that nothing names, which git cannot undo"
    if (
        "clean" in words
        and (forced or "clean.requireForce=false" in words)
        and not _lists_only(words[words.index("clean") + 1 :])
    ):
        return "git clean deletes files that git does not hold"
    return None
