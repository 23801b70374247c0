"""Find where a script deletes: in folders outside the workspace, or in ones that hold history.

By the text, and by the links of the workspace as they are before the script.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, dropwhile, islice, pairwise, product, takewhile
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.assignments import NEW
from agent_cli.policies.shell.reach import matches
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import base_name, options_end, with_unknown
from agent_cli.policies.shell.words import has_glob
from agent_cli.sandbox.path_sets import TEMPORARY
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path

FINDS: Final = frozenset({"find", "gfind"})
ENTER_DIR: Final = frozenset({"cd", "pushd"})
CHANGE_DIR: Final = ENTER_DIR | {"popd"}
REMOVES_NAMED: Final = frozenset({"rm", "unlink"})
UNLINKS: Final = REMOVES_NAMED | {"shred"}
REMOVES_TREES: Final = frozenset({"rimraf", "del-cli", "srm"})
"""`rm -rf` under another name."""
RUN_FOR_EACH: Final = frozenset({"xargs", "gxargs", "parallel"})
"""They run a command for the names that they read."""

# Of a running program, and gone with it. Deeper, and in /run/media, other file systems are mounted.
_RUNTIME_FILE: Final = late_pattern(
    r"(?:/var)?/run/(?:lock/.+|user/\d+/(?:[^/]+/)?[^/]+|(?:[^/]+/)?[^/]+\.(?:pid|lock|sock(?:et)?))"
)
# What programs fill anew by themselves; no folder whose name may be that of a person.
_CACHE: Final = late_pattern(
    r"(?:~|/root|/(?:home|Users)/[^/]+)/(?:\.npm/_cacache|(?:\.cache|Library/Caches)/.*[^/*].*)"
    r"|/var/lib/apt/lists(?:/.*)?|/var/cache/(?:apt|apk|dnf|yum)(?:/.*)?",
    re.DOTALL,
)
_HISTORY: Final = (".git", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/heads")
_OPTION_OF_FOLDER: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "env": late_pattern(r"(?:-\w*C|--ch\w*)(?:=?(.+))?"),
        **dict.fromkeys(("sudo", "doas"), late_pattern(r"(?:-\w*D|--ch\w*)(?:=?(.+))?")),
        "systemd-run": late_pattern(
            r"(?:--wo[\w-]*|(?:-p|--property=)?WorkingDirectory)(?:=(.+))?"
        ),
        **dict.fromkeys(("nsenter", "bwrap"), late_pattern(r"--(?:wd\w*|chdir)(?:=(.+))?")),
    }
)
# A path from the root may be another one there.
_OTHER_ROOT: Final = frozenset({"chroot", "nsenter", "bwrap"})
DELETERS: Final = frozenset({"rm"}) | REMOVES_TREES | FINDS
_MOVERS: Final = frozenset({"mv", "cp"})
QUOTES: Final = late_pattern(r"[\"']")
_TARGET_FOLDER: Final = late_pattern(r"(?:-[a-zA-Z]*t|--t[a-z-]*(?:=|$))(.*)", re.DOTALL)
_FROM_HERE: Final = _MOVERS | RUN_FOR_EACH | {"ln", "truncate", "fd", "fdfind", "read"}
# The root, a folder of the system in it, a home directory, or the folder around.
_LARGE_TREE: Final = late_pattern(
    r"/+(?:\*|(?:s?bin|boot|dev|etc|home|lib\d*|root|usr|var|Users)(?:/\*)?)?"
    r"|(?:~[\w-]*|\$(?:HOME|\{HOME\}))(?:/\*)?|\.\.(?:/\.\.)*(?:/\*)?"
)
_ALL_OR_HISTORY: Final = late_pattern(r"(?:\.?\*+(?:\.\*)?)?|\.git", re.IGNORECASE)
_RECURSIVE: Final = late_pattern(r"-\w*R\w*|--recursive")
_BEFORE_FOLDERS: Final = late_pattern(r"-(?:[HLPEXxs]+|O\d*)")
# `find` then does more than to list, or a program takes its list.
_FIND_ACTS: Final = late_pattern(r"-(?:delete|exec\w*|ok\w*|f?print\w+)")
_TAKES_LIST: Final = frozenset({"xargs", "parallel", "read", "mapfile", "readarray"})
# More files, or patterns within each other, are not looked through: that could take long.
_TARGETS_MAX: Final = 2_000
_LOOKS_MAX: Final = 10_000
_PATTERNS_MAX: Final = 2
_FIND_WORDS_MAX: Final = 50
_MOVES_MAX: Final = 4  # of a link that is moved, and moved again


def is_vital(target: str | None, root: PurePath) -> bool:
    """Return whether *target* may be *root*, lie outside, or be a repository's own data."""
    if target is None:
        return True
    path = PurePath(target)
    outside = target.startswith("~") or ".." in path.parts
    if path.is_absolute():
        outside |= root not in path.parents and not target.startswith(NEW)
    return outside or not path.parts or is_history(target)


