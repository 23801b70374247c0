"""The reach of a command: resolve its operands, and check that it may read them.

The file system is consulted when the decision is made: symlinks are followed, patterns expanded,
and folders that a program would search are searched for secrets first.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_cli.sandbox.path_sets import is_inside
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import is_too_long
from agent_cli.system.records import dataclass
from agent_cli.system.trees import walk

if TYPE_CHECKING:
    from agent_cli.policies.shell.words import Word

MATCHES_MAX = 1_000
_PATTERNS_MAX = 50
_GLOB = frozenset("*?[")
_OF_PROGRAMS = late_pattern(r"/(?:etc|usr|s?bin|lib\w*|dev|proc|sys|run|tmp|var)/.*")
_SPLIT_BY_XARGS = late_pattern(r"[\s\"'\\]")
SEARCHED_ENTRIES_MAX = 20_000

_IGNORE_FILES = ("/.gitignore", "/.ignore", "/.rgignore")
_ALWAYS_READABLE = "/dev/null"
Splitting: TypeAlias = Literal["blanks", "lines", "exact lines", "nul", "none"]
"""How a list of names is split again: "lines" as by `xargs -I`, which removes quotes, too; "none"
if each name is handed on by itself."""

# Names that remain as they are. They must not begin like an option, except behind a folder's name.
_UNCHANGED: Mapping[Splitting, re.Pattern[str]] = MappingProxyType(
    {
        "blanks": late_pattern(r"(?!-)[^\s'\"\\]+"),
        "lines": late_pattern(r"(?![-\s])[^\n'\"\\]+(?<!\s)"),
        "exact lines": late_pattern(r"(?!-)[^\n]+"),
        "nul": late_pattern(r"(?!-).+", re.DOTALL),
        "none": late_pattern(r".*", re.DOTALL),
    }
)
_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_PROGRAMS = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/")


class Objection(Exception):
    """A command may do more than read files of the workspace; the message says why."""


class OutOfReach(Objection):
    """A command that runs or reads something forbidden; the message names it."""


def _no_secret(_path: PurePath) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The folders, programs and variables that a command will see.

    Attributes:
        root: The shell's start folder; absolute, links resolved.
        extra_dirs: Further readable folders; absolute, links resolved.
        is_secret: Returns whether a path must not be read, judged by its name alone.
        why_secret: What such a path does, for the user.
        secrets_are_masked: The sandbox hides secrets, so folders need not be searched for them.
        git_is_safe: Git runs in the sandbox, and programs that the repository's configuration
            names, if any, are trusted; None if only a repository that names none is safe.
        has_own_temporary: /tmp is a folder of the sandbox, in which no other program has files.
        search_path: The PATH the shell will have.
        home: The value of $HOME; "" if unknown.
    """

    root: Path
    extra_dirs: Sequence[Path] = ()
    is_secret: Callable[[PurePath], bool] = _no_secret
    why_secret: str = "may hold secrets"
    secrets_are_masked: bool = False
    git_is_safe: bool | None = False
    has_own_temporary: bool = False
    search_path: str = os.defpath
    home: str = ""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables whose values are known."""
        return {"HOME": self.home} if self.home else {}

    def check_program(self, name: str) -> None:
        """Accept a program that is named without a path and found outside the workspace.

        Raises:
            Objection: It is not, or PATH depends on the current folder.
        """
        if "/" in name:
            raise OutOfReach(f"runs {name}, which may be any program")
        if not all(folder.startswith("/") for folder in self.search_path.split(os.pathsep)):
            raise OutOfReach("PATH contains a relative folder")
        found = shutil.which(name, path=self.search_path)
        if found and (self.holds(found) or self.holds(os.path.realpath(found))):
            raise OutOfReach(f"runs {found}, a program of the workspace")
        if found and Path(found).parent.name == "shims":
            # A shim of asdf, pyenv or mise: a file of the workspace names the program it runs.
            raise Objection(
                f"{name} is a version manager's shim, which project files can redirect: {found}"
            )

    def check_path(self, text: str, folder: str) -> str:
        """Resolve *text* relative to *folder* and return the real path.

        Raises:
            Objection: It is outside the workspace, or a secret.
        """
        written = text if text.startswith("/") else f"{folder}/{text}"
        real = os.path.realpath(written)
        if real == written == _ALWAYS_READABLE:
            return real
        if not self.holds(real):
            raise OutOfReach(f"reads {text}, outside the workspace")
        if any(map(self.is_secret, map(PurePath, (written, os.path.normpath(written), real)))):
            raise OutOfReach(f"reads {text}, which {self.why_secret}")
        return real

    def check_tree(self, text: str, folder: str) -> None:
        """Accept the folder *text* if a program that reads the whole folder finds no secret.

        Raises:
            Objection: There is one, or there are too many files to check.
        """
        real = self.check_path(text, folder)
        if self.secrets_are_masked:
            return
        # Search programs read these ignore files, also in parent folders, and may print their lines
        # in errors.
        above = [str(each) for each in Path(real).parents if self.holds(str(each))]
        for path in (f"{each}{name}" for each in above for name in _IGNORE_FILES):
            self.check_path(path, folder)
        for count, path in enumerate(_entries(real)):
            if path.endswith(_IGNORE_FILES):
                self.check_path(path, folder)
            if self.is_secret(PurePath(path)):
                below = os.path.relpath(path, real)
                raise OutOfReach(f"reads {text}, and {below} in it {self.why_secret}")
            if count >= SEARCHED_ENTRIES_MAX:
                raise OutOfReach(f"{text} holds too many files to check for secrets")

    def check_found(self, text: str, folder: str, splitting: Splitting) -> None:
        """Accept the folder *text* if a program may read all files that a search finds in it.

        Raises:
            Objection: A name is a link elsewhere or would be misread, or there are too many.
        """
        self.check_tree(text, folder)
        top, unchanged = self.check_path(text, folder), _UNCHANGED[splitting]
        searched = {top}
        # The text of the folder itself is the beginning of every name.
        for count, path in enumerate((text, *_entries(top))):
            name = path.rpartition("/")[2] if count else path
            if not unchanged.fullmatch(name):
                raise OutOfReach(f"{text} holds {name!a}, which would be read as something else")
            if count and Path(path).is_symlink():
                real = self.check_path(path, folder)
                # The program may search a folder that it is given.
                if Path(real).is_dir() and not any(map(Path(real).is_relative_to, searched)):
                    self.check_tree(path, folder)
                    searched.add(real)
            if count > SEARCHED_ENTRIES_MAX:
                raise OutOfReach(f"{text} holds too many files to check")

    def expand(self, word: "Word", folder: str) -> Sequence[str]:
        """Return the possible expansions of *word*: the names a pattern matches, and itself.

        Raises:
            Objection: There are too many, or one looks like an option.
        """
        if not word.glob:
            return [word.text]
        found = [word.text]
        if sum(map(_is_pattern, word.text.split("/"))) > _PATTERNS_MAX:
            raise OutOfReach(f"{word.text[:60]} has too many patterns to look for each")
        for name in matches(word.text, folder):
            if name.startswith("-"):
                raise OutOfReach(f"{word.text} matches {name}, which looks like an option")
            if len(found) >= MATCHES_MAX:
                raise OutOfReach(f"{word.text} matches more than {MATCHES_MAX:,} names")
            found.append(name)
        return found

    def holds(self, path: str) -> bool:
        """Return whether *path*, absolute, is in the workspace or a folder beside it."""
        return any(is_inside(Path(path), root) for root in (self.root, *self.extra_dirs))


def _entries(top: str) -> Iterator[str]:
    """Yield every path below *top*, by name; links are not followed, as in search programs."""
    for folder, folders, files in walk(top):
        folders.sort()
        for name in (*folders, *sorted(files)):
            yield f"{folder}/{name}"


# Cached: a decision asks for each value that the variables of a script may have.
@lru_cache(maxsize=8)
def has_only_words(folder: str) -> bool:
    """Return whether each path in *folder* is one word for `xargs`; False if it has too many."""
    paths = [folder, *islice(_entries(folder), SEARCHED_ENTRIES_MAX)]
    return len(paths) <= SEARCHED_ENTRIES_MAX and not any(map(_SPLIT_BY_XARGS.search, paths))


def matches(pattern: str, folder: str) -> Iterator[str]:
    """Yield at least the names that bash puts in the place of *pattern* in *folder*."""
    yield from _matches(re.sub("/+", "/", pattern), folder)


def _matches(pattern: str, folder: str) -> Iterator[str]:
    """Go down once for each part that is a pattern: the others may be thousands, such as `..`."""
    parts = pattern.split("/")
    at = next((at for at, part in enumerate(parts) if _is_pattern(part)), len(parts) - 1)
    before = "".join(f"{part}/" for part in parts[:at])
    around = before if before.startswith("/") else f"{folder}/{before}"
    if before and not os.path.isdir(around):  # noqa: PTH112 - False for a name that is too long
        return
    is_chosen, rest = _is_pattern(parts[at]), "/".join(parts[at + 1 :])
    for name in _names(around) if is_chosen else parts[at:]:
        if is_chosen and not _could_match(parts[at], name):
            continue
        if at + 1 >= len(parts):
            yield before + name
        elif os.path.isdir(below := f"{around}{name}/"):  # noqa: PTH112
            yield from (f"{before}{name}/{each}" for each in _matches(rest, below))


def _is_pattern(part: str) -> bool:
    return not _GLOB.isdisjoint(part)


def _names(folder: str) -> Sequence[str]:
    try:
        return [".", "..", *sorted(entry.name for entry in os.scandir(folder))]
    except OSError:
        return []  # bash finds no match there either


def _could_match(pattern: str, name: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    # Bracket matches depend on the locale, so the rest may match anything.
    known, bracket, _ = pattern.partition("[")
    if len(known.replace("*", "")) > len(name):
        return False
    return fnmatchcase(name, f"{known}*" if bracket else known)


def is_foreign(text: str, reach: Reach) -> bool:
    """Return whether *text* is a path outside the workspace that exists, or could be made.

    Much that begins with a slash is an address or a pattern, so its folder must exist.
    """
    if not text or is_too_long(text) or re.search(r"[\0\n]", text):
        return False
    if text.startswith("~"):
        return text == "~" or "/" in text
    path = path_beyond(text, reach)
    if path is None:
        return False
    if not text.startswith("/") or os.path.lexists(path):
        return True
    above = os.path.dirname(path)  # noqa: PTH120 - many texts
    return above != "/" and os.path.isdir(above)  # noqa: PTH112


def path_beyond(written: str, reach: Reach) -> str | None:
    """Return the path that *written* names if it lies outside the workspace; else None.

    Programs of the machine and standard devices, which every command uses, do not count.
    """
    if not written.startswith("/") and ".." not in written.split("/"):
        return None
    path = os.path.normpath(reach.root / written)
    is_used = path in _DEVICES or path.startswith(_PROGRAMS) or reach.holds(path)
    return None if is_used else path


def is_of_person(path: str) -> bool:
    """Return whether there is a file *path*, or a folder of that pattern, on this machine, too.

    Of the home or another folder of a person: those of programs are at the same paths everywhere.
    """
    named = re.split(r"[^/]*[*?\[]", path)[0]
    home, whole = map(os.path.expanduser, ("~", named))  # Path raises for an unknown user
    is_in_home = f"{whole}/".startswith(f"{home}/")
    is_own = is_in_home or not _OF_PROGRAMS.fullmatch(whole)
    return whole[:1] == "/" != whole and is_own and os.path.lexists(whole)
