"""Find the programs that we start ourselves, but never one from a repository."""

import os
from dataclasses import dataclass
from pathlib import Path

from agent_cli.system.paths import exists, real_path

_SYSTEM = frozenset(map(Path, os.defpath.split(os.pathsep)))


def find_program(name: str, *, outside: Path) -> Path | None:
    """Return the program *name* from our own installation, or else from PATH.

    A program below *outside* or the current directory, or in a relative PATH entry, belongs to the
    repository and is skipped; so is a version manager's shim, which runs a program named by a file
    of the repository. Programs in the system's folders are never skipped, even if the workspace is
    "/".
    """
    import sysconfig  # noqa: PLC0415 - rarely needed before the first prompt

    ours = Path(sysconfig.get_path("scripts"))
    foreign = (outside, Path.cwd())
    directories = [ours, *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))]
    for directory in directories:
        program = directory / name
        if not directory.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
            continue
        # Our own installation may be a virtual environment inside the workspace.
        if directory == ours or directory in _SYSTEM:
            return program
        is_foreign = any(map(real_path(program).is_relative_to, foreign))
        if not is_foreign and directory.name != "shims":
            return program
    return None


@dataclass(slots=True)
class _Users:
    """The PATH this process was started with; None before `shield_path`."""

    path: str | None = None


# A process has one PATH, in which libraries find programs too, so this cannot be an argument.
_USERS = _Users()


def shield_path(here: Path) -> None:
    """Remove the folders of the repository around *here* from our own PATH, used by libraries too.

    Commands of the user and of the model still get the original: see `users_path`. Another call
    removes another repository.
    """
    path = os.environ.get("PATH", os.defpath)
    if _USERS.path is None:
        _USERS.path = path
    os.environ["PATH"] = search_path(path, outside=_repository(here))


def use_shielded_path() -> None:
    """Use the shielded PATH for commands too."""
    _USERS.path = None


def users_path() -> str:
    """Return the user's original PATH, for commands that run on the user's behalf."""
    return os.environ.get("PATH", os.defpath) if _USERS.path is None else _USERS.path


def _repository(here: Path) -> Path | None:
    """Return the repository around *here*, or *here*; None if that contains the user's home."""
    home = real_path(Path.home())
    around = [each for each in (here, *here.parents) if not home.is_relative_to(each)]
    roots = (each for each in around if exists(each / ".git"))
    return next(roots, next(iter(around), None))


def search_path(folders: str, *, outside: Path | None) -> str:
    """Return the PATH *folders* without relative ones and those inside *outside*.

    The system's folders stay, even if the workspace is "/".
    """
    kept = (
        folder
        for folder in map(Path, folders.split(os.pathsep))
        if folder in _SYSTEM
        or (folder.is_absolute() and not (outside and real_path(folder).is_relative_to(outside)))
    )
    return os.pathsep.join(map(str, kept)) or os.defpath
