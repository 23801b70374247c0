"""Index the secrets, repositories and settings below a folder; rescan changed folders only."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeAlias

from agent_cli.sandbox.guarded_files import settings_among
from agent_cli.sandbox.report import is_shortage, raise_shortage
from agent_cli.sandbox.secret_files import holds_token, may_hold_token
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.folder_watch import FolderWatch
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass, field

# Third-party code and generated files. Repositories and settings in them are ignored, and so are
# certificates, which programs need; secrets count, since a build may copy or move them there.
_PACKAGES = frozenset(
    {
        *("node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", ".nox"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache"),
    }
)
_GENERATED = _PACKAGES | {".git", "vendor", "target", "dist"}
DIRECTORIES_MAX = 50_000
_TIMES_FURTHER = 10
_TICK_NS = 100_000_000
_BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
# Stores of packages and of git's objects, by the folder they are in: no file in them has its name.
_STORES = {
    ".yarn": frozenset({"cache"}),
    ".cargo": frozenset({"registry"}),
    ".m2": frozenset({"repository"}),
    ".gradle": frozenset({"caches"}),
}
_STORES_ANYWHERE = frozenset({".pnpm-store", "_cacache"})
_GIT_STORES = frozenset({"objects", "lfs"})
_MAY_BE_PUBLIC = (".pem", ".key")
_PRIVATE = b"PRIVATE KEY"
_KEY_BYTES_MAX = 1_000_000
_LISTS = ("secrets", "locked", "git_folders", "git_files", "git_pointers", "settings")


def never(_path: PurePath | str) -> bool:
    """Return False: no path matches."""
    return False


@dataclass(frozen=True, slots=True)
class PathMarks:
    """The predicates that classify paths.

    Attributes:
        is_secret: Whether a path, as text and with "/" for the root, names a secret.
        is_hidden: Whether a rule forbids to read the real path.
        is_locked: Whether a rule forbids to change the real path.
    """

    is_secret: Callable[[str], bool] = never
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


_State: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory as it was when it was listed.

    Attributes:
        state: Its device, inode and times; None if it was so fresh that a later change may have
            the same times.
        below: The folders in it to search, each with its inode.
        contents: The paths found in it; None, as in most, if there are none.
    """

    state: _State | None
    below: tuple[tuple[str, int], ...]
    contents: Contents | None


