"""Find repositories by the files that git keeps in them; git itself is not started."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import start_of
from agent_cli.system.paths import exists, is_file, real_path

# One of these holds what a folder brings to the folders below it.
_OF_PROJECT: Final = (".claude", ".mcp.json", ".agents", ".agent-cli", "appsettings.toml")
_POINTER_BYTES_MAX: Final = 1_048_576  # as git


def repository_root(folder: Path) -> Path | None:
    """Return the nearest working tree at or above *folder*; None outside of a repository.

    An empty `.git`, as sandboxes leave behind, is none: git passes over it too.
    """
    return next((each for each in (folder, *folder.parents) if _is_root(f"{each}/.git")), None)


def project_folders(workspace: Path) -> tuple[Path, ...]:
    """Return the folders whose project files count in *workspace*, the nearest first.

    These are *workspace* and, up to the root of its repository, each folder above it with files for
    a project. The search ends at a folder of another owner, as a repository in `/tmp` would be
    anybody's, and at the home directory: a repository of dotfiles is no project around all of it.
    """
    root = repository_root(workspace)
    if root in (None, workspace):
        return (workspace,)
    found = [workspace]
    home, owner = real_path(Path.home()), _owner(workspace)
    for folder in workspace.parents:
        if home.is_relative_to(folder) or _owner(folder) != owner:
            break
        if any(os.path.exists(f"{folder}/{name}") for name in _OF_PROJECT):  # noqa: PTH110 - see _is_root
            found.append(folder)
        if folder == root:
            break
    return tuple(found)


def in_each(around: Iterable[Path], names: Sequence[str]) -> Iterator[Path]:
    """Yield *names* in the first of the folders *around* a workspace, then in the next."""
    return (folder / name for folder in around for name in names)


def folder_and_name(path: Path, around: Sequence[Path]) -> tuple[Path, str]:
    """Return the folder that *path* lies in, of those *around* a workspace, and its name there."""
    folder = next(filter(path.is_relative_to, around), around[0])
    return folder, os.path.relpath(path, folder)


def git_folder_at(top: Path) -> Path:
    """Return the git folder of the working tree *top*: `.git`, or what a file of that name names.

    Raises:
        OSError: That file cannot be read.
    """
    git = top / ".git"
    return real_path(top / pointer_in(git).removeprefix("gitdir: ")) if is_file(git) else git


def common_git_folder(own: Path) -> Path:
    """Return the git folder that *own*, the git folder of one working tree, shares with others.

    Raises:
        OSError: A file of git's cannot be read.
    """
    shared = own / "commondir"
    return real_path(own / pointer_in(shared)) if exists(shared) else own


def pointer_in(file: Path) -> str:
    """Return the path that *file*, one of git's, holds; raises OSError."""
    # Git reads it as a C string.
    return os.fsdecode(start_of(file, _POINTER_BYTES_MAX).partition(b"\0")[0]).strip("\n")


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def _is_root(git: str) -> bool:
    # A path object costs three times as much, and this runs in each folder up to the root.
    return os.path.exists(f"{git}/HEAD") or os.path.isfile(git)  # noqa: PTH110, PTH113
