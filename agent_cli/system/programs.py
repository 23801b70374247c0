"""Find the programs that we start ourselves, never one from a repository."""

import os
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = frozenset(map(Path, os.defpath.split(os.pathsep)))


def find_program(name: str, *, outside: Path) -> Path | None:
    """Return the program *name*: of our own installation, or else from PATH.

    A program below *outside* or the current directory, or in a PATH entry that depends on the
    latter, belongs to whoever wrote the repository, and is passed over; so is a version manager's
    shim, which runs what a file of the repository names. What the system itself brings never is,
    even if somebody works in the root of all.
    """
    import sysconfig  # noqa: PLC0415 - most starts look for no program before the first prompt

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


@dataclass(slots=True)
class _Users:
    """The PATH this process was started with; None before `shield_path`."""

    path: str | None = None


# One process has one PATH: libraries look programs up in it too, so no argument could carry this.
_USERS = _Users()


def shield_path(here: Path) -> None:
    """Make our own PATH, which libraries use as well, lead to no program of the repository *here*.

    Commands of the user and of the model still find theirs: see `users_path`. Called again, it
    leaves out one more repository.
    """
    path = os.environ.get("PATH", os.defpath)
    if _USERS.path is None:
        _USERS.path = path
    os.environ["PATH"] = search_path(path, outside=_repository(here))


def use_shielded_path() -> None:
    """Let commands, too, find no program of the repository we were started in."""
    _USERS.path = None


def users_path() -> str:
    """Return the PATH as the user has it, for commands that run in their name."""
    return os.environ.get("PATH", os.defpath) if _USERS.path is None else _USERS.path


def _repository(here: Path) -> Path | None:
    """Return the repository around *here*, or *here*; None where the user's home is below."""
    home = Path.home().resolve()
    around = [each for each in (here, *here.parents) if not home.is_relative_to(each)]
    return next((each for each in around if (each / ".git").exists()), next(iter(around), None))


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
