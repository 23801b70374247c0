"""Carry a commit of a repository to another machine, with its history, in one file. Blocking."""

import os
import tempfile
from pathlib import Path
from typing import Final

from agent_cli.system.git import run_git

_BRANCH: Final = "refs/heads/task"
_LIMIT_S: Final = 900.0


def write_bundle(repository: Path, commit: str, file: Path) -> None:
    """Write *commit* of *repository* to *file*; the repository itself is not touched.

    Raises:
        GitError: Git cannot write it; a shallow clone cannot be bundled.
    """
    objects = os.fsdecode(
        run_git(repository, "rev-parse", "--git-path", "objects", limit_s=_LIMIT_S)
    ).strip()
    with tempfile.TemporaryDirectory(prefix="agent-cli-") as folder:
        beside = Path(folder)
        run_git(beside, "init", "--quiet", "--bare", *_format(commit), limit_s=_LIMIT_S)
        # A bundle needs a ref. This repository has one, and the objects of the other.
        alternates = beside / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{(repository / objects).resolve()}\n")
        run_git(beside, "update-ref", _BRANCH, commit, limit_s=_LIMIT_S)
        run_git(
            beside, "bundle", "create", "--quiet", str(file.absolute()), _BRANCH, limit_s=_LIMIT_S
        )


def unpack_bundle(file: Path, folder: Path, commit: str) -> None:
    """Check *commit* out of the bundle *file* in the new repository *folder*.

    Raises:
        GitError: Git cannot read it.
    """
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", *_format(commit), limit_s=_LIMIT_S)
    # No remote is asked for anything else, so the file must be allowed.
    allowed = {"GIT_ALLOW_PROTOCOL": "file"}
    fetched = ("fetch", "--quiet", "--no-tags", str(file.absolute()), _BRANCH)
    run_git(folder, *fetched, limit_s=_LIMIT_S, variables=allowed)
    run_git(folder, "checkout", "--quiet", "--detach", commit, limit_s=_LIMIT_S)


def _format(commit: str) -> tuple[str, ...]:
    return ("--object-format=sha256",) if len(commit) > 40 else ()
