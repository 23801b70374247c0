"""Tool calls as shown by the client: title, kind, files, changes and output."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.acp.content import fenced, shown_blocks, text
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.system.paths import expanded
from agent_cli.terminal.narration import describe_call
from agent_cli.terminal.planned_change import planned_change, written_by
from agent_cli.terminal.sanitize import reveal

_KINDS: Final[Mapping[str, str]] = {
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "grep": "search",
    "glob": "search",
    "todo": "think",
    "present_plan": "switch_mode",
}
_NEW_LINE: Final = re.compile(r"^@@ -\S+ \+(\d+)", re.MULTILINE)
_CONTEXT_LINES: Final = 3


class CallView:
    """Turns calls and their results into fields of `tool_call` and `tool_call_update`."""

    def __init__(self, tools: Callable[[], Sequence[Tool]], workspace: Path) -> None:
        """Show calls of *tools*; relative paths are relative to *workspace*."""
        self._tools = tools
        self._workspace = workspace

    def described(self, call: ToolCall) -> dict[str, Json]:
        """Return the fields that show *call* before it runs."""
        return {
            "toolCallId": call.id,
            "title": reveal(describe_call(self._tools(), call.name, call.input)),
            "kind": _KINDS.get(call.name, "other"),
            "rawInput": call.input,
            "locations": self._locations(call.input),
            "content": self.planned(call),
        }

    def planned(self, call: ToolCall) -> list[Json]:
        """Return the whole planned effect of *call*: the change of a file, or the command."""
        target = written_by(call.name, call.input, self._tools())
        if target and (change := planned_change(call.input, target)):
            old = None if change.is_new else change.before
            diff = _diff(target, old, change.after)
            if reveal(change.after) != change.after and reveal(change.before) == change.before:
                return [_note("The new text holds invisible characters."), diff]
            return [diff]
        match call.input:
            case {"command": str(command)}:
                return [_note(fenced(reveal(command), "sh"))]
            case _:
                pass
        return self.fragments(call)

    def fragments(self, call: ToolCall) -> list[Json]:
        """Return the texts that an edit or write inserts, regardless of the file's content now."""
        match call.input:
            case {"path": str(path), "edits": [*edits]}:
                return [diff for edit in edits if (diff := _edit(self._absolute(path), edit))]
            case {"path": str(path), "content": str(content)}:
                return [_diff(self._absolute(path), None, content)]
            case _:
                pass
        return []

    def ended(self, call_id: str, result: ToolResult) -> dict[str, Json]:
        """Return the outcome of a call; a diff that was announced stays."""
        update: dict[str, Json] = {
            "toolCallId": call_id,
            "status": "failed" if result.is_error else "completed",
        }
        details = result.details
        if isinstance(details, dict) and not result.is_error:
            update["rawOutput"] = details
            if details.get("kind") == "diff":
                return {**update, **self._changed(details)}
        return {**update, "content": shown_blocks(result.content)}

    def _changed(self, details: Mapping[str, Json]) -> dict[str, Json]:
        """Return the place of a change in a file, so that the client can go there."""
        path, found = str(details.get("path", "")), _NEW_LINE.search(str(details.get("diff", "")))
        if not found:
            return {}
        first = int(found[1])
        line = first if first <= 1 else first + _CONTEXT_LINES
        return {"locations": [{"path": str(self._absolute(path)), "line": line}]}

    def _locations(self, given: Json) -> list[Json]:
        match given:
            case {"path": str(path), "offset": int(line)} if path and line > 0:
                return [{"path": str(self._absolute(path)), "line": line}]
            case {"path": str(path)} if path:
                return [{"path": str(self._absolute(path))}]
            case _:
                pass
        return []

    def _absolute(self, path: str) -> Path:
        return self._workspace / expanded(path.removeprefix("@"))


def progress(call_id: str, partial: ToolResult) -> dict[str, Json]:
    """Return the output of a running call so far."""
    return {"toolCallId": call_id, "content": shown_blocks(partial.content)}


def _edit(path: Path, edit: Json) -> Json:
    match edit:
        case {"old": str(old), "new": str(new)}:
            return _diff(path, old, new)
        case _:
            pass
    return None


def _diff(path: Path, old: str | None, new: str) -> dict[str, Json]:
    diff: dict[str, Json] = {"type": "diff", "path": str(path), "newText": new}
    return diff if old is None else {**diff, "oldText": old}


def _note(words: str) -> dict[str, Json]:
    return {"type": "content", "content": text(words)}
