"""List the files and folders of the workspace: first all, later only the changes.

Knows nothing of completion. Its functions read the disk, so call them in a thread.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.system.git import git_output
from agent_cli.system.paths import is_utf8
from agent_cli.system.trees import walk

_PATHS_MAX: Final = 200_000
_GIT_LIMIT_S: Final = 10
_SKIPPED: Final = {"node_modules", "__pycache__", "dist", "build", ".git"}
# Of more unknown names in one folder, git is asked about the whole folder.
_NAMES_MAX: Final = 200
# A folder that changed so shortly before it was read may change again with the same time stamp.
_STAMP_S: Final = 2.0
_MISSING: Final = -1
_EMPTY_MAX: Final = 50


class WorkspaceFiles:
    """The paths below *folder*, without ignored ones; a folder ends with `/`."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._paths: set[str] = set()
        self._is_repository = False
        # When each folder was last changed; None if it has to be read again.
        self._stamps: dict[str, int | None] = {}

    def all(self) -> Collection[str]:
        """List everything anew."""
        began_ns = time.time_ns()
        files = _known_to_git(self._root)
        self._is_repository = bool(files)
        if not files:  # no repository, or one that ignores this whole folder
            files = list(islice(_walk(self._root, "."), _PATHS_MAX))  # a home may hold millions
        self._paths = set()
        self._add(files)
        self._stamps = self._stamped(["", *_folders(self._paths)], began_ns)
        return self._paths

    def renewed(self) -> Collection[str]:
        """Read again the folders that changed since the last listing; return all paths.

        It overlooks changes of ignore rules, and in folders that held no file: `all` sees them.
        """
        if not self._stamps:
            return self.all()
        began_ns = time.time_ns()
        stamps = self._stamped(self._stamps, began_ns)
        changed = {
            folder: _names_in(self._root / folder)
            for folder, stamp in stamps.items()
            if stamp is None or stamp != self._stamps[folder]
        }
        unknown = self._compare(changed)
        before = self._paths
        self._add(self._kept(unknown))
        added = _folders(self._paths - before)
        for path in unknown:
            if path.endswith("/") and path not in self._paths:
                added += _empty_folders(self._root, path)
        self._stamps = {
            folder: stamp
            for folder, stamp in {**stamps, **self._stamped(added, began_ns)}.items()
            if stamp != _MISSING
        }
        return self._paths

    def _compare(self, changed: dict[str, set[str]]) -> list[str]:
        """Remove the paths that are gone from the *changed* folders; return the unknown ones."""
        known: dict[str, set[str]] = {folder: set() for folder in changed}
        for path in self._paths:
            folder, name = _split(path)
            if folder in known:
                known[folder].add(name)
        gone: set[str] = set()
        unknown: list[str] = []
        skipped = {".git/"} if self._is_repository else {f"{name}/" for name in _SKIPPED}
        for folder, names in changed.items():
            there = {name.rstrip("/") for name in names}
            gone.update(folder + name for name in known[folder] - there)
            fresh = (name for name in names - skipped if name.rstrip("/") not in known[folder])
            new = [folder + name for name in fresh]
            unknown += new if len(new) <= _NAMES_MAX else [folder or "."]
        if gone:
            below = tuple(f"{path}/" for path in gone)
            kept = (path for path in self._paths if not path.startswith(below))
            self._paths = {path for path in kept if path not in gone}
        return unknown

    def _kept(self, unknown: Iterable[str]) -> list[str]:
        """Return the files at or below the *unknown* paths that are not ignored."""
        asked = list(unknown)
        if not asked:
            return []
        if self._is_repository:
            return _known_to_git(self._root, asked) or []
        return list(
            islice((path for each in asked for path in _walk(self._root, each)), _PATHS_MAX)
        )

    def _add(self, files: Iterable[str]) -> None:
        """Add *files* and their folders, to a new set: the old one may be in use."""
        paths = set(self._paths)
        for path in islice(filter(is_utf8, files), max(_PATHS_MAX - len(paths), 0)):
            paths.add(path)
            folder = path.rpartition("/")[0]
            while folder and f"{folder}/" not in paths:
                paths.add(f"{folder}/")
                folder = folder.rpartition("/")[0]
        self._paths = paths

    def _stamped(self, folders: Iterable[str], now_ns: int) -> dict[str, int | None]:
        latest_ns = now_ns - int(_STAMP_S * 1e9)
        stamps: dict[str, int | None] = {}
        for folder in folders:
            try:
                stamp = os.stat(self._root / folder).st_mtime_ns  # noqa: PTH116 - for speed
            except (OSError, ValueError):
                stamp = _MISSING
            stamps[folder] = stamp if stamp < latest_ns else None
        return stamps


def _folders(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if path.endswith("/")]


def _split(path: str) -> tuple[str, str]:
    """Return the folder of *path*, with a slash unless it is the root, and its name."""
    folder, slash, name = path.rstrip("/").rpartition("/")
    return folder + slash, name


def _names_in(folder: Path) -> set[str]:
    """Return the names in *folder*, folders with a slash; none on an error."""
    try:
        with os.scandir(folder) as entries:
            return {
                f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name
                for each in entries
            }
    except OSError:
        return set()


def _empty_folders(root: Path, path: str) -> list[str]:
    """Return *path* and the folders below it, if no such folder holds a file yet."""
    found: list[str] = []
    for folder, _folders_in_it, names in islice(walk(root / path), _EMPTY_MAX):
        if names:
            return []  # all of them are ignored
        found.append(f"{Path(folder).relative_to(root).as_posix()}/")
    return found


def _known_to_git(root: Path, paths: Iterable[str] = ()) -> list[str] | None:
    """Return the files git does not ignore, of *paths* only if any; None without a repository."""
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
    listed = git_output(root, "--literal-pathspecs", *listing, *paths, limit_s=_GIT_LIMIT_S)
    return None if listed is None else [path for path in listed.split("\0") if path]


def _walk(root: Path, path: str) -> Iterator[str]:
    """Yield the files at or below *path*, relative to *root*, without installed packages."""
    if path != "." and not path.endswith("/"):
        yield path
        return
    for folder, folders, names in walk(root / path):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in names:
            yield Path(folder, name).relative_to(root).as_posix()
