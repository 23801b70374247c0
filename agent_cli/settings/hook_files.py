"""Lifecycle hooks in files: Claude Code's settings, and the workspace's scripts that hooks run.

Imported only if there is such a file. The code that defines hooks validates them.
"""

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.written_hooks import folded_keys
from agent_cli.settings.rules import fold
from agent_cli.settings.sources import CLAUDE_FILES, SETTINGS_FILES, WrittenHooks, read_file
from agent_cli.settings.toml_json import file_entries
from agent_cli.system.paths import is_file
from agent_cli.system.shapes import is_array, is_mapping, is_object, is_sequence

PROJECT_DIR = "CLAUDE_PROJECT_DIR"


def claude_hooks(path: Path, *, from_project: bool) -> Iterator[WrittenHooks]:
    """Read the groups of hooks in a settings file of Claude Code.

    Raises:
        SettingsError: The file cannot be read, so a guard in it would have no effect.
    """
    try:
        document = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise SettingsError(
            f"{path} is not valid JSON, so its hooks cannot be read: correct it, or set"
            " hooks.claude_files = false"
        ) from error
    hooks = document.get("hooks") if is_object(document) else None
    if not hooks or document.get("disableAllHooks") is True:
        return
    if not is_object(hooks):
        hooks = {"PreToolUse": ["hooks"]}  # not a table: a hook that blocks with an error
    for event, groups in hooks.items():
        for group in groups if is_array(groups) else [groups]:
            yield WrittenHooks(event, group, str(path), from_project)


def is_acting(path: Path) -> bool:
    """Return whether a settings file of Claude Code has hooks or cannot be read."""
    try:
        return is_file(path) and any(True for _ in claude_hooks(path, from_project=True))
    except SettingsError:
        return True


def project_hooks(workspace: Path) -> list[WrittenHooks]:
    """Return all groups of hooks in files of *workspace*; invalid files count as empty."""
    found: list[WrittenHooks] = []
    for name in (*SETTINGS_FILES, *CLAUDE_FILES):
        path = workspace / name
        if is_file(path):
            try:
                if name in CLAUDE_FILES:
                    found += claude_hooks(path, from_project=True)
                else:
                    found += _own_hooks(path)
            except SettingsError:
                continue  # loading the settings reports it
    return found


def _own_hooks(path: Path) -> Iterator[WrittenHooks]:
    for entry in file_entries(path, from_project=True):
        # As `Layers` reads it: a key may also be written with its dots, "hooks.pre_tool_use".
        section, _, event = ".".join(entry.path).partition(".")
        if fold(section) == "hooks" and is_array(entry.value):
            for group in entry.value:
                yield WrittenHooks(event, group, entry.origin, from_project=True)


def entries_of(written: WrittenHooks) -> Iterator[Mapping[str, object]]:
    """Yield the tables of the hooks in a group with folded keys, ignoring invalid parts."""
    group: Mapping[str, object] = written.group if is_mapping(written.group) else {}
    hooks = group.get("hooks")
    for hook in hooks if is_sequence(hooks) else ():
        if is_mapping(hook):
            yield folded_keys(hook)


def words_of(hook: Mapping[str, object]) -> list[str]:
    """Return the words of the command line of a hook with folded keys, as far as they parse."""
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str):
        return []
    if is_sequence(args):
        return [command, *map(str, args)]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def scripts_of(hooks: Iterable[WrittenHooks], workspace: Path) -> tuple[Path, ...]:
    """Return the files of *workspace* named by the commands of *hooks*."""
    found = {
        path: None
        for written in hooks
        for hook in entries_of(written)
        for word in words_of(hook)
        if (path := _file_in(workspace, word))
    }
    return tuple(sorted(found))


def _file_in(workspace: Path, word: str) -> Path | None:
    for mark in (f"${{{PROJECT_DIR}}}", f"${PROJECT_DIR}"):
        word = word.replace(mark, str(workspace))
    for part in (word, word.rpartition("=")[2]):
        try:
            path = Path(os.path.normpath(workspace / part))
            if part and path.is_relative_to(workspace) and path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None
