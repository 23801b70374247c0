"""Irreversible commands, which need a person's approval each time, in every mode."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, dropwhile
from pathlib import PurePath
from types import MappingProxyType

from agent_cli.policies.shell.data_losses import emptied_by, lost_by_request, taken_away
from agent_cli.policies.shell.deleted_folders import (
    FINDS,
    REMOVES_NAMED,
    REMOVES_TREES,
    RUN_FOR_EACH,
    UNLINKS,
    entered,
    is_cache,
    is_foreign_file,
    is_recursive,
    is_vital,
    leads_out,
    lost_rights,
    without_caches,
)
from agent_cli.policies.shell.entered_folders import IN_BACKGROUND, is_elsewhere
from agent_cli.policies.shell.feeding import (
    SEARCHES_CONTENT,
    fd_removes_all,
    lists_some,
    searches_shown,
)
from agent_cli.policies.shell.foreign_code import lists_and_deletes
from agent_cli.policies.shell.git_losses import (
    MOVES_HISTORY,
    lost_by_git,
    moves_hidden_away,
    moves_history_away,
)
from agent_cli.policies.shell.losses import lost_by_subcommand, takes_try_back
from agent_cli.policies.shell.readings import BEYOND, Reading, written_commands
from agent_cli.policies.shell.remote_commands import FILLS
from agent_cli.policies.shell.searches import (
    EVERY_FILE,
    EVERY_NAME,
    REMOVERS,
    feeds_xargs,
    is_narrow,
    listed_removals,
    lists_few,
    lost_by_find,
    removals,
    removes_each,
    removes_output,
)
from agent_cli.policies.shell.starters import base_name, options_end
from agent_cli.policies.shell.syntax import ENTERS_FIRST, TOO_LONG
from agent_cli.system.loading import late_pattern

_DISK = frozenset(
    {"wipefs", "fdisk", "parted", "sfdisk", "sgdisk", "gdisk", "shred", "blkdiscard", "mkswap"}
    | {"mke2fs", "mkntfs", "wipe", "scrub"}
)
_LISTS_DISKS = late_pattern(r"(?:s?fdisk|gdisk|parted) (?:-l|--list)(?: /dev/\w+)*")
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_DEVICE = r"/dev/(?:(?:sd|hd|vd|xvd|nvme|mmcblk|r?disk|md)\w+|mapper/\S+)"
_IS_DEVICE = late_pattern(_DEVICE)
_WRITES_DEVICE = late_pattern(rf">\|?\s*{_DEVICE}")
FOREIGN_FILE = "deletes files outside the workspace"
_EVERY_NAME_HERE = late_pattern(r"(?:\./)?(?:\*\*?/)*\*+(?:\.\*)?")
# `rm !(a)`: every name of a folder but a few, if bash reads patterns as ksh does.
_REMOVES_OTHERS = late_pattern(r"\b(?:rm|unlink|shred)\s(?:[^;&|()\n]{0,300}\s)?!\(")
# All images, those that were built here too, of which `docker image prune` deletes some.
_REMOVES_IMAGES = late_pattern(
    r"\b(?:docker|podman|nerdctl)\s+(?:images|image\s+ls)(?:\s+(?:-[aq]+|--all|--quiet))*\s*\|"
    r"\s*xargs\s[^|;&\n]*\b(?:rmi|image\s+rm)\b"
)
# An empty list of jobs in the place of the one of cron.
_EMPTIES_CRONTAB = late_pattern(
    r"(?:^|[\s;&|({])(?::|true|(?:echo(?:\s+-n)?|printf)(?:\s+(?:''|\"\"))?|cat\s+/dev/null)\s*\|"
    r"\s*(?:sudo\s+)?crontab\b(?!\s+-[le])|\bcrontab\b[^;&|\n<]*<(?:<<\s*(?:''|\"\")|\s*/dev/null)"
)
_RIGHTS = frozenset({"chmod", "chown", "chgrp", "chattr", "setfacl"})
_COPIES = frozenset({"cp", "mv", "tee", "install"})
_SEARCHES_MAX = 20  # each is read with all words behind it
_INVERTS = late_pattern(r"-[a-zA-Z]*v[a-zA-Z]*|--invert-match")
_EVERY_LINE = late_pattern(r"[.*^$]*")
_AT_HOME = late_pattern(r"\$(?:HOME\b|\{HOME\}).+", re.DOTALL)
# A mode without the owner's right to read.
_UNREADABLE = late_pattern(r"[0-3]?[0-7]{0,2}|0[0-3][0-7]{2}|[ugoa]*-[wx]*r[wx]*|[ugoa]*=")
# Of rsync, -e and the like take the rest of the word as a value.
_TRIES_ONLY = late_pattern(r"-[^-eBfMT]*n.*|--dry-run")
# It changes the folder of `cd x`, or of git.
_MOVES = late_pattern(r"cdpath|git_work_tree|core\.worktree")  # of the casefolded script
# It stands alone at the beginning, before anything could bring a file of that name.
_MAKES_FILE = late_pattern(
    r"\s*truncate\s+(?P<option>-s|--size)(?:\s+|=)?(?P<size>[1-9]\d*[KMGT]?)\s+(?P<name>\w[\w./-]*)"
    r"\s*(?:(?:&&|[;\n])(?!.*truncate)[^\"'\\$`]*)?",
    re.DOTALL | re.ASCII,
)
_FORCES_TREES = late_pattern(r"-(?=\w*[rR])(?=\w*f)[dfiIrRv]+")  # not -framerate


def destructions(readings: Iterable[Reading], root: PurePath, script: str = "") -> list[str]:
    """Return descriptions of what *readings*, those of *script*, would destroy or publish."""
    is_fed = feeds_xargs(script)
    seen = [*readings]
    if (made := _file_made(script, root)) and seen.count(made) == 1:
        seen.remove(made)
    commands = [*dict.fromkeys(_named(seen))]
    by_link = leads_out(commands, root)
    folder = _folder_entered(script, commands, root)
    moved = by_link or bool(_MOVES.search(script.casefold())) or is_elsewhere(commands, root)
    if not moved:
        searches = (("find", *words) for name, words in commands if name in FINDS)
        chosen = dict(chain.from_iterable(removals(each, root) for each in searches))
        chosen |= listed_removals(seen, root, script) if is_fed else {}
        seen = [chosen.get(each, each) for each in seen]
        commands = [*dict.fromkeys(_named(seen))]
    # A workspace that lies in a cache is none, nor is what may have been moved to one.
    is_kept = is_cache(str(root)) or any(name in FILLS for name, _ in commands)
    found = [
        _removal(name, words, root, moved=moved, by_link=by_link, folder=folder)
        if name in REMOVES_NAMED or name in REMOVES_TREES
        else _destruction(name, words, root, moved=moved, by_link=by_link or bool(folder))
        for name, words in (commands if is_kept else map(without_caches, commands))
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
            and not _reads_few(script, commands, root, may_be_folders=is_fed and not moved)
        )
        or (
            removes_output(script)
            and not _reads_few(script, commands, root, may_be_folders=not moved)
        )
    ):
        found.append("deletes everything that a command lists")
    found += lost_history(seen, root, script)
    if BEYOND in seen:
        found.append(TOO_LONG)
    return list(filter(None, dict.fromkeys(found)))


def lost_history(readings: Iterable[Reading], root: PurePath, script: str) -> list[str]:
    """Return the description of a move by which *readings*, in this order, may lose history."""
    commands = [*dict.fromkeys(_named(readings))]
    return [MOVES_HISTORY] if moves_history_away(commands, root, script) else []


def _file_made(script: str, root: PurePath) -> Reading:
    """Return the `truncate` with which *script* begins if it makes a new file; else ()."""
    found = _MAKES_FILE.fullmatch(script)
    if not found or ".." in found["name"] or os.path.lexists(root / found["name"]):
        return ()
    is_joined = not script[found.end("option")].isspace()
    size = script[found.end("option") : found.end("size")] if is_joined else found["size"]
    option = (found["option"] + size,) if is_joined else (found["option"], size)
    return ("truncate", *option, found["name"])


def _folder_entered(
    script: str, commands: Iterable[tuple[str, Reading]], root: PurePath
) -> str | None:
    """Return the folder outside *root* in which *script* runs; "" for *root*, None if unclear."""
    moves = [each for each in commands if each[0] == "popd" or [*entered(*each)]]
    found = ENTERS_FIRST.fullmatch(script) if len(moves) == 1 else None
    is_sure = found and found["sure"] and not IN_BACKGROUND.search(found["rest"])
    if found and is_sure and is_foreign_file(found["folder"], root, is_here=True):
        return f"{found['folder']}/"
    return None if moves else ""


def _named(seen: Iterable[Reading]) -> Iterator[tuple[str, Reading]]:
    """Yield the programs in *seen* with their arguments: one that is not known is `rm` for -rf."""
    seen = [*filter(None, seen)]
    called = {words[3]: words[2] for words in seen if words[:2] == ("hash", "-p") and words[3:]}
    for words in seen:
        if program := called.get(words[0], words[0]):
            name, arguments = base_name(program), words[1:]
            yield name, arguments
            if taken := taken_away(name, arguments):
                yield "rm", ("-r", "--", *taken)
            elif emptied := emptied_by(name, arguments):
                yield "rm", ("--", *emptied)
        elif _FORCES_TREES.fullmatch("".join(filter(None, words[1:2]))):
            yield "rm", words[1:]


def _reads_few(
    script: str, commands: Sequence[tuple[str, Reading]], root: PurePath, *, may_be_folders: bool
) -> bool:
    """Return whether *commands* list only files that were searched for, or what may be deleted."""
    shown = searches_shown(script)
    commands = [each for each in commands if each not in shown]
    if any(name in SEARCHES_CONTENT and _finds_some(words) for name, words in commands):
        return True
    searches = [words for name, words in commands if name in FINDS]
    few = (
        lists_few(each, root) if may_be_folders else is_narrow(each, lists=True)
        for each in searches
    )
    return bool(searches) and all(few)


def _finds_some(words: Reading) -> bool:
    """Return whether `grep` with *words* chooses lines by what they hold."""
    pattern = next((word for word in words if word is None or not word.startswith("-")), None)
    inverts = any(word and _INVERTS.fullmatch(word) for word in words)
    return not inverts and (pattern is None or not _EVERY_LINE.fullmatch(pattern))


# Cached: a decision asks for those of the same script twice.
@lru_cache(maxsize=8)
def written_losses(script: str, root: PurePath) -> Sequence[str]:
    """Describe what *script* loses, as written: what a device holds, or every file of a folder."""
    if _WRITES_DEVICE.search(script):
        return ("writes to a device",)
    if _EMPTIES_CRONTAB.search(script):
        return ("deletes all that cron runs at fixed times, which cannot be undone",)
    if _REMOVES_IMAGES.search(script):
        return ("deletes everything that a command lists",)
    if _REMOVES_OTHERS.search(script):
        return (f"rm {EVERY_FILE}",)
    scripts = [*written_commands(script)]
    if any(map(moves_hidden_away, scripts)):
        return (MOVES_HISTORY,)
    behind = (dropwhile(lambda each: base_name(each) not in _RIGHTS, words) for words in scripts)
    if rights := next(filter(None, map(lost_rights, map(tuple, behind))), None):
        return (rights,)
    unlinked = [dropwhile(lambda word: base_name(word) not in UNLINKS, each) for each in scripts]
    targets = [*chain.from_iterable(unlinked)]
    found = [
        *(
            f"rm {each} deletes every file of a folder"
            for each in targets
            if EVERY_NAME.fullmatch(each) and (is_cache(str(root)) or not is_cache(each))
        ),
        *(FOREIGN_FILE for each in targets if _AT_HOME.fullmatch(each.strip('"'))),
    ]
    for words in scripts:
        begins = [at for at, word in enumerate(words) if base_name(word) in ("fd", "fdfind")]
        found += [
            f"{words[at]} {EVERY_FILE}"
            for at in begins[:_SEARCHES_MAX]
            if fd_removes_all(words[at + 1 :])
        ]
        found += [TOO_LONG] if len(begins) > _SEARCHES_MAX else []
    return tuple(dict.fromkeys(found))


def _destruction(
    name: str, arguments: Reading, root: PurePath, *, moved: bool, by_link: bool
) -> str | None:
    words = [word for word in arguments if word is not None]
    if name in FINDS:
        return lost_by_find(arguments, root, moved=moved, by_link=by_link)
    if lists_and_deletes(name, words):
        return EVERY_FILE
    if name in _CHANGES:
        return _CHANGES[name](words)
    if lost := lost_by_subcommand(name, words):
        return lost
    if lost := lost_by_request(name, arguments):
        return lost
    if name == "git":
        return lost_by_git(arguments, root, moved=moved)
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
    name: str, arguments: Reading, root: PurePath, *, moved: bool, by_link: bool, folder: str | None
) -> str | None:
    """Return why `rm` or its like, *name*, with *arguments* is dangerous.

    With *moved*, the folder is uncertain, which an absolute path does not depend on; *by_link*,
    a path may lead elsewhere than its text says. A relative one begins in *folder*, if known.
    """
    end = options_end(arguments)
    options = [word for word in arguments[:end] if word and word.startswith("-")]
    recursive = name in REMOVES_TREES or any(
        option.startswith("--r") or (option[1:2] != "-" and {"r", "R"} & set(option))
        for option in options
    )
    before = (word for word in arguments[:end] if word is None or not word.startswith("-"))
    named = (*before, *arguments[end + 1 :])
    if recursive and any(
        each is None
        or by_link
        or (name != "rm" and _EVERY_NAME_HERE.fullmatch(each))
        or is_vital(each, root)
        or (moved and each[0] != "/")
        for each in named
    ):
        return "deletes folders that are unclear or outside the workspace"
    paths = (each if each[0] in "/~" else f"{folder or ''}{each}" for each in filter(None, named))
    is_here = folder is not None
    is_foreign = any(is_foreign_file(each, root, is_here=is_here) for each in paths)
    return FOREIGN_FILE if is_foreign else None


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
