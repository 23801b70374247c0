"""Translate tool calls between our terms and Claude Code's, which hook scripts use.

Fields that only one side knows keep their names, so that a script that returns its input unchanged
loses nothing.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent_cli.contracts.claude_tools import CLAUDE_NAMES, claude_tool_name
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli.system.records import dataclass

# Our names to theirs; fields missing here have the same name in both.
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "bash": {"background": "run_in_background", "unsandboxed": "dangerouslyDisableSandbox"},
    "edit": {"path": "file_path"},
    "write": {"path": "file_path"},
    "read": {"path": "file_path"},
    "grep": {"mode": "output_mode", "context": "-C", "ignore_case": "-i", "limit": "head_limit"},
    "skill": {"name": "skill"},
    "job_output": {"id": "task_id"},
}
# The fields of the entries of a list: tool -> the list, and its fields as above.
_ITEM_FIELDS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "todo": ("todos", {"active_form": "activeForm"}),
    "ask_user": ("questions", {"multi_select": "multiSelect"}),
}
_EDIT: Final = {"old": "old_string", "new": "new_string", "all": "replace_all"}
_MODES: Final = {"files": "files_with_matches"}
_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class ClaudeCall:
    """A call in Claude Code's terms; matchers are compared with each of `names`."""

    name: str
    input: dict[str, Json]
    names: tuple[str, ...]


def to_claude(name: str, given: Json, workspace: Path) -> ClaudeCall:
    """Return a call of our tool *name* in Claude Code's terms, with absolute paths."""
    values = dict(given) if isinstance(given, dict) else {}
    if name not in CLAUDE_NAMES:
        return ClaudeCall(name, values, (name,))
    if name == "edit":
        return _edit_to_claude(values, workspace)
    renamed = _with_items(name, _renamed(values, _FIELDS.get(name, {})))
    _change(renamed, "file_path", lambda path: _absolute(path, workspace))
    if name == "bash":
        _change(renamed, "timeout", lambda s: s * _MS if isinstance(s, int | float) else s)
    if name in ("grep", "glob"):
        _change(renamed, "path", lambda path: _absolute(path, workspace))
        _change(renamed, "output_mode", lambda mode: _MODES.get(str(mode), mode))
    return ClaudeCall(claude_tool_name(name), renamed, CLAUDE_NAMES[name])


def from_claude(name: str, updated: Mapping[str, Json]) -> dict[str, Json]:
    """Return the input of our tool *name* for an input in Claude Code's terms from a hook."""
    values = dict(updated)
    if name not in CLAUDE_NAMES:
        return values
    if name == "edit":
        return _edit_from_claude(values)
    _change(values, "output_mode", lambda mode: "files" if mode == _MODES["files"] else mode)
    fields = {theirs: ours for ours, theirs in _FIELDS.get(name, {}).items()}
    # The fields of items need no way back: these tools accept both spellings.
    renamed = _renamed(values, fields)
    if name == "bash":
        renamed.pop("description", None)  # Claude Code's own; our tool has none
        _change(renamed, "timeout", lambda ms: ms / _MS if isinstance(ms, int | float) else ms)
    return renamed


def response_of(call: ClaudeCall, result: ToolResult) -> Json:
    """Return a tool's result in the form in which Claude Code passes it to hooks."""
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
    # A hook that guards edits matches these too.
    return ClaudeCall("MultiEdit", {**renamed, "edits": [*theirs]}, ("MultiEdit", "Edit"))


def _edit_from_claude(values: dict[str, Json]) -> dict[str, Json]:
    back = {theirs: ours for ours, theirs in _EDIT.items()}
    edits = values.pop("edits", None)
    one = {key: values.pop(key) for key in back if key in values}
    listed = edits if isinstance(edits, list) else [one]
    ours: list[Json] = [_renamed(e, back) if isinstance(e, dict) else e for e in listed]
    return {**_renamed(values, {"file_path": "path"}), "edits": ours}


def _with_items(name: str, values: dict[str, Json]) -> dict[str, Json]:
    """Return *values* with the entries of their list, if there is one, in Claude Code's fields."""
    if name not in _ITEM_FIELDS:
        return values
    key, fields = _ITEM_FIELDS[name]
    items = values.get(key)
    if not isinstance(items, list | tuple):
        return values
    return {**values, key: [_renamed(e, fields) if isinstance(e, dict) else e for e in items]}


def _renamed(values: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    return {names.get(key, key): value for key, value in values.items()}


def _change(values: dict[str, Json], key: str, change: Callable[[Json], Json]) -> None:
    if key in values:
        values[key] = change(values[key])


def _absolute(path: Json, workspace: Path) -> Json:
    if not isinstance(path, str):
        return path
    # As the tools resolve it: without a mention's @, from the workspace, without "..".
    return os.path.normpath(workspace / os.path.expanduser(path.removeprefix("@")))  # noqa: PTH111
