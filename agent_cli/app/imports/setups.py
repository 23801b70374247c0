"""The programs whose setups are read; write an import, whole or not at all, and take it back.

    ~/.config/agent-cli/imported/claude/{appsettings.json,mcp.json,commands/...,written.json}

It is read before your own settings, so that those win. A new import replaces the folder; files that
you changed in it are kept aside first.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from agent_cli.app.imports import Findings
from agent_cli.app.imports.claude import read_claude
from agent_cli.app.imports.codex import read_codex
from agent_cli.app.imports.gemini import read_gemini
from agent_cli.app.imports.opencode import read_opencode
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError
from agent_cli.system import paths
from agent_cli.system.json_text import json_object
from agent_cli.system.trees import remove_tree

_WRITTEN: Final = "written.json"


def folder_of(program: str) -> Path:
    """Return the folder of the imported files of *program*."""
    return paths.imported_dir() / program


def is_current(program: str, contents: Mapping[str, str]) -> bool:
    """Return whether an import of *contents* would change nothing."""
    folder = folder_of(program)
    return _read(folder) == {name: text.encode() for name, text in contents.items()}


def write(program: str, contents: Mapping[str, str]) -> str:
    """Replace the imported files of *program*; return a sentence about the change.

    Raises:
        SettingsError: The files cannot be written; the earlier files stay.
    """
    folder = folder_of(program)
    files = {name: text.encode() for name, text in contents.items()}
    if files and is_current(program, contents):
        return f"{paths.shown(folder)} is up to date"
    if not files:
        return take_back(program) if folder.exists() else "there is nothing to write"
    draft = folder.with_name(f".{program}.{os.urandom(8).hex()}")
    try:
        paths.private_dir(draft)
        for name, data in files.items():
            path = paths.private_dir((draft / name).parent) / Path(name).name
            path.write_bytes(data)
            path.chmod(0o600)
        (draft / _WRITTEN).write_text(json.dumps(_digests(files), indent=2))
        aside = _set_aside(folder)
        draft.replace(folder)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        if draft.exists():
            remove_tree(draft)
    return f"written to {paths.shown(folder)}; agent-cli import --undo takes it back{aside}"


def take_back(program: str) -> str:
    """Remove the imported files of *program*; return a sentence about the change.

    Raises:
        SettingsError: It cannot be removed.
    """
    folder = folder_of(program)
    if not folder.exists():
        return f"nothing of {program} was imported"
    try:
        aside = _set_aside(folder)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be removed: {error.strerror}") from error
    return f"the import of {program} is taken back{aside}"


def imported_programs() -> tuple[str, ...]:
    """Return the programs from which something was imported."""
    return tuple(folder.name for folder in paths.imported_dirs())


def _set_aside(folder: Path) -> str:
    """Remove *folder*, or keep it under another name if the user changed a file in it."""
    if not folder.exists():
        return ""
    if not (changed := _changed(folder)):
        remove_tree(folder)
        return ""
    number = 1
    while (kept := paths.config_dir() / f"changed-import-{folder.name}-{number}").exists():
        number += 1
    shutil.move(folder, kept)
    return f"; {', '.join(changed)}, which you changed, is kept in {paths.shown(kept)}"


def _changed(folder: Path) -> list[str]:
    """Return the names of files in *folder* that are not as they were written."""
    try:
        known = json_object((folder / _WRITTEN).read_bytes()) or {}
    except OSError:
        known = {}
    now = _digests(_read(folder))
    return sorted(name for name in {*now, *known} if now.get(name) != known.get(name))


def _read(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != _WRITTEN)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: sha256(data).hexdigest() for name, data in files.items()}


READERS: Final[Mapping[str, Callable[[StartupContext], Findings]]] = {
    "claude": read_claude,
    "codex": read_codex,
    "gemini": read_gemini,
    "opencode": read_opencode,
}
