"""Index the secrets, repositories and settings below a folder; rescan changed folders only."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agent_cli.sandbox.protected import NESTED_NAMES
from agent_cli.sandbox.token_files import holds_token
from agent_cli.system.regular_files import start_of

# Third-party code and generated files. Repositories and settings in them are ignored, and so are
# certificates, which programs need; secrets count, since a build may copy or move them there.
_GENERATED = frozenset(
    {
        *(".git", "node_modules", ".venv", "venv", "site-packages", "vendor", "target", "dist"),
        *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    }
)
DIRECTORIES_MAX = 50_000
_TIMES_FURTHER = 10
_TICK_NS = 100_000_000
_BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
_MAY_BE_PUBLIC = (".pem", ".key")
_PRIVATE = b"PRIVATE KEY"
_KEY_BYTES_MAX = 1_000_000
_LISTS = ("secrets", "locked", "git_folders", "git_files", "git_pointers", "settings")


def never(_path: PurePath) -> bool:
    """Return False: no path matches."""
    return False


@dataclass(frozen=True, slots=True)
class PathMarks:
    """The predicates that classify paths.

    Attributes:
        is_secret: Whether a path, with "/" for the root, names a secret.
        is_hidden: Whether a rule forbids to read the real path.
        is_locked: Whether a rule forbids to change the real path.
    """

    is_secret: Callable[[PurePath], bool] = never
    is_hidden: Callable[[PurePath], bool] = never
    is_locked: Callable[[PurePath], bool] = never


@dataclass(slots=True)
class Contents:
    """The paths found, nearest to the root first.

    Attributes:
        secrets: Real paths of files and folders that must not be read.
        locked: Real paths of files and folders that must not be changed.
        git_folders: Git folders of the repositories below the root, without the root's own.
        git_files: `.git` files of worktrees and submodules below the root.
        git_pointers: `.git` files and links named `.git`, at the root's own level too.
        settings: Files and folders that programs act on, below the root's own level.
        is_complete: Whether the whole folder was searched.
        is_changed: Whether a directory differs from the last search.
    """

    secrets: list[Path] = field(default_factory=list[Path])
    locked: list[Path] = field(default_factory=list[Path])
    git_folders: list[Path] = field(default_factory=list[Path])
    git_files: list[Path] = field(default_factory=list[Path])
    git_pointers: list[Path] = field(default_factory=list[Path])
    settings: list[Path] = field(default_factory=list[Path])
    is_complete: bool = True
    is_changed: bool = False

    def __bool__(self) -> bool:
        """Return whether any path was found."""
        return any(getattr(self, name) for name in _LISTS)

    def add(self, other: "Contents") -> None:
        """Add the paths of *other*."""
        for name in _LISTS:
            getattr(self, name).extend(getattr(other, name))


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory as it was when it was listed.

    Attributes:
        changed_ns: Its time of change; 0 if it was so fresh that a later change may have the same.
        below: The folders in it to search.
        contents: The paths found in it; None, as in most, if there are none.
    """

    changed_ns: int
    below: tuple[str, ...]
    contents: Contents | None


