"""Find the programs that we start ourselves, but never one from a repository."""

import os
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agent_cli.system.paths import current_folder, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.repositories import repository_root

_SYSTEM = frozenset(map(Path, os.defpath.split(os.pathsep)))


def find_program(name: str, *, outside: Path) -> Path | None:
    """Return the program *name* from our own installation, or else from PATH.

    A program below *outside* or the current directory, or in a relative PATH entry, belongs to the
    repository and is skipped; so is a version manager's shim, which runs a program named by a file
    of the repository. Our own installation may lie there too: its programs are used while they are
    what they were when this process first looked. Programs in the system's folders are never
    skipped, even if the workspace is "/".
    """
    ours = scripts_folder()
    foreign = (outside, current_folder())
    directories = [ours, *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))]
    for directory in directories:
        program = directory / name
        if not directory.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
            continue
        if directory in _SYSTEM:
            return program
        is_foreign = any(_leads_through(program, each) for each in foreign)
        if directory == ours:
            if not is_foreign or _is_as_installed(program):
                return program
        elif not is_foreign and directory.name != "shims":
            return program
    return None


@cache  # the library computes each time all paths that there are
def scripts_folder() -> Path:
    """Return the folder of the programs of our own installation."""
    import sysconfig  # rarely needed before the first prompt

    return Path(sysconfig.get_path("scripts"))


_Fingerprint: TypeAlias = tuple[int, ...]


@dataclass(slots=True)
class _Installed:
    """The programs of our installation as they were when this process first looked, by name."""

    programs: dict[str, _Fingerprint] | None = None


_INSTALLED = _Installed()


def note_installed_programs() -> None:
    """Remember the programs of our own installation as they are now.

    Called before the first command of a session: a command may replace one. The time of change of
    a file (ctime) cannot be set back, so it tells a file that was written to.
    """
    if _INSTALLED.programs is None:
        with os.scandir(scripts_folder()) as entries:
            _INSTALLED.programs = {each.name: _fingerprint(Path(each.path)) for each in entries}


def _is_as_installed(program: Path) -> bool:
    note_installed_programs()
    known = (_INSTALLED.programs or {}).get(program.name)
    return known is not None and known == _fingerprint(program)


def _fingerprint(program: Path) -> _Fingerprint:
    """Return a stamp that changes if the file, a link to it, or a folder above it is replaced."""
    found: list[int] = []
    for path, follow in ((program, False), (program, True), (program.parent, True)):
        try:
            state = path.stat(follow_symlinks=follow)
        except OSError:
            continue
        found += [state.st_dev, state.st_ino]
        if path == program:
            found += [state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    return tuple(found)


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
    around = (each for each in (repository_root(here), here) if each)
    return next((each for each in around if not home.is_relative_to(each)), None)


def search_path(folders: str, *, outside: Path | None) -> str:
    """Return the PATH *folders* that are absolute and not inside *outside*.

    The system's folders stay, even if the workspace is "/".
    """
    kept = (
        folder
        for folder in map(Path, folders.split(os.pathsep))
        if folder in _SYSTEM
        or (folder.is_absolute() and not (outside and _leads_through(folder, outside)))
    )
    return os.pathsep.join(map(str, kept)) or os.defpath


def _leads_through(folder: Path, outside: Path) -> bool:
    """Return whether *folder* lies in *outside*, or a link there says where it leads."""
    real = real_path(folder)
    if real.is_relative_to(outside) or real == folder:
        return real.is_relative_to(outside)
    from agent_cli.system.authorship import Author, SessionFolders, author_of  # rare

    return author_of(folder, SessionFolders.of(outside)).author is Author.WORKSPACE
