"""Find the git folders of a workspace, and the files in them that make git start programs.

Only reads files; git itself is not run, because a repository can make it start any program.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from agent_cli.sandbox.git_config import hooks_path
from agent_cli.system.paths import exists, is_dir, is_file
from agent_cli.system.regular_files import start_of

_POINTER = "gitdir:"
_POINTER_BYTES_MAX = 1_048_576  # as git
# Each takes mounts. A command could make more of them, to free those that the user has: so the
# others are watched, and of a repository with too many for that, nothing can be changed.
_MOUNTED_MAX = 50
WATCHED_MAX = 500
_MORE_CONFIGURATION = ("commondir", "config.worktree")


@dataclass(frozen=True, slots=True)
class GitFolders:
    """The folders in which git keeps a repository.

    Attributes:
        writable: The folders that commits are written to.
        protected: Paths in them, existing or missing, that commands must not change.
        watched: Missing files that would redirect git if a command created them. They cannot be
            blocked by placeholders, because git stops if it finds anything else there.
        beyond: Paths, existing or missing, that commands must not change either, but that are too
            many to be mounted.
        is_complete: Whether all paths are known; if not, the whole repository is protected.
        hooks: Folders of hooks in the working tree, which the configuration names.
    """

    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()
    beyond: tuple[Path, ...] = ()
    is_complete: bool = True
    hooks: tuple[Path, ...] = ()


def git_folders(root: Path, *, searched_max: int = WATCHED_MAX) -> GitFolders:
    """Return the git folders of the repository that contains the real directory *root*.

    Args:
        searched_max: Maximum number of folders of submodules to search, and of worktrees.
    """
    for directory in (root, *root.parents):
        entry = directory / ".git"
        if entry.is_symlink():
            return _of_symlink(entry, directory, searched_max)
        if is_dir(entry):
            return of_repository(entry, searched_max)
        if is_file(entry):
            return _of_pointer(entry, directory, searched_max)
    return GitFolders()


def of_repository(folder: Path, searched_max: int = WATCHED_MAX) -> GitFolders:
    """Return *folder*, the `.git` of an ordinary repository, and the protected paths in it."""
    if not _has_head(folder):
        # It may get one later, also from `git init`, which keeps an existing configuration.
        return GitFolders(protected=(folder, folder / "hooks", folder / "config"))
    modules = _submodules(folder / "modules", searched_max)
    trees = _some_folders(folder / "worktrees", searched_max)
    if modules is None or trees is None:
        return GitFolders(protected=(folder,), is_complete=False)
    near, far = modules[:_MOUNTED_MAX], modules[_MOUNTED_MAX:]
    protected = [each / name for each in (folder, *near) for name in ("hooks", "config")]
    # Git reads configuration from these too, also in worktrees elsewhere.
    more = [*_more_configuration((folder, *near, *trees[:_MOUNTED_MAX]))]
    is_there = {path: exists(path) for path in more}
    protected += [path for path in more if is_there[path]]
    missing = tuple(path for path in more if not is_there[path])
    beyond = [each / name for each in far for name in ("hooks", "config")]
    beyond += _more_configuration((*far, *trees[_MOUNTED_MAX:]))
    hooks = _named_hooks(folder, folder.parent) if folder.name == ".git" else ()
    return GitFolders((folder,), tuple(protected), missing, tuple(beyond), hooks=hooks)


def _named_hooks(folder: Path, tree: Path) -> tuple[Path, ...]:
    """Return the folder of hooks inside *tree* that the configuration in *folder* names, if any."""
    name = hooks_path(_read(folder / "config"))
    named = named_folder(tree, name)
    is_inside = named != tree and named.is_relative_to(tree) and not folder.is_relative_to(named)
    return (named,) if name and name[0] not in "~%" and is_inside else ()


def _more_configuration(folders: Iterable[Path]) -> Iterator[Path]:
    return (each / name for each in folders for name in _MORE_CONFIGURATION)


def pointed_at(entry: Path) -> tuple[Path, ...]:
    """Return the real folders that *entry*, a `.git` link or file, names; () for another file.

    The first one is where git goes. Blanks around the name belong to it for git, but not for
    libgit2, which editors use.
    """
    if entry.is_symlink():
        return (Path(os.path.realpath(entry)),)
    keyword, colon, name = _read(entry).rstrip("\r\n").partition(":")
    if keyword + colon != _POINTER:
        return ()
    names = name.removeprefix(" "), name.strip()
    return tuple(named_folder(entry.parent, each) for each in names)


def shared_folders(folder: Path) -> tuple[Path, ...]:
    """Return the real folders that git and libgit2 use for the configuration of *folder*."""
    name = _read(folder / "commondir")
    return tuple(named_folder(folder, each) for each in (name.rstrip("\r\n"), name.strip()))


def named_folder(base: Path, name: str) -> Path:
    """Return the real folder of *name*, read from a file of git and relative to *base*."""
    # Git reads it as a C string.
    return Path(os.path.realpath(base / name.partition("\0")[0]))


def _submodules(top: Path, searched_max: int) -> list[Path] | None:
    """Return the git folders of submodules below *top*, None if there are too many.

    They may be nested, and their names may have slashes. Links are followed, as git does, but each
    folder is searched once: links may form a circle.
    """
    found: list[Path] = []
    seen = set[str]()
    waiting = deque([top])
    while waiting:
        folders = _some_folders(waiting.popleft(), searched_max)
        if folders is None:
            return None
        for path in folders:
            real = os.path.realpath(path)
            if real in seen:
                continue
            if len(seen) == searched_max:
                return None
            seen.add(real)
            is_module = _has_head(path)
            found += [path] if is_module else []
            waiting.append(path / "modules" if is_module else path)
    return found


def _has_head(folder: Path) -> bool:
    # Git takes a link to a branch without commits, too.
    return os.path.lexists(folder / "HEAD")


def _some_folders(folder: Path, entries_max: int) -> list[Path] | None:
    """Return the folders in *folder*, sorted; None if it has more than *entries_max* entries."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, entries_max + 1)]
    except OSError:
        return []
    if len(names) > entries_max:
        return None
    return [path for path in (folder / name for name in sorted(names)) if is_dir(path)]


