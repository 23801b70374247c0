"""Marks on the worktrees of agents, by which those of a killed program are found later.

A mark is a file that the program at work keeps locked; the system unlocks it when the program is
killed. It lies where git keeps what belongs to the worktree, and goes with that.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_cli.system.paths import exists, real_path
from agent_cli.system.worktrees import Worktree, first_line, git_folder_of, worktree_folder

_FILE: Final = "agent-cli.at-work"


class WorktreeMark:
    """A held mark; `release` it once the worktree was left as it is to be."""

    def __init__(self, worktree: Worktree) -> None:
        """Mark *worktree*.

        Raises:
            GitError: It is no worktree.
            OSError: The mark cannot be written.
        """
        self._path = git_folder_of(worktree.path) / _FILE
        new = self._path.with_suffix(".new")
        self._descriptor = os.open(new, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600)
        try:
            # Locked before it has its name: nobody ever finds it unlocked while we work.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(self._path)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Remove the mark; it may be gone with its worktree."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def take_left_worktrees(folder: Path) -> list[Path]:
    """Return the worktrees that killed programs left in the repository of *folder*, each once.

    Reads files only: this is called at every start.
    """
    with suppress(OSError):
        if common := _common_git_folder(folder):
            beside = real_path(worktree_folder(common.parent, ""))
            left = [_left(mark) for mark in sorted(common.glob(f"worktrees/*/{_FILE}"))]
            # A repository made by others may name any path.
            return [path for path in left if path and path.parent == beside and path.is_dir()]
    return []


def _common_git_folder(folder: Path) -> Path | None:
    """Return the git folder of the repository's main working tree; None outside a repository."""
    found = next(_git_folders(folder), None)
    if found is None or found.is_dir():
        return found
    # A worktree has a file that names its git folder, and that names the common one.
    own = found.parent / first_line(found).removeprefix("gitdir: ")
    return real_path(own / first_line(own / "commondir"))


def _git_folders(folder: Path) -> Iterator[Path]:
    for above in (folder, *folder.parents):
        if exists(above / ".git"):
            yield above / ".git"


def _left(mark: Path) -> Path | None:
    """Return the worktree of *mark* and remove that, unless its program works."""
    try:
        descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        worktree = real_path(mark.parent / first_line(mark.parent / "gitdir")).parent
        mark.unlink()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return worktree
