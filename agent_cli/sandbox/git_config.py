"""Filter git's configuration, and the steps of a rebase, to the part that cannot start a program.

Git itself is not run. Source: git-config(1), git-rebase(1). Of the configuration only entries known
to be harmless are kept.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from agent_cli.system.loading import late_pattern

_HEADER = late_pattern(
    r'\s*\[\s*(?P<name>[A-Za-z0-9.-]+)(?:\s+"(?P<of>(?:[^"\\\n]|\\["\\])*)")?\s*\]'
)
_SECTION = late_pattern(rf"{_HEADER.pattern}\s*(?:[#;].*)?")
_ENTRY = late_pattern(r"\s*(?P<key>[A-Za-z][A-Za-z0-9-]*)\s*(?:=(?P<value>.*))?")
_COMMENT = late_pattern(r"(?<!\s)\s+[#;]")  # not from each of many spaces on
# For git only a line feed ends a line; Python's splitlines() knows more line ends.
_LINE = late_pattern(r"[^\n]*\n|[^\n]+")
_STARTS_PROGRAM = late_pattern(r"[ \t]*(?:exec|x)(?:[ \t\r\n]|$)")
_BREAKS = late_pattern(r"[\s;&|<>()`{}'\"\\$=,:!%]+")
_QUOTED = late_pattern(r"'([^']+)'")
_ENTERED = late_pattern(r"\b(?:cd|pushd|-C)\s+['\"]?([^\s'\";&|]+)")
_NOTHING: frozenset[str] = frozenset()
_DESTINATIONS = frozenset({"url", "pushurl", "remote", "pushremote"})
_HARMLESS = {
    "core": frozenset(
        {
            *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase"),
            *("precomposeunicode", "symlinks", "autocrlf", "eol", "safecrlf"),
            *("sparsecheckout", "sparsecheckoutcone", "abbrev", "quotepath", "longpaths"),
            *("untrackedcache", "preloadindex"),
        }
    ),
    "remote": frozenset(
        {*("url", "pushurl", "fetch", "push", "mirror", "prune", "tagopt"), "promisor"}
        | {"partialclonefilter", "skipdefaultupdate", "skipfetchall"}
    ),
    "branch": frozenset({"remote", "pushremote", "merge", "rebase", "description"}),
    "submodule": frozenset({"url", "active", "branch", "ignore"}),
    "extensions": frozenset(
        {"objectformat", "partialclone", "refstorage", "worktreeconfig", "compatobjectformat"}
    ),
    "user": frozenset({"name", "email", "signingkey"}),
    # Signing starts gpg.program, which is none of these.
    "commit": frozenset({"gpgsign", "verbose"}),
    "tag": frozenset({"gpgsign", "sort"}),
    "merge": frozenset({"conflictstyle", "ff"}),
    "rebase": frozenset({"autosquash", "autostash", "updaterefs"}),
    "rerere": frozenset({"enabled", "autoupdate"}),
    "diff": frozenset({"algorithm", "colormoved", "mnemonicprefix", "renames"}),
    "lfs": frozenset({"repositoryformatversion"}),
    "http": frozenset({"postbuffer", "version"}),
    "feature": frozenset({"manyfiles"}),
    "init": frozenset({"defaultbranch"}),
    "pull": frozenset({"rebase", "ff"}),
    "push": frozenset({"default", "autosetupremote"}),
    "fetch": frozenset({"prune"}),
    "color": frozenset({"ui"}),
    "gc": frozenset({"auto"}),
}


def _nowhere(_name: str) -> bool:
    return False


def harmless(text: str, is_own_tree: Callable[[str], bool] = _nowhere) -> str:
    """Return *text* without the lines that may make git start a program or use another folder.

    Args:
        is_own_tree: Whether a working tree, as the configuration names it, is that of its own.
    """
    return "".join(line for line, is_kept, _ in _judged_with(text, is_own_tree) if is_kept)


def harmful(text: str, is_own_tree: Callable[[str], bool]) -> Sequence[tuple[str, str]]:
    """Return the lines that `harmless` leaves out, each behind the header of its section."""
    judged = _judged_with(text, is_own_tree)
    return [(header, line) for line, is_kept, header in judged if not is_kept]


def harmless_steps(todo: str) -> str:
    """Return the steps of a rebase, a `git-rebase-todo`, without those that start a program."""
    return "".join(step for step in _LINE.findall(todo) if not _STARTS_PROGRAM.match(step))


def starting_steps(todo: str) -> frozenset[str]:
    """Return the steps of a rebase that start a program."""
    return frozenset(step.strip() for step in _LINE.findall(todo) if _STARTS_PROGRAM.match(step))


def working_trees(text: str) -> frozenset[str]:
    """Return the working trees that a configuration names, as it names them."""
    return frozenset(_working_tree(header, line) for line, _, header in _judged(text)) - {""}


def destinations(text: str) -> Mapping[tuple[str, str | None], Sequence[tuple[str, str]]]:
    """Return where commits go: the keys and values of each remote and branch that say so."""
    found: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for line, _, header in _judged(text):
        section, key, value = _parts(header, line)
        if section in ("remote", "branch") and (named := _SECTION.fullmatch(header)):
            kept = found.setdefault((section, named["of"]), [])
            if key in _DESTINATIONS:
                kept.append((key, value))
    return found


_IN_ADDRESS = late_pattern(r"://([^/\s:@]*)(?::([^/\s@]*))?@")
_IN_HEADER = late_pattern(
    r"(?:authorization|(?:private|job|deploy)-token)\s*:\s*(?:\w+\s+)?([^\s\"]+)", re.IGNORECASE
)
_TOKEN = late_pattern(r"(?=.*\d)[\w+/=-]{20,}", re.ASCII)


def credentials(text: str) -> frozenset[str]:
    """Return the passwords and tokens in the addresses and headers of a configuration.

    A user's name is one only if it looks like a token: `https://TOKEN@host`.
    """
    pairs = _IN_ADDRESS.findall(text)
    users = (user for user, _password in pairs if is_token(user))
    passwords = (password for _user, password in pairs)
    return frozenset((*users, *passwords, *_IN_HEADER.findall(text))) - {""}


def credentials_replaced(text: str, known: Collection[str], mask: str) -> str:
    """Return *text* with *mask* for each credential of *known* where it stands as one.

    A password may be a word that means something elsewhere; a token is hidden wherever it stands.
    """

    def masked(found: re.Match[str]) -> str:
        at = max(range(1, len(found.groups()) + 1), key=found.end)
        begin, end = found.start(at) - found.start(), found.end(at) - found.start()
        is_one = found[at] in known
        return f"{found[0][:begin]}{mask}{found[0][end:]}" if is_one else found[0]

    for pattern in (_IN_ADDRESS, _IN_HEADER):
        text = pattern.sub(masked, text)
    for each in sorted(filter(is_token, known), key=len, reverse=True):
        text = text.replace(each, mask)
    return text


def is_token(credential: str) -> bool:
    """Return whether *credential* is random text, which stands for nothing else in any text."""
    return _TOKEN.fullmatch(credential) is not None


def is_harmless_key(name: str) -> bool:
    """Return whether the setting *name*, as `git config` takes it, cannot start a program."""
    section, _, rest = name.casefold().partition(".")
    return rest.rpartition(".")[2] in _HARMLESS.get(section, _NOTHING)


def _judged_with(text: str, is_own_tree: Callable[[str], bool]) -> Iterator[tuple[str, bool, str]]:
    """Yield what `_judged` returns; a working tree of its own is harmless, too."""
    for line, is_harmless, header in _judged(text):
        yield line, is_harmless or is_own_tree(_working_tree(header, line)), header


def _working_tree(header: str, line: str) -> str:
    """Return the working tree that a *line* below *header* names; "" for any other line."""
    section, key, value = _parts(header, line)
    # In quotes, or before a comment, it is read in another way.
    is_plain = (section, key) == ("core", "worktree") and not {*value} & {*'"\\#;'}
    return value if is_plain else ""


def _parts(header: str, line: str) -> tuple[str, str, str]:
    """Return the section of *header*, and key and value of *line*; "" for each missing one."""
    section, entry = _SECTION.fullmatch(header), _ENTRY.fullmatch(line.rstrip("\r\n"))
    name = section["name"].casefold() if section else ""
    if not entry:
        return name, "", ""
    return name, entry["key"].casefold(), (entry["value"] or "").strip()


@lru_cache(maxsize=8)
def _judged(text: str) -> tuple[tuple[str, bool, str], ...]:
    """Return each line of *text*, whether it is harmless, and the header of its section.

    Four questions about each configuration are asked before a command and again after it.
    """
    return tuple(_judgements(text))


def _judgements(text: str) -> Iterator[tuple[str, bool, str]]:
    header = ""
    known = _NOTHING
    continues = False
    for line in _LINE.findall(text):
        bare = line.removesuffix("\n").removesuffix("\r")
        was_continued, continues = continues, bare.endswith("\\")
        section, entry = _SECTION.fullmatch(bare), _ENTRY.fullmatch(bare)
        if was_continued or continues:
            yield line, False, header  # A value over several lines; no harmless entry needs one.
        elif section:
            known, header = _HARMLESS.get(section["name"].casefold(), _NOTHING), bare
            yield line, True, header
        elif bare.lstrip().startswith("["):
            known, header = _NOTHING, bare  # A header in an unknown format.
            yield line, False, header
        else:
            is_known = entry is not None and entry["key"].casefold() in known
            yield line, is_known or _says_nothing(bare), header


@lru_cache(maxsize=16)
def included(text: str) -> Sequence[str]:
    """Return the files that a configuration includes, on any condition, as it names them."""
    return tuple(
        _COMMENT.split(value.strip())[0].strip().strip('"')
        for header, value in _harmful_values(text)
        if header.lstrip().casefold().startswith("[include")
    )


@lru_cache(maxsize=16)
def pieces_of_commands(text: str) -> Sequence[str]:
    """Return all pieces of values that may be the path of a program, or of another file.

    They are those of an editor, a pager, a filter, a driver, a helper, an alias: of each key that
    is not known to be harmless.
    """
    pieces = (piece for _, value in _harmful_values(text) for piece in _pieces(value))
    return tuple(dict.fromkeys(filter(None, pieces)))


def _pieces(value: str) -> Iterator[str]:
    """Yield the words of *value*, quoted words whole, and below a folder that it enters."""
    words = [*_BREAKS.split(value), *_QUOTED.findall(value.replace('\\"', "'"))]
    yield from words
    yield value.strip().strip('"')
    for folder in _ENTERED.findall(value):
        yield from (f"{folder}/{word}" for word in words if re.search(r"\w[./]|[./]\w", word))


def _harmful_values(text: str) -> Iterator[tuple[str, str]]:
    for line, is_harmless, header in _judged(text):
        if not is_harmless:
            yield header, line.partition("=")[2] or line


@lru_cache(maxsize=16)
def hooks_path(text: str, key: tuple[str, str] = ("core", "hookspath")) -> str:
    """Return the folder of hooks that a configuration names as `git config` writes it, or "".

    Args:
        key: The section and the key that name it: git copies hooks from `init.templateDir`.
    """
    section = found = ""
    for line in text.removeprefix("\ufeff").split("\n"):
        if header := _HEADER.match(line):
            section = header["name"].casefold()
        entry = _ENTRY.fullmatch(line, header.end() if header else 0)
        if entry and (section, entry["key"].casefold()) == key:
            found = (entry["value"] or "").strip()
    return found[1:].partition('"')[0] if found.startswith('"') else _COMMENT.split(found)[0]


def hook_folders(text: str) -> Iterator[Path]:
    """Yield the folders that git runs hooks from, or copies them from."""
    for name in (hooks_path(text), hooks_path(text, ("init", "templatedir"))):
        if name and name[0] != "%":
            yield Path(os.path.expanduser(name))  # noqa: PTH111


def folders_for_every_repository(texts: Iterable[str]) -> Iterator[Path]:
    """Yield the folders of hooks, and of templates with hooks, that the *texts* name whole."""
    for text in texts:
        yield from filter(Path.is_absolute, hook_folders(text))


def _says_nothing(line: str) -> bool:
    text = line.strip(" \t")
    return not text or text[0] in "#;"
