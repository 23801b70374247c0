"""Find the git folders of a workspace, and the files in them that make git start programs.

Only reads files; git itself is not run, because a repository can make it start any program.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent_cli.system.paths import exists, is_dir, is_file
from agent_cli.system.regular_files import start_of

_POINTER = "gitdir:"
_POINTER_BYTES_MAX = 1_048_576  # as git
_SUBMODULES_MAX = 50
_WORKTREES_MAX = 50
_MORE_CONFIGURATION = ("commondir", "config.worktree")


@dataclass(frozen=True, slots=True)
class GitFolders:
    """The folders in which git keeps a repository.

    Attributes:
        writable: The folders that commits are written to.
        protected: Paths in them, existing or missing, that commands must not change.
        watched: Missing files that would redirect git if a command created them. They cannot be
            blocked by placeholders, because git stops if it finds anything else there.
    """

    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()


def git_folders(root: Path) -> GitFolders:
    """Return the git folders of the repository that contains the real directory *root*."""
    for directory in (root, *root.parents):
        entry = directory / ".git"
        if entry.is_symlink():
            return _of_symlink(entry, directory)
        if is_dir(entry):
            return of_repository(entry)
        if is_file(entry):
            return _of_pointer(entry, directory)
    return GitFolders()


def of_repository(folder: Path) -> GitFolders:
    """Return *folder*, the `.git` of an ordinary repository, and the protected paths in it."""
    if not _has_head(folder):
        # It may get one later, also from `git init`, which keeps an existing configuration.
        return GitFolders(protected=(folder, folder / "hooks", folder / "config"))
    modules = list(islice(_modules(folder / "modules"), _SUBMODULES_MAX))
    trees = islice(_folders_in(folder / "worktrees"), _WORKTREES_MAX)
    protected = [each / name for each in (folder, *modules) for name in ("hooks", "config")]
    # Git reads configuration from these too, also in worktrees elsewhere.
    more = [each / name for each in (folder, *modules, *trees) for name in _MORE_CONFIGURATION]
    is_there = {path: exists(path) for path in more}
    protected += [path for path in more if is_there[path]]
    missing = tuple(path for path in more if not is_there[path])
    return GitFolders((folder,), tuple(protected), missing)


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


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the git folders of submodules, nested ones too; their names may have slashes."""
    for path in _folders_in(folder):
        is_module = _has_head(path)
        if is_module:
            yield path
        yield from _modules(path / "modules" if is_module else path)


def _has_head(folder: Path) -> bool:
    # Git takes a link to a branch without commits, too.
    return os.path.lexists(folder / "HEAD")


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if is_dir(path))
    except OSError:
        return []


def _of_symlink(entry: Path, directory: Path) -> GitFolders:
    """Return the folders behind a link; a link out of *directory* makes nothing writable."""
    [folder] = pointed_at(entry)
    if not folder.is_relative_to(directory) or not is_dir(folder):
        return GitFolders()
    found = of_repository(folder)
    return GitFolders(found.writable, found.protected, (*found.watched, entry))


def _of_pointer(entry: Path, directory: Path) -> GitFolders:
    """Return the folders of a worktree or submodule, whose `.git` is a file that names them.

    A command can write such a file, so it counts only if the folder it names points back here.
    """
    found_at = pointed_at(entry)
    if not found_at:
        return GitFolders()
    folder = found_at[0]
    common = named_folder(folder, _line(folder / "commondir") or ".")
    if _line(folder / "gitdir") == str(entry) and folder.parent == common / "worktrees":
        found = of_repository(common)
        own = tuple(
            path
            for name in ("commondir", "gitdir", "config.worktree")
            if exists(path := folder / name)
        )
        return GitFolders(found.writable, (*found.protected, *own, entry), found.watched)
    if _worktree_of(folder) == directory:
        found = of_repository(folder)
        return GitFolders(found.writable, (*found.protected, entry), found.watched)
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