def is_history(target: str) -> bool:
    """Return whether *target* is a repository's own data."""
    name = target.casefold()  # macOS takes .GIT for .git.
    return ".git" in name and any(map(PurePath(name).match, _HISTORY))


def is_foreign_file(target: str, root: PurePath, *, is_here: bool) -> bool:
    """Return whether *target* lies outside *root*, is no temporary file and of no running program.

    A path that is not whole is known with *is_here*, in no other folder than *root*.
    """
    path = os.path.normpath(root / target)
    is_known = target.startswith("/") or is_here
    around = (root, *TEMPORARY)
    is_kept = not any(f"{path}/".startswith(f"{each}/") for each in around)
    return target.startswith("~") or (is_known and is_kept and not _RUNTIME_FILE.fullmatch(path))


def is_cache(target: str) -> bool:
    """Return whether *target* is in a cache, or is the whole one of a program of the machine."""
    return _CACHE.fullmatch(os.path.normpath(target)) is not None


def without_caches(command: tuple[str, Reading]) -> tuple[str, Reading]:
    """Return *command*, a program and its arguments, without the caches that it deletes."""
    name, words = command
    if name not in REMOVES_NAMED and name not in REMOVES_TREES:
        return command
    return name, tuple(each for each in words if not (each and is_cache(each)))


def brings_paths(readings: Sequence[Reading]) -> bool:
    """Return whether *readings* may bring a link, or delete what they do not name."""
    searches = (each for each in readings if each and base_name(each[0] or "") in FINDS)
    # What `find` finds is no program; behind a long one, it may be.
    found = {each for words in searches for each in _unknown_tails(words[:_FIND_WORDS_MAX])}
    names = ((base_name(words[0] or ""), words) for words in readings if words not in found)
    return any(
        not name or name in _FROM_HERE or (name == "git" and "clean" in words)
        for name, words in names
    )


def _unknown_tails(search: Reading) -> Iterator[Reading]:
    words = with_unknown(search)
    for at, word in enumerate(words):
        if word is None:
            yield from (words[at:], (*words[at:], None))


def with_whole_paths(
    readings: Sequence[Reading],
    written: Sequence[Reading],
    root: PurePath,
    opened: Sequence[PurePath],
) -> Iterator[Reading]:
    """Yield *readings*, and in those that delete whole paths for `../x` where that is in *opened*.

    Only in commands *written* in the script itself, which changes no folder: what another program
    starts may run elsewhere.
    """
    named = [(base_name(words[0] or ""), words) for words in readings if words]
    is_here = not any(name in CHANGE_DIR or any(entered(name, words[1:])) for name, words in named)
    times, in_script = Counter(readings), Counter(written)
    for name, words in named:
        for_whole = is_here and name in DELETERS and times[words] <= in_script[words]
        yield tuple(_whole(each, root, opened) for each in words) if for_whole else words


def _whole(path: str | None, root: PurePath, opened: Sequence[PurePath]) -> str | None:
    behind = dropwhile(lambda part: part == "..", (path or "").split("/"))
    # Behind a link, `..` leads elsewhere.
    if not path or not path.startswith("../") or ".." in behind:
        return path
    whole = os.path.normpath(root / path) + ("/" if path.endswith("/") else "")
    return whole if _folder_of(whole, opened) else path


def without_others(words: Reading, folder: PurePath, opened: Sequence[PurePath]) -> Reading:
    """Return the command *words* without what it deletes elsewhere than in *folder*.

    What a whole path names in one of *opened* is deleted there, all else in another folder. () if
    it deletes nothing in *folder*.
    """
    name, arguments = base_name(words[0] or "") if words else "", words[1:]
    if name not in DELETERS:
        return words
    named = [each for each in _operands(name, arguments) if (each or "/")[0] != "-"]
    folders = {each: _folder_of(each, opened) for each in named}
    here = folder if folder in opened else None
    if name in FINDS:
        found = {*folders.values()}
        return words if here == (found.pop() if len(found) == 1 else None) else ()
    kept = tuple(each for each in arguments if each not in folders or folders[each] == here)
    is_left = here in folders.values() or (here is None and not folders)
    return (words[0], *kept) if is_left else ()


def _folder_of(path: str | None, opened: Sequence[PurePath]) -> PurePath | None:
    """Return which of *opened* the whole path *path* is in; None if in none."""
    if not path or path[0] != "/" or ".." in path:
        return None
    whole = PurePath(path)
    return next((each for each in opened if each == whole or each in whole.parents), None)


