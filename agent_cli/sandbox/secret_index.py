"""Index the secrets, repositories and settings below a folder; rescan changed folders only."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agent_cli.sandbox.protected import NESTED_NAMES
from agent_cli.sandbox.token_files import holds_token

# Third-party code and generated files. Repositories and settings in them are ignored, and so are
# certificates, which programs need; secrets count, since a build may copy or move them there.
_GENERATED = frozenset(
    {
        *(".git", "node_modules", ".venv", "venv", "site-packages", "vendor", "target", "dist"),
        *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    }
)
DIRECTORIES_MAX = 50_000
_TICK_NS = 100_000_000
_BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
_MAY_BE_PUBLIC = (".pem", ".key")
_PRIVATE = b"PRIVATE KEY"
_KEY_BYTES_MAX = 1_000_000


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


@dataclass(frozen=True, slots=True)
class _Directory:
    changed_ns: int
    secrets: tuple[Path, ...]
    locked: tuple[Path, ...]
    below: tuple[str, ...]
    git_folders: tuple[Path, ...]
    git_files: tuple[Path, ...]
    git_pointers: tuple[Path, ...]
    settings: tuple[Path, ...]


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
            following: list[str] = []
            for path in waiting:
                if len(seen) >= self._directories_max:
                    found.is_complete = False
                    break
                self._look_at(path, found, seen, following)
            waiting = following if found.is_complete else []
            depth += 1
        found.is_changed = found.is_changed or len(seen) != len(self._known)
        self._known = seen
        return found

    def _look_at(
        self, path: str, found: Contents, seen: dict[str, _Directory], following: list[str]
    ) -> None:
        try:
            directory = self._directory(path)
        except PermissionError:
            # The user can make it readable at any time, with unknown secrets in it.
            found.secrets.append(Path(path))
            return
        except OSError:
            return  # Deleted meanwhile.
        found.is_changed = found.is_changed or directory is not self._known.get(path)
        seen[path] = directory
        found.secrets += directory.secrets
        found.locked += directory.locked
        found.git_folders += directory.git_folders
        found.git_files += directory.git_files
        found.git_pointers += directory.git_pointers
        found.settings += directory.settings
        following += directory.below

    def _directory(self, path: str) -> _Directory:
        # No Path, for speed: this runs for every directory before every command.
        changed_ns = os.stat(path).st_mtime_ns  # noqa: PTH116
        # Two changes within one clock tick have the same time, so a fresh change is not cached.
        if time.time_ns() - changed_ns < _TICK_NS:
            changed_ns = 0
        known = self._known.get(path)
        if known is not None and known.changed_ns == changed_ns != 0:
            return known
        with os.scandir(path) as entries:
            listed = list(entries)
        inside = PurePath("/", os.path.relpath(path, self._root))
        is_generated = not _GENERATED.isdisjoint(inside.parts)
        folders = [entry for entry in listed if entry.is_dir(follow_symlinks=False)]
        secrets = tuple(self._secrets(listed, inside, is_generated=is_generated))
        hidden = {str(each) for each in secrets}
        is_theirs = is_generated or path == str(self._root)
        named_git = [each for each in listed if each.name == ".git" and not is_theirs]
        is_bare = not is_theirs and {each.name for each in listed} >= _BARE_REPOSITORY
        return _Directory(
            changed_ns,
            secrets=secrets,
            locked=tuple(self._locked(listed)),
            below=tuple(each.path for each in folders if each.path not in hidden),
            git_folders=(
                *(Path(each.path) for each in named_git if each.is_dir(follow_symlinks=False)),
                *([Path(path)] if is_bare else []),
            ),
            git_files=tuple(
                Path(each.path) for each in named_git if each.is_file(follow_symlinks=False)
            ),
            git_pointers=tuple(
                Path(each.path)
                for each in listed
                if each.name == ".git" and not is_generated and _is_pointer(each)
            ),
            settings=tuple(
                Path(each.path) for each in listed if each.name in NESTED_NAMES and not is_theirs
            ),
        )

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
        with Path(path).open("rb") as file:
            content = file.read(_KEY_BYTES_MAX + 1)
    except OSError:
        return False
    return len(content) <= _KEY_BYTES_MAX and _PRIVATE not in content
