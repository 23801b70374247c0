"""Where the programs are that we start ourselves: never one that a repository may have brought."""

import os
import sysconfig
from pathlib import Path

_SYSTEM = frozenset(map(Path, os.defpath.split(os.pathsep)))


def find_program(name: str, *, outside: Path) -> Path | None:
    """Return the program *name*: of our own installation, or else from PATH.

    A program below *outside* or the current directory, or in a PATH entry that depends on the
    latter, belongs to whoever wrote the repository, and is passed over; so is a version manager's
    shim, which runs what a file of the repository names. What the system itself brings never is,
    even if somebody works in the root of all.
    """
    ours = Path(sysconfig.get_path("scripts"))
    foreign = (outside, Path.cwd())
    directories = [ours, *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))]
    for directory in directories:
        program = directory / name
        if not directory.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
            continue
        # Our own installation may well be a virtual environment inside the workspace.
        if directory == ours or directory in _SYSTEM:
            return program
        is_foreign = any(map(program.resolve().is_relative_to, foreign))
        if not is_foreign and directory.name != "shims":
            return program
    return None


def search_path(folders: str, *, outside: Path | None) -> str:
    """Return the PATH *folders* without those that depend on where we are or lie in *outside*.

    What the system itself brings stays, even if somebody works in the root of all.
    """
    kept = (
        folder
        for folder in map(Path, folders.split(os.pathsep))
        if folder in _SYSTEM
        or (folder.is_absolute() and not (outside and folder.resolve().is_relative_to(outside)))
    )
    return os.pathsep.join(map(str, kept)) or os.defpath