def names_folder(pattern: str, root: PurePath) -> bool:
    """Return whether *pattern* may name a folder in *root*: `ls` lists what that holds."""
    names = [*islice(matches(pattern, str(root)), _TARGETS_MAX)]
    return len(names) == _TARGETS_MAX or any(
        os.path.isdir(f"{root}/{name}")  # noqa: PTH112 - False for a name that is too long
        for name in names
    )


def is_recursive(words: Sequence[str]) -> bool:
    """Return whether `chmod` or its like with *words* changes all files of folders."""
    return any(map(_RECURSIVE.fullmatch, words))


def lost_rights(words: Sequence[str]) -> str | None:
    """Return what `chmod` or its like does to folders among *words*, known or as written."""
    plain = (os.path.normpath(QUOTES.sub("", word)) for word in words)
    if is_recursive(words) and any(map(_LARGE_TREE.fullmatch, plain)):
        return "changes who may use all files of the machine or of a home directory"
    return None


def leads_out(commands: Sequence[tuple[str, Reading]], root: PurePath) -> bool:
    """Return whether a path in which *commands* delete may lead outside *root*, by a link."""
    if any(name in _OTHER_ROOT for name, _ in commands):
        return True
    is_list_taken = any(name in _TAKES_LIST for name, _ in commands)
    deletions = [
        _operands(*each)
        for each in commands
        if each[0] in DELETERS and (is_list_taken or not _only_lists(*each))
    ]
    if not deletions:
        return False
    folders_in, looks = [""], 0
    entries = chain.from_iterable(entered(*each) for each in commands)
    changes = [*filter(None, dict.fromkeys(entries))]
    changes += _before_moves((f"{word}/" for word in changes), commands, root)
    links = [*chain.from_iterable(_links(*each, root) for each in commands)]
    made = [link for link, leads_to in links if PurePath(leads_to) not in (PurePath(), root)]
    to_root = {link for link, _ in links} - {*made}
    named = {*filter(None, chain.from_iterable(deletions))}
    moved = _before_moves(named, commands, root)
    if any(_takes_all_of_root(each, to_root, root) for each in (*named, *moved)):
        return True
    inside = {each for word in named if (each := _named_in(word, root))}
    inside |= _before_moves(inside, commands, root)
    behind = chain(named, inside, (f"{word}/" for word in changes))
    if made and any(_is_behind(word, made, root) for word in behind):
        return True
    # Each `cd` may start at the root or where one before it led.
    for word in changes:
        inner = [f"{each}{within(word, root)}/" for each in folders_in]
        # That of os is False for a name that is too long, or that may not be looked at.
        folders_in += [each for each in inner if os.path.isdir(f"{root}/{each}")]  # noqa: PTH112
        if (looks := looks + len(inner)) > _LOOKS_MAX:
            return True
    targets = {"".join(each) for each in islice(product(folders_in, inside), _TARGETS_MAX)}
    if len(targets) == _TARGETS_MAX or any(map(_has_many_patterns, targets)):
        return True
    found = chain.from_iterable(matches(each, str(root)) for each in targets)
    paths = [f"{root}/{each}" for each in islice(found, _LOOKS_MAX)]
    folders = dict.fromkeys(each.rpartition("/")[0] for each in paths if os.path.lexists(each))
    return max(len(paths) - _LOOKS_MAX, len(folders) - _TARGETS_MAX) >= 0 or any(
        not real_path(each).is_relative_to(root) for each in folders
    )


def _takes_all_of_root(word: str, links: Collection[str], root: PurePath) -> bool:
    """Return whether *word* names all files of *root*, or its history, behind a link to it.

    One of *links*, or one that is there.
    """
    folder, slash, name = within(word, root).rpartition("/")
    linked = os.path.normpath(folder)
    is_link = slash and linked not in (".", "..") and not linked.startswith(("../", "/", "~"))
    if not is_link or has_glob(folder) or not _ALL_OR_HISTORY.fullmatch(name):
        return False
    return linked in links or real_path(f"{root}/{linked}") == root


def entered(name: str, arguments: Reading) -> Iterator[str | None]:
    """Yield the folders that a wrapper or `cd` with *arguments* may enter."""
    if name in ENTER_DIR:
        yield from arguments
    elif option := _OPTION_OF_FOLDER.get(name):
        for word, behind in pairwise((*arguments, None)):
            if word is not None and (found := option.fullmatch(word)):
                yield found[1] or behind


def _named_in(target: str, root: PurePath) -> str:
    """Return what `rm -r` of *target* deletes, from *root* on; "" if the text says where that is.

    Of files that a pattern chooses, it is their folder. Behind a / at its end, a link is followed.
    """
    inside = within(target, root)
    if inside.startswith(("/", "~", "-")):
        return ""
    folder, slash, name = inside.rpartition("/")
    return folder + slash if has_glob(name) else inside