def _of_symlink(entry: Path, directory: Path, searched_max: int) -> GitFolders:
    """Return the folders behind a link; a link out of *directory* makes nothing writable."""
    [folder] = pointed_at(entry)
    if not folder.is_relative_to(directory) or not is_dir(folder):
        return GitFolders()
    found = of_repository(folder, searched_max)
    return replace(found, watched=(*found.watched, entry))


def _of_pointer(entry: Path, directory: Path, searched_max: int) -> GitFolders:
    """Return the folders of a worktree or submodule, whose `.git` is a file that names them.

    A command can write such a file, so it counts only if the folder it names points back here.
    """
    found_at = pointed_at(entry)
    if not found_at:
        return GitFolders()
    folder = found_at[0]
    common = named_folder(folder, _line(folder / "commondir") or ".")
    if _line(folder / "gitdir") == str(entry) and folder.parent == common / "worktrees":
        found = of_repository(common, searched_max)
        own = tuple(
            path
            for name in ("commondir", "gitdir", "config.worktree")
            if exists(path := folder / name)
        )
        hooks = (*found.hooks, *_named_hooks(common, directory))
        return replace(found, protected=(*found.protected, *own, entry), hooks=hooks)
    if _worktree_of(folder) == directory:
        found = of_repository(folder, searched_max)
        hooks = _named_hooks(folder, directory)
        return replace(found, protected=(*found.protected, entry), hooks=hooks)
    return GitFolders()


def _worktree_of(folder: Path) -> Path | None:
    """Return the directory that the configuration in *folder* names as its worktree."""
    for line in _read(folder / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "worktree":
            return named_folder(folder, value.strip())
    return None


def _line(path: Path) -> str:
    return _read(path).strip()


def _read(path: Path) -> str:
    try:
        return start_of(path, _POINTER_BYTES_MAX).decode(errors="surrogateescape")
    except OSError:
        return ""
