"""Tell what is deleted by `find`, and by commands that get lists of file names.

Their tests choose files by name, or they take every file of a folder. Knows no other program.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePath
from typing import Final

from agent_cli.policies.shell.deleted_folders import (
    FINDS,
    REMOVES_TREES,
    is_foreign_file,
    is_vital,
)
from agent_cli.policies.shell.reach import has_only_words
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import (
    FIND_ENDS,
    FIND_STARTS,
    SHELLS,
    STARTERS,
    base_name,
    git_call,
    with_unknown,
)
from agent_cli.system.loading import late_pattern

EVERY_FILE: Final = "deletes every file of a folder"
FORCE: Final = r"-\w*f\w*|--fo(?:r(?:c(?:e)?)?)?"
"""The option of git to force; git accepts the beginning of a long option."""
IS_FORCED: Final = late_pattern(FORCE)
REMOVERS: Final = frozenset({"rm", "unlink", "shred", "rmdir", "truncate"})
EVERY_NAME: Final = late_pattern(r"(?>(?:.*/)?)[\"']?(?:\*+|\*\.\*|\.?\[[^\]]*\]\*|\?\*|\*\?)")
"""A pattern that every visible name matches, or every name with a dot, quoted in part or not."""

_REMOVER_IN_TEXT: Final = late_pattern(r"\b(?:rm|unlink|shred|rmdir|truncate)\b")
# In a script of `sh -c`.
_REMOVES_HERE: Final = late_pattern(r"\b(?:rm|unlink|shred|truncate)\s")
_GIVEN_NAME: Final = late_pattern(r"\s[\"']?(?:\{\}|\$[@*0-9])(?:[\"'\s]|$)")
SEPARATOR: Final = late_pattern(r"&&|\|\||[;&\n]")
# All files of a folder, all that git holds or does not hold, all containers, all images.
_LISTS_ALL: Final = late_pattern(
    r"(?:\$\(|`)\s*(?:sudo\s+)?(?:ls(?:\s+-[\w-]+)*(?:\s+(?:\.|\*|\./\*?))?|g?find\s[^)`|]{0,300}"
    r"|git\s+ls-files(?:\s+(?:-[coz]+|--cached|--others|--exclude-standard))*"
    r"|(?:docker|podman|nerdctl)\s+(?:(?:container|image)\s+)?(?:ps|ls|images)"
    r"(?:\s+(?:-[aq]+|--all|--quiet))*)\s*(?=[)`|])"
)
_REMOVES: Final = r"(?<![\w-])(?<!git )(?:rmi?|unlink|shred)\s"
_REMOVES_LISTED: Final = late_pattern(rf"{_REMOVES}[^;&|\n`]*$")
_LOOPS_OVER: Final = late_pattern(r"\bfor\s+(\w+)\s+in\s+\"?$")
_LOOKED_AT_CHARS: Final = 500  # before a list, and behind it
_LISTS_MAX: Final = 50
_NAMES: Final = frozenset({"-name", "-iname"})
_REGEXES: Final = frozenset({"-regex", "-iregex"})
_HISTORY: Final = (".git", "objects", "pack", "refs", "heads")
_PATHS: Final = _REGEXES | {"-path", "-ipath", "-wholename", "-iwholename"}
_EVERY_PATH: Final = late_pattern(r"[.*+?/^$]*")
# Few files pass them, whatever their names are.
_FEW: Final = frozenset({"-empty", "-lname", "-ilname", "-inum", "-samefile", "-xtype"})
_TRUE: Final = frozenset(
    {"-true", "-ls", "-prune", "-depth", "-d", "-xdev", "-mount", "-daystart"}
    | {"-maxdepth", "-mindepth", "-follow", "-noleaf", "-warn", "-nowarn"}
)
_ACTIONS: Final = FIND_STARTS | {"-delete", "-print", "-print0", "-printf", "-ls", "-fprint"}
_OR: Final = frozenset({"-o", "-or"})
_AND: Final = frozenset({"-a", "-and"})
_NOT: Final = frozenset({"!", "-not"})
_MARKS: Final = frozenset({"(", ")", "!", ",", ";"})
_FIRST: Final = late_pattern(r"-[HLPD-]|-O\d*")
_ELSEWHERE: Final = frozenset({"-H", "-L", "-follow", "-files0-from"})  # by links or a list
XARGS: Final = late_pattern(r"xargs\b(?<!\wxargs)")  # with the literal first: found at once
_FEEDS: Final = late_pattern(
    r"(?:^|[;&|(){}\n]|\b(?:do|then|else))\s*g?find\s(?:[^|;&<>`()\n]|\\[();])*"
    r"(?:2>\s*/dev/null\s*)?\|\s*xargs\s+"
    r"(?:-(?:0r?t?|rt?|r0|t|-null|-no-run-if-empty|[nPL]\s*\d+|I\s*\{\})\s+)*[^-\s|;&<>`()]"
    r"[^|;&<>`()\n]*(?:2?>\s*/dev/null\s*)*(?:2>&1\s*)?(?=$|[;&|)}\n])"
)
_OTHER_FIND: Final = late_pattern(r"\b(?:find|xargs)\s*\(|\b(?:function|alias)\b")
# What `find` lists besides the names that its tests choose, or instead.
_LISTS_OTHERS: Final = late_pattern(r"-(?:f?printf|fprint0?|f?ls|exec\w*|ok\w*|files0-from)")
_NUL: Final = frozenset({"-0", "--null", "-0r", "-r0"})
_MAKES_FILES: Final = late_pattern(r">(?!\s*/dev/null\b|&\d)|-f(?:print|ls)")
_ONLY_DELETE: Final = REMOVERS | REMOVES_TREES | FINDS | {"xargs", "echo"}
_NESTED_MAX: Final = 50
_COMMAND_WORDS_MAX: Final = 1_000
_EITHER: Final = frozenset({True, False})


def lost_by_find(
    arguments: Reading, root: PurePath, *, moved: bool, by_link: bool = False
) -> str | None:
    """Return why `find` with *arguments* deletes too much; *moved* if the folder is uncertain.

    Mostly it deletes files of harmless names, `find . -name '*.pyc' -delete`; in folders that it
    names, no more than `rm -r` of them. *by_link*, something may be deleted outside *root*.
    """
    is_unclear = None in arguments or not _stays_inside(arguments, root)
    is_out = by_link or _leaves(arguments, root)
    if ("-delete" in arguments and (is_unclear or is_out)) or (
        is_out and starts_remover(arguments)
    ):
        return "deletes files in folders that are unclear or outside the workspace"
    if is_narrow(arguments) or (not moved and _names_folders(arguments, root)):
        return None
    return EVERY_FILE


def starts_remover(arguments: Reading) -> bool:
    """Return whether `find` with *arguments* starts a command that deletes."""
    starts = (at + 1 for at, word in enumerate(arguments) if word in FIND_STARTS)
    return any(removes(arguments[at : at + _COMMAND_WORDS_MAX]) for at in starts)


def _leaves(arguments: Reading, root: PurePath) -> bool:
    """Return whether `find` may search by links or a list, or names a folder outside *root*."""
    folders, _ = split_search(arguments)
    return not _ELSEWHERE.isdisjoint(arguments) or any(
        each and is_foreign_file(each, root, is_here=False) for each in folders
    )


def removals(command: Reading, root: PurePath) -> Iterator[tuple[Reading, Reading]]:
    """Yield each removal of trees that *command*, a `find`, starts for the files that it chooses.

    First as it is read, with the names of the files unknown, then without them. None if `find` may
    choose what must not be deleted.
    """
    arguments = command[1:]
    if None in arguments or not _stays_inside(arguments, root):
        return
    if not is_narrow(arguments) and not _names_folders(arguments, root):
        return
    read = with_unknown(command)
    for at, word in enumerate(command):
        # Without an end it is no command of `find`, but one behind it in a script of many pieces.
        if _removes_trees(word) and FIND_ENDS.intersection(command[at:]):
            own = tuple(each for each in command[at:] if each != "{}")
            yield read[at:], own
            yield (*read[at:], None), own


def feeds_xargs(script: str) -> bool:
    """Return whether each `xargs` in *script* reads names of a `find` alone: its pipe is no other.

    Neither a file that a redirection or an option names.
    """
    count = len(XARGS.findall(script))
    return 0 < count == len(_FEEDS.findall(script)) and not _OTHER_FIND.search(script)


def removes_each(words: Reading) -> bool:
    """Return whether `xargs` with *words* deletes what it reads; `git rm` keeps what changed."""
    known = [word or "" for word in words]
    at = words.index("git") if "git" in words else len(words)
    is_of_git = "rm" in git_call(known[at + 1 :])[:1]
    if is_of_git and not any(word and IS_FORCED.fullmatch(word) for word in words):
        return not REMOVERS.isdisjoint(words[:at])
    names = {*map(base_name, known)}
    is_in_text = not SHELLS.isdisjoint(names) and any(map(_removes_its_name, known))
    return is_in_text or not REMOVERS.isdisjoint(names)


def _removes_its_name(script: str) -> bool:
    """Return whether *script*, of a shell, deletes a file whose name it is given."""
    begins = ((each, _REMOVES_HERE.search(each)) for each in SEPARATOR.split(script))
    return any(found and _GIVEN_NAME.search(each, found.end() - 1) for each, found in begins)


def removes_output(script: str) -> bool:
    """Return whether *script* deletes the files whose names a command prints: `rm $(ls)`."""
    for found in islice(_LISTS_ALL.finditer(script), _LISTS_MAX):
        before = script[max(0, found.start() - _LOOKED_AT_CHARS) : found.start()]
        if _REMOVES_LISTED.search(before.rpartition("\n")[2]):
            return True
        if loop := _LOOPS_OVER.search(before):
            body = script[found.end() : found.end() + _LOOKED_AT_CHARS]
            if re.search(rf"{_REMOVES}[^;&|\n]*\$\{{?{loop[1]}\b", body):
                return True
    return False


def listed_removals(
    seen: Sequence[Reading], root: PurePath, script: str
) -> Mapping[Reading, Reading]:
    """Return, as `removals` does, each removal that `find … -print0 | xargs -0` starts in *seen*.

    None if there is another `xargs`, or another `rm` that reads the same. Without -0, a name may
    hold those of other files, unless *script* makes none and all are single words.
    """
    search: Reading = ()
    found: list[tuple[Reading, Reading]] = []
    for words in seen:
        name = base_name(words[0] or "") if words else ""
        if name == "xargs":
            is_whole = "-print0" in search and not _NUL.isdisjoint(words)
            if not lists_few(search, root) or not (is_whole or _are_words(seen, root, script)):
                return {}
            tails = (words[at:] for at, word in enumerate(words) if _removes_trees(word))
            found += [((*tail, None), tail) for tail in tails]
        search = words[1:] if name in FINDS else ()
    is_alone = len(found) == sum(map(seen.count, {read for read, _ in found}))
    return dict(found) if is_alone else {}


def _are_words(seen: Sequence[Reading], root: PurePath, script: str) -> bool:
    """Return whether *script* deletes only, and each name that it may find is one word."""
    names = {base_name(words[0] or "?") for words in seen if words} - _ONLY_DELETE
    options = {word for words in seen for word in words if word and word[0] == "-"}
    # Of `rm -rf`, the option and its last letter are read as programs, too.
    if names - options - {each[-1] for each in options} or _MAKES_FILES.search(script):
        return False
    return has_only_words(str(root))


def _removes_trees(word: str | None) -> bool:
    return base_name(word or "") in ("rm", *REMOVES_TREES)


def lists_few(arguments: Reading, root: PurePath) -> bool:
    """Return whether `find` with *arguments* lists no more than may be deleted."""
    if None in arguments or not _stays_inside(arguments, root):
        return False
    if any(word and ("{" in word or _LISTS_OTHERS.fullmatch(word)) for word in arguments):
        return False
    return is_narrow(arguments, lists=True) or _names_folders(arguments, root)


def is_narrow(arguments: Reading, *, lists: bool = False) -> bool:
    """Return whether `find` with *arguments* deletes only files that pass a test of their name.

    Neither a file of another name, nor git's own data, must reach what deletes; with *lists* what
    prints, and the reader of the list deletes.
    """
    if sum(word in ("(", "\\(") for word in arguments) > _NESTED_MAX:
        return False
    searches = (_Search(arguments, of_git=of_git, lists=lists) for of_git in (False, True))
    return not any(each.reaches() for each in searches)


def split_search(arguments: Reading) -> tuple[Reading, Reading]:
    """Return the folders that `find` with *arguments* searches, and its expression."""
    begin = 0
    while begin < len(arguments) and _FIRST.fullmatch(arguments[begin] or ""):
        begin += 2 if arguments[begin] == "-D" else 1
    behind = enumerate(arguments[begin:], begin)
    ends = (at for at, word in behind if word and (word[:1] == "-" or word in _MARKS))
    end = next(ends, len(arguments))
    return arguments[begin:end], arguments[end:]


def _stays_inside(arguments: Reading, root: PurePath) -> bool:
    """Return whether `find` searches nothing but *root* and folders in it, and follows no links."""
    folders, _ = split_search(arguments)
    is_vital_one = (is_vital(each, root) and not _is_here(each, root) for each in folders)
    return _ELSEWHERE.isdisjoint(arguments) and not any(is_vital_one)


def _is_here(folder: str | None, root: PurePath) -> bool:
    return bool(folder) and PurePath(folder or "") in (PurePath(), root)


def _names_folders(arguments: Reading, root: PurePath) -> bool:
    """Return whether `find` with *arguments* searches only folders in *root* that it names."""
    folders, _ = split_search(arguments)
    is_known = bool(folders) and _ELSEWHERE.isdisjoint(arguments)
    return is_known and not any(is_vital(each, root) for each in folders)


def removes(command: Sequence[str | None]) -> bool:
    """Return whether *command* deletes its operands, as a program or in a shell's script."""
    name = base_name(command[0] or "") if command else ""
    behind = [word for word in command[1:] if word]
    if name in SHELLS:
        return any(map(_REMOVER_IN_TEXT.search, behind))
    return name in REMOVERS or (
        name in STARTERS and not REMOVERS.isdisjoint(map(base_name, behind))
    )