def within(target: str, root: PurePath) -> str:
    """Return *target* as a path from *root* on, if it names one in it by the whole path."""
    if not target.startswith("/") or root not in (path := PurePath(target)).parents:
        return target
    return str(path.relative_to(root)) + ("/" if target.endswith(("/", "/.")) else "")


def _operands(name: str, arguments: Reading) -> Reading:
    """Return what a deleter may delete: of `find`, the folders that it searches."""
    if name not in FINDS:
        end = options_end(arguments)
        # What begins like an option is a name there.
        behind = (f"./{each}" if each and each[0] == "-" else each for each in arguments[end:])
        return (*arguments[:end], *behind)
    rest = dropwhile(lambda word: _BEFORE_FOLDERS.fullmatch(word or ""), arguments)
    return tuple(takewhile(lambda word: not (word or "").startswith(("-", "(", "!")), rest))


def _links(name: str, arguments: Reading, root: PurePath) -> Iterator[tuple[str, str]]:
    """Yield the links that `ln` with *arguments* may make to *root* or outside, and where to."""
    if name != "ln":
        return
    targets, named = sources_and_target(arguments)
    link = named or "."
    for target in filter(None, targets):
        # In the place of the link, or in a folder of its name.
        for made in (link, f"{link}/{PurePath(target).name}"):
            leads_to = os.path.normpath(f"{PurePath(within(made, root)).parent}/{target}")
            leads_to = target if target.startswith(("/", "~")) else leads_to
            if is_vital(leads_to, root):
                yield os.path.normpath(within(made, root)), leads_to


def sources_and_target(arguments: Reading) -> tuple[Reading, str | None]:
    """Return what `mv`, `cp` or `ln` with *arguments* takes, and where to; None if not known."""
    operands: list[str | None] = []
    target: str | None = None
    is_given = is_next = False
    end = options_end(arguments)
    for at, word in enumerate(arguments):
        if is_next:
            target, is_next = word, False
        elif at < end and word and (found := _TARGET_FOLDER.fullmatch(word)):
            is_given, target, is_next = True, found[1], not found[1]
        elif at > end or (at < end and not (word or "").startswith("-")):
            operands.append(word)
    if is_given or len(operands) < 2:
        return tuple(operands), target
    return tuple(operands[:-1]), operands[-1]


def _before_moves(
    paths: Iterable[str], commands: Sequence[tuple[str, Reading]], root: PurePath
) -> set[str]:
    """Return where what *paths* name lay before `mv`, or `cp`, brought it there."""
    origins: dict[str, list[str]] = {}
    for name, arguments in commands:
        sources, named = sources_and_target(arguments) if name in _MOVERS else ((), None)
        if named is None:
            continue  # to a place that no path of the script surely names
        target = os.path.normpath(within(named, root))
        # What is not known may be any link of the workspace.
        for each in (os.path.normpath(within(word or "*", root)) for word in sources):
            for moved in (target, os.path.normpath(f"{target}/{PurePath(each).name}")):
                origins.setdefault(moved, []).append(each)
    found, new = set[str](), {*paths} if origins else set[str]()
    patterns = {each: origins.pop(each) for each in [*filter(has_glob, origins)]}
    for _ in range(_MOVES_MAX):
        each_before = chain.from_iterable(_renamed(path, origins, patterns) for path in new)
        new = {*islice(each_before, _TARGETS_MAX)} - found
        found |= new
    return found


def _renamed(path: str, *origins: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield *path* with what begins it replaced by each of its *origins*: of names, of patterns."""
    path = path.removeprefix("./")
    for end in (at for at, sign in enumerate(path) if sign == "/"):
        yield from (each + path[end:] for each in origins[0].get(path[:end], ()))
    for now, before in origins[1].items():
        parts, length = path.split("/"), now.count("/") + 1
        is_behind = len(parts) > length and fnmatchcase("/".join(parts[:length]), now)
        yield from ("/".join((each, *parts[length:])) for each in before if is_behind)


def _is_behind(word: str | None, links: Sequence[str], root: PurePath) -> bool:
    """Return whether *word* names what lies behind one of *links*, and not the link alone."""
    path = within(word or "", root)
    whole = os.path.normpath(path) + ("/" if path.endswith("/") else "")
    return any(f"{whole}/".startswith(f"{link}/") and whole != link for link in links)


def _only_lists(name: str, arguments: Reading) -> bool:
    return name in FINDS and not any(x is None or _FIND_ACTS.fullmatch(x) for x in arguments)


def _has_many_patterns(target: str) -> bool:
    return sum(map(has_glob, target.split("/"))) > _PATTERNS_MAX
