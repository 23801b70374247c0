"""Translate tool calls between our names and Claude Code's, which scripts for hooks are written in.

Fields that only one side knows are passed on by their own names: a script that hands back what it
got loses nothing.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult

_NAMES: Final = {
    "bash": "Bash",
    "edit": "Edit",
    "write": "Write",
    "read": "Read",
    "grep": "Grep",
    "glob": "Glob",
}
_OURS: Final = {**{theirs: ours for ours, theirs in _NAMES.items()}, "MultiEdit": "edit"}
# Ours to theirs; what stands here under no name has the same in both.
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "bash": {"background": "run_in_background", "unsandboxed": "dangerouslyDisableSandbox"},
    "edit": {"path": "file_path"},
    "write": {"path": "file_path"},
    "read": {"path": "file_path"},
    "grep": {"mode": "output_mode", "context": "-C", "ignore_case": "-i", "limit": "head_limit"},
    "glob": {},
}
_EDIT: Final = {"old": "old_string", "new": "new_string", "all": "replace_all"}
_MODES: Final = {"files": "files_with_matches"}
_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class ClaudeCall:
    """A call as hooks read it; `names` are those that a matcher may mean."""

    name: str
    input: dict[str, Json]
    names: tuple[str, ...]


def tool_name(name: str) -> str:
    """Return Claude Code's name of our tool *name*; any other tool keeps its own."""
    return _NAMES.get(name, name)


def our_tool_name(name: str) -> str:
    """Return our name of Claude Code's tool *name*."""
    return _OURS.get(name, name)


def to_claude(name: str, given: Json, workspace: Path) -> ClaudeCall:
    """Return a call of our tool *name* as Claude Code would describe it; paths are absolute."""
    values = dict(given) if isinstance(given, dict) else {}
    if name not in _NAMES:
        return ClaudeCall(name, values, (name,))
    if name == "edit":
        return _edit_to_claude(values, workspace)
    renamed = _renamed(values, _FIELDS[name])
    _change(renamed, "file_path", lambda path: _absolute(path, workspace))
    if name == "bash":
        _change(renamed, "timeout", lambda s: s * _MS if isinstance(s, int | float) else s)
    if name in ("grep", "glob"):
        _change(renamed, "path", lambda path: _absolute(path, workspace))
        _change(renamed, "output_mode", lambda mode: _MODES.get(str(mode), mode))
    return ClaudeCall(_NAMES[name], renamed, (_NAMES[name],))


def from_claude(name: str, updated: Mapping[str, Json]) -> dict[str, Json]:
    """Return the input of our tool *name* for what a hook made of Claude Code's."""
    values = dict(updated)
    if name not in _NAMES:
        return values
    if name == "edit":
        return _edit_from_claude(values)
    _change(values, "output_mode", lambda mode: "files" if mode == _MODES["files"] else mode)
    renamed = _renamed(values, {theirs: ours for ours, theirs in _FIELDS[name].items()})
    if name == "bash":
        renamed.pop("description", None)  # Claude Code's own; our tool has none
        _change(renamed, "timeout", lambda ms: ms / _MS if isinstance(ms, int | float) else ms)
    return renamed


def response_of(call: ClaudeCall, result: ToolResult) -> Json:
    """Return a tool's result as Claude Code hands it to hooks."""
    if call.name == "Bash":
        return {"stdout": result.text, "stderr": "", "interrupted": False, "isImage": False}
    if call.name in ("Edit", "MultiEdit", "Write"):
        path = call.input.get("file_path")
        return {"filePath": path, "success": not result.is_error, "content": result.text}
    return {"content": result.text}


def _edit_to_claude(values: dict[str, Json], workspace: Path) -> ClaudeCall:
    edits = values.pop("edits", None)
    listed = edits if isinstance(edits, list | tuple) else ()
    theirs = [_renamed(each, _EDIT) for each in listed if isinstance(each, dict)]
    renamed = _renamed(values, _FIELDS["edit"])
    _change(renamed, "file_path", lambda path: _absolute(path, workspace))
    if len(theirs) == 1:
        return ClaudeCall("Edit", {**renamed, **theirs[0]}, ("Edit",))
    # Whoever guards edits means these too.
    return ClaudeCall("MultiEdit", {**renamed, "edits": [*theirs]}, ("MultiEdit", "Edit"))


def _edit_from_claude(values: dict[str, Json]) -> dict[str, Json]:
    back = {theirs: ours for ours, theirs in _EDIT.items()}
    edits = values.pop("edits", None)
    one = {key: values.pop(key) for key in back if key in values}
    listed = edits if isinstance(edits, list) else [one]
    ours: list[Json] = [_renamed(e, back) if isinstance(e, dict) else e for e in listed]
    return {**_renamed(values, {"file_path": "path"}), "edits": ours}


def _renamed(values: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    return {names.get(key, key): value for key, value in values.items()}


def _change(values: dict[str, Json], key: str, change: Callable[[Json], Json]) -> None:
    if key in values:
        values[key] = change(values[key])


def _absolute(path: Json, workspace: Path) -> Json:
    if not isinstance(path, str):
        return path
    # As the tools find it: without a mention's @, from the workspace, without "..".
    return os.path.normpath(workspace / os.path.expanduser(path.removeprefix("@")))  # noqa: PTH111
