"""Find repositories by the files that git keeps in them; git itself is not started."""

import os
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import start_of
from agent_cli.system.paths import exists, is_file, real_path

_POINTER_BYTES_MAX: Final = 1_048_576  # as git


def repository_root(folder: Path) -> Path | None:
    """Return the nearest working tree at or above *folder*; None outside of a repository.

    An empty `.git`, as sandboxes leave behind, is none: git passes over it too.
    """
    return next((each for each in (folder, *folder.parents) if _is_root(each / ".git")), None)


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


def _is_root(git: Path) -> bool:
    return exists(git / "HEAD") or is_file(git)