class _Search:
    """The expression of one `find`, evaluated for one file that no test of a name is meant for.

    Each part returns the values it may have; it is *reached* unless those before it decide.
    """

    def __init__(self, arguments: Reading, *, of_git: bool, lists: bool) -> None:
        """Take the file for one of another name, or for one of git's own data."""
        words = tuple(word if word is None else word.removeprefix("\\") for word in arguments)
        _, self._words = split_search(words)
        self._at = 0
        self._of_git = of_git
        self._lists = lists
        self._is_reached = False

    def reaches(self) -> bool:
        """Return whether the file may reach what deletes it, or what lists it."""
        values = _EITHER
        while self._at < len(self._words):
            values = self._either(reached=True)
            self._at += 1  # a parenthesis without a beginning
        prints_all = self._lists and _ACTIONS.isdisjoint(self._words)
        return self._is_reached or (prints_all and True in values)

    def _next(self) -> str:
        return (self._words[self._at] or "") if self._at < len(self._words) else ")"

    def _taken(self) -> str:
        self._at += 1
        return (self._words[self._at - 1] or "") if self._at <= len(self._words) else ""

    def _either(self, *, reached: bool) -> frozenset[bool]:
        values = self._both(reached=reached)
        while self._next() in (*_OR, ","):
            if self._taken() == ",":
                self._both(reached=reached)
                values = _EITHER  # GNU find optimizes the right value away
            else:
                right = self._both(reached=reached and False in values)
                values = (values - {False}) | right if False in values else values
        return values

    def _both(self, *, reached: bool) -> frozenset[bool]:
        values = self._negated(reached=reached)
        while self._next() not in (*_OR, ",", ")"):
            right = self._negated(reached=reached and True in values)
            values = (values - {True}) | right if True in values else values
        return values

    def _negated(self, *, reached: bool) -> frozenset[bool]:
        is_negated = False
        while self._next() in (*_NOT, *_AND):
            is_negated ^= self._taken() in _NOT
        if self._next() != "(":
            values = self._single(reached=reached)
        else:
            self._at += 1
            values = self._either(reached=reached)
            self._at += self._next() == ")"
        return frozenset(not value for value in values) if is_negated else values

    def _single(self, *, reached: bool) -> frozenset[bool]:
        if self._next() in (*_OR, ",", ")"):
            return _EITHER
        match word := self._taken():
            case "-delete" | "-print" | "-print0" | "-printf":
                self._is_reached |= reached and self._lists == word.startswith("-p")
                return frozenset({True})
            case "-false" | "-quit":
                return frozenset({False})
            case _ if word in _NAMES or word in _PATHS:
                return self._fits(word, self._taken())
            case _ if word in FIND_STARTS:
                self._is_reached |= removes([*self._command()]) and reached
                return _EITHER
            case _:
                while not self._next().startswith("-") and self._next() not in _MARKS:
                    self._at += 1
                known = {True} if word in _TRUE else {False} if word in _FEW else _EITHER
                return frozenset(known)

    def _command(self) -> Iterator[str]:
        while self._at < len(self._words) and (word := self._taken()) != ";":
            if word == "+" and self._words[self._at - 2] == "{}":
                return
            yield word

    def _fits(self, test: str, value: str) -> frozenset[bool]:
        is_every = (EVERY_NAME if test in _NAMES else _EVERY_PATH).fullmatch(value)
        if test in _REGEXES:
            names_git = ".git" in value.replace("\\", "")
        else:
            parts = (part for part in PurePath(value).parts if part.strip("*"))
            own = _HISTORY if test in _NAMES else (".git",)
            names_git = any(fnmatch(each, part) for part in parts for each in own)
        # Some patterns that count as every name leave a few out.
        return _EITHER if is_every else frozenset({self._of_git and names_git})