class SecretIndex:
    """Searches below a root; follows links to files, but not to folders."""

    def __init__(
        self,
        root: Path,
        marks: PathMarks,
        *,
        directories_max: int = DIRECTORIES_MAX,
        depth_max: int | None = None,
    ) -> None:
        """Search nothing yet; *depth_max* 1 means the root alone."""
        self._root = root
        self._marks = marks
        self._directories_max = directories_max
        self._depth_max = depth_max
        self._known: dict[str, _Directory] = {}

    def contents(self) -> Contents:
        """Return the current contents, up to the limit of directories."""
        found = Contents()
        waiting = [str(self._root)]
        seen: dict[str, _Directory] = {}
        depth = 0
        while waiting and depth != self._depth_max:
            room = self._directories_max - len(seen)
            found.is_complete = len(waiting) <= room
            following = self._look_at(waiting[:room], found, seen)
            waiting = following if found.is_complete else []
            depth += 1
        found.is_changed = found.is_changed or len(seen) != len(self._known)
        self._known = seen
        return found

    def contents_further(self) -> Contents:
        """Return the current contents, up to ten times as many directories; remember none of them.

        It takes seconds.
        """
        further = self._directories_max * _TIMES_FURTHER
        index = SecretIndex(self._root, self._marks, directories_max=further)
        index._known = self._known
        return index.contents()

    def _look_at(
        self, paths: Sequence[str], found: Contents, seen: dict[str, _Directory]
    ) -> list[str]:
        """Add the contents of the directories *paths* to *found*; return those below them."""
        # No Path and few calls, for speed: this runs for every directory before every command.
        stat, known_at, following = os.stat, self._known.get, list[str]()
        # Two changes within one clock tick have the same time, so a fresh change is not cached.
        settled_ns = time.time_ns() - _TICK_NS
        for path in paths:
            try:
                changed_ns = stat(path).st_mtime_ns
                known = known_at(path)
                is_settled = 0 < changed_ns <= settled_ns
                if known is None or known.changed_ns != changed_ns or not is_settled:
                    known = self._directory(path, changed_ns if is_settled else 0)
                    found.is_changed = True
            except PermissionError:
                # The user can make it readable at any time, with unknown secrets in it.
                found.secrets.append(Path(path))
                continue
            except OSError:
                continue  # Deleted meanwhile.
            seen[path] = known
            following += known.below
            if known.contents is not None:
                found.add(known.contents)
        return following

    def _directory(self, path: str, changed_ns: int) -> _Directory:
        with os.scandir(path) as entries:
            listed = list(entries)
        inside = PurePath("/", os.path.relpath(path, self._root))
        is_generated = not _GENERATED.isdisjoint(inside.parts)
        folders = [entry for entry in listed if entry.is_dir(follow_symlinks=False)]
        secrets = list(self._secrets(listed, inside, is_generated=is_generated))
        hidden = {str(each) for each in secrets}
        is_theirs = is_generated or path == str(self._root)
        named_git = [each for each in listed if each.name == ".git" and not is_theirs]
        is_bare = not is_theirs and {each.name for each in listed} >= _BARE_REPOSITORY
        contents = Contents(
            secrets=secrets,
            locked=list(self._locked(listed)),
            git_folders=[
                *(Path(each.path) for each in named_git if each.is_dir(follow_symlinks=False)),
                *([Path(path)] if is_bare else []),
            ],
            git_files=[
                Path(each.path) for each in named_git if each.is_file(follow_symlinks=False)
            ],
            git_pointers=[
                Path(each.path)
                for each in listed
                if each.name == ".git" and not is_generated and _is_pointer(each)
            ],
            settings=[
                Path(each.path) for each in listed if each.name in NESTED_NAMES and not is_theirs
            ],
        )
        below = tuple(each.path for each in folders if each.path not in hidden)
        return _Directory(changed_ns, below, contents or None)

    def _secrets(
        self, entries: "list[os.DirEntry[str]]", inside: PurePath, *, is_generated: bool
    ) -> Iterator[Path]:
        for entry in entries:
            is_secret = self._is_secret_file(entry, inside)
            if is_secret and is_generated:
                is_secret = not _is_public(entry.path)
            if is_secret or self._is_hidden(entry):
                yield Path(os.path.realpath(entry.path))

    def _is_hidden(self, entry: "os.DirEntry[str]") -> bool:
        hides = self._marks.is_hidden
        return hides is not never and hides(PurePath(entry.path))

    def _is_secret_file(self, entry: "os.DirEntry[str]", inside: PurePath) -> bool:
        # Only the path below the root counts: the user chose to work in the folders above it.
        # Not entry.is_dir, which raises an error for a link into another user's private directory.
        named = self._marks.is_secret(inside / entry.name) or holds_token(PurePath(entry.path))
        return named and not os.path.isdir(entry.path)  # noqa: PTH112

    def _locked(self, entries: "list[os.DirEntry[str]]") -> Iterator[Path]:
        if self._marks.is_locked is not never:
            for entry in entries:
                if self._marks.is_locked(PurePath(entry.path)):
                    yield Path(os.path.realpath(entry.path))


def _is_pointer(entry: "os.DirEntry[str]") -> bool:
    return entry.is_symlink() or entry.is_file(follow_symlinks=False)


def _is_public(path: str) -> bool:
    """Return whether a file named like a key has only certificates, as libraries ship them."""
    if not path.casefold().endswith(_MAY_BE_PUBLIC):
        return False
    try:
        content = start_of(Path(path), _KEY_BYTES_MAX + 1)
    except OSError:
        return False
    return len(content) <= _KEY_BYTES_MAX and _PRIVATE not in content