class SecretIndex:
    """Searches below a root; follows links to files, but not to folders.

    Each directory is listed once, and again after it changed. With a watch the kernel tells which
    did, so that a search takes the same time in a folder of any size; else each is looked at.
    """

    def __init__(
        self,
        root: Path,
        marks: PathMarks,
        *,
        directories_max: int = DIRECTORIES_MAX,
        depth_max: int | None = None,
        watch: FolderWatch | None = None,
        with_packages: bool = True,
    ) -> None:
        """Search nothing yet.

        Args:
            root: A real directory.
            marks: What is searched for.
            directories_max: Those nearest to the root are searched.
            depth_max: How many levels; 1 means the root alone.
            watch: Tells which directories changed.
            with_packages: Whether to search folders of installed packages and of caches, too.
        """
        self._root = root
        self._prefix = str(root).rstrip("/")
        self._marks = marks
        self._directories_max = directories_max
        self._depth_max = depth_max
        self._watch = watch
        self._skipped = frozenset[str]() if with_packages else _PACKAGES
        self._known: dict[str, _Directory] = {}
        self._holding: dict[str, Contents] = {}
        self._refused = set[str]()
        self._unwatched = set[str]()
        self._reported: set[str] = set()
        self._is_complete = self._is_changed = False
        self._has_missed = True
        self._found: Contents | None = None

    def contents(self) -> Contents:
        """Return the current contents, up to the limit of directories."""
        self._is_changed, refused = False, {*self._refused}
        if self._watch is not None:
            self._watch.collect()
        if self._has_missed or not 0 < len(self._known) <= self._directories_max:
            self._search()
        else:
            self._update()
        self._is_changed = self._is_changed or refused != self._refused
        if self._found is None or self._is_changed:
            self._found = self._collected()
        return replace(self._found, is_changed=self._is_changed)

    def contents_further(self) -> Contents:
        """Return the current contents of up to ten times as many directories; remember none.

        It takes seconds.
        """
        further = self._directories_max * _TIMES_FURTHER
        index = SecretIndex(self._root, self._marks, directories_max=further)
        index._known = self._known
        return index.contents()

    def changed(self, path: str) -> None:
        """Note that the watched folder *path* got or lost an entry, or has other permissions."""
        self._reported.add(path)

    def lost(self, path: str) -> None:
        """Note that the folder *path* is no longer watched."""
        self._reported.add(path)
        self._unwatched.add(path)

    def missed(self) -> None:
        """Note that changes went unnoticed, so that each directory is to be looked at."""
        self._has_missed = True

    def _search(self) -> None:
        """Search each directory, and list the changed directories."""
        before, self._known, self._is_complete = self._known, {}, True
        self._has_missed = False
        for paths in (self._holding, self._refused, self._unwatched, self._reported):
            paths.clear()
        self._descend([str(self._root)], before)
        gone = before.keys() - self._known.keys()
        self._is_changed = self._is_changed or bool(gone)
        if self._watch is not None:
            for path in gone:
                self._watch.drop(path, self)

    def _update(self) -> None:
        """List the changed directories, and search directories whose changes no watch reports."""
        reported, self._reported = self._reported, set[str]()
        new: list[str] = []
        is_moved = False
        for path in sorted({*reported, *self._unwatched, *self._refused}, key=_from_root):
            known = self._known.get(path)
            was_refused = path in self._refused
            self._unwatched.discard(path)
            self._refused.discard(path)
            if known is None and not was_refused:
                continue  # it was in a folder that is gone
            now = self._look(path, None if path in reported else known)
            if known is not None and now is not known:
                left = () if now is None else now.below
                for gone in {*known.below}.difference(left):
                    self._forget(gone[0])
                if now is None:
                    self._forget(path)
                is_moved = is_moved or known.below != left
            if now is not None and now is not known:
                before = () if known is None else known.below
                new += [below for below, _ in {*now.below}.difference(before)]
        if self._is_complete:
            self._descend(sorted(new), {})
        if (is_moved or new) and not self._is_complete:
            self._search()  # others may be the nearest to the root now

    def _descend(self, paths: list[str], before: Mapping[str, _Directory]) -> None:
        """Add the directories *paths* and all directories below, nearest to the root first."""
        while paths:
            room = self._directories_max - len(self._known)
            self._is_complete = self._is_complete and len(paths) <= room
            found = [self._look(path, before.get(path)) for path in paths[:room]]
            below = [path for each in found if each is not None for path, _ in each.below]
            paths = below if self._is_complete else []

    def _look(self, path: str, known: _Directory | None) -> _Directory | None:
        """Return the directory *path*, *known* if it is as it was then; None if it is closed to us.

        It is listed otherwise, and watched if that works.
        """
        try:
            state = os.stat(path)  # noqa: PTH116 - no Path, for speed
            times = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
            # Watched before it is listed, so that no change falls between.
            watch = self._watch
            is_watched = watch is not None and watch.add(path, state.st_dev, self)
            if known is None or known.state != times:
                if not os.access(path, os.X_OK):
                    raise PermissionError(path)  # no file in it can be masked
                known = self._directory(path, times)
                self._is_changed = True
        except PermissionError:
            # The user can make it readable at any time, with unknown secrets in it.
            self._refused.add(path)
            return None
        except OSError as error:
            self._has_missed = self._has_missed or is_shortage(error)
            raise_shortage(error)
            return None  # Deleted meanwhile.
        if not is_watched:
            self._unwatched.add(path)
        self._known[path] = known
        self._holding.pop(path, None)
        if known.contents is not None:
            self._holding[path] = known.contents
        return known

    def _forget(self, top: str) -> None:
        """Drop the directory *top* and all directories below it."""
        self._is_changed = True
        waiting = [top]
        while waiting:
            path = waiting.pop()
            known = self._known.pop(path, None)
            self._holding.pop(path, None)
            self._unwatched.discard(path)
            if path != top:
                self._refused.discard(path)
            if self._watch is not None:
                self._watch.drop(path, self)
            waiting += [below for below, _ in known.below] if known else ()

    def _collected(self) -> Contents:
        found = Contents(is_complete=self._is_complete)
        for path in sorted(self._holding, key=_from_root):
            found.add(self._holding[path])
        found.secrets += map(Path, sorted(self._refused))
        return found

    def _directory(self, path: str, state: _State) -> _Directory:
        with os.scandir(path) as entries:
            listed = {entry.name: entry for entry in entries}
        now_ns = time.time_ns()
        # Two changes within one clock tick have the same times, so what just changed is not
        # believed. Times may lie in the future: the clock was set back, or an archive unpacked.
        is_fresh = any(abs(now_ns - each_ns) < _TICK_NS for each_ns in state[2:])
        inside = path[len(self._prefix) :].rstrip("/")
        parts = inside.split("/")
        is_generated = not _GENERATED.isdisjoint(parts)
        is_theirs = is_generated or not inside
        secrets = list(self._secrets(listed.values(), inside, is_generated=is_generated))
        hidden = {str(each) for each in secrets}
        stores = _STORES.get(parts[-1], _STORES_ANYWHERE)
        if ".git" in parts and listed.keys() >= _BARE_REPOSITORY:
            stores = _GIT_STORES
        contents = Contents(
            secrets=secrets,
            locked=list(self._locked(listed.values())),
            settings=[] if is_generated else settings_among(listed.values(), inside),
        )
        if not is_theirs and listed.keys() >= _BARE_REPOSITORY:
            contents.git_folders.append(Path(path))
        if (git := listed.get(".git")) and not is_generated:
            _note_git(git, contents, is_own=not inside)
        below = tuple(
            (entry.path, entry.inode())
            for name, entry in listed.items()
            if entry.is_dir(follow_symlinks=False)
            and name not in stores
            and name not in self._skipped
            and entry.path not in hidden
        )
        if self._depth_max is not None and inside.count("/") + 1 >= self._depth_max:
            below = ()
        return _Directory(None if is_fresh else state, below, contents or None)

    def _secrets(
        self, entries: "Iterable[os.DirEntry[str]]", inside: str, *, is_generated: bool
    ) -> Iterator[Path]:
        # Only the path below the root counts: the user chose to work in the folders above it.
        is_secret, hides = self._marks.is_secret, self._marks.is_hidden
        for entry in entries:
            name = entry.name
            # Not entry.is_dir, which raises an error for a link into another user's folder.
            if (
                (is_secret(f"{inside}/{name}") or _has_token(entry))
                and not os.path.isdir(entry.path)  # noqa: PTH112
                and not (is_generated and _is_public(entry.path))
            ) or (hides is not never and hides(PurePath(entry.path))):
                yield real_path(entry.path)

    def _locked(self, entries: "Iterable[os.DirEntry[str]]") -> Iterator[Path]:
        if self._marks.is_locked is not never:
            for entry in entries:
                if self._marks.is_locked(PurePath(entry.path)):
                    yield real_path(entry.path)


def _has_token(entry: "os.DirEntry[str]") -> bool:
    return may_hold_token(entry.name) and holds_token(PurePath(entry.path))


def _from_root(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _note_git(entry: "os.DirEntry[str]", found: Contents, *, is_own: bool) -> None:
    """Add *entry*, named `.git`, to *found*; *is_own* if it is the root's own."""
    path = Path(entry.path)
    if _is_pointer(entry):
        found.git_pointers.append(path)
    if is_own:
        return
    if entry.is_dir(follow_symlinks=False):
        found.git_folders.insert(0, path)
    elif entry.is_file(follow_symlinks=False):
        found.git_files.append(path)


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
