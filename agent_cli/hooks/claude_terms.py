"""Claude Code's terms, which hook scripts use: calls of tools, and a transcript of a conversation.

Fields that only one side knows keep their names, so that a script that returns its input unchanged
loses nothing. A transcript has one JSON object a line: each message of the user, each block of a
reply, each result of a call. Lines are only appended. `parentUuid` names the line before, also
after a rewind.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from agent_cli.contracts.claude_tools import CLAUDE_NAMES, claude_tool_name
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    Error,
    Json,
    Output,
    Pending,
    Prompt,
    ReplyOutput,
    ToolOutput,
    Usage,
    UserOutput,
)
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.projection import entries
from agent_cli.system.records import dataclass, field
from agent_cli.version import __version__

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

_Line: TypeAlias = tuple[str, int, dict[str, Json]]  # id, time in Unix ms, fields


@dataclass(frozen=True, slots=True)
class ClaudeCall:
    """A call in Claude Code's terms; matchers are compared with each of `names`."""

    name: str
    input: dict[str, Json]
    names: tuple[str, ...]


def to_claude(name: str, arguments: Json, workspace: Path) -> ClaudeCall:
    """Return a call of our tool *name* in Claude Code's terms, with absolute paths."""
    values = dict(arguments) if isinstance(arguments, dict) else {}
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


@dataclass(slots=True)
class TranscriptCopy:
    """The copy of one conversation, written when it is asked for.

    Attributes:
        path: The file, in a private folder; it is made with the first update.
        workspace: The folder that relative paths of calls start at.
        about: Fields of each line, such as the id of the session.
    """

    path: Path
    workspace: Path
    about: Mapping[str, Json]
    _written: dict[str, str] = field(default_factory=dict[str, str])  # id of a line → its uuid

    def update(self, prompts: Iterable[Prompt]) -> Path:
        """Append the new entries of *prompts*, and return the file.

        Raises:
            OSError: They cannot be written; the next update begins the file anew.
        """
        lines: list[str] = []
        known = dict(self._written)
        parent: str | None = None
        for id, at_ms, fields in _lines(entries(prompts), self.workspace):
            uuid = known.get(id)
            if uuid is None:
                uuid = known[id] = str(uuid5(NAMESPACE_OID, f"{self.path.stem}/{id}"))
                line = {"parentUuid": parent, "uuid": uuid, "timestamp": _time(at_ms)}
                common = {"userType": "external", "cwd": str(self.workspace), **self.about}
                whole = {**line, **common, "version": __version__, **fields}
                lines.append(json.dumps(whole, separators=(",", ":")) + "\n")
            parent = uuid
        mode = "a" if self._written else "w"
        self._written = {}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.open(mode, encoding="utf-8") as file:
            file.writelines(lines)
        self._written = known
        return self.path


def _lines(outputs: Iterable[Output], workspace: Path) -> Iterator[_Line]:
    """Yield the lines about complete replies, ended calls and messages of the user."""
    blocks: list[BlockOutput] = []
    for output in outputs:
        match output:
            case UserOutput():
                message: dict[str, Json] = {"role": "user", "content": _content(output.content)}
                meta: dict[str, Json] = {} if output.is_typed else {"isMeta": True}
                yield output.id, output.at_ms, {"type": "user", "message": message, **meta}
            case BlockOutput():
                blocks.append(output)
            case ReplyOutput():
                own = [each for each in blocks if each.reply_id == output.reply_id]
                for block in own:
                    yield block.id, block.at_ms, _reply_line(block, output, workspace)
                for block in own:
                    if isinstance(block, ToolOutput) and not isinstance(block.result, Pending):
                        at_ms = block.ended_at_ms or block.at_ms
                        yield f"{block.id}/result", at_ms, _result_line(block)
                blocks = []
            case CompactionOutput():
                yield from _compaction_lines(output)
            case _:
                pass


def _reply_line(block: BlockOutput, reply: ReplyOutput, workspace: Path) -> dict[str, Json]:
    shown = dict(block.block)
    if isinstance(block, ToolOutput):
        theirs = to_claude(block.name, block.input, workspace)
        shown |= {"name": theirs.name, "input": theirs.input}
    return {
        "type": "assistant",
        "requestId": reply.request_id,
        "message": {
            "id": reply.reply_id,
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [shown],
            "stop_reason": reply.stop_reason,
            "stop_sequence": None,
            "usage": _usage(reply.usage),
        },
    }


def _result_line(call: ToolOutput) -> dict[str, Json]:
    assert not isinstance(call.result, Pending)
    result: Block = {
        "type": "tool_result",
        "tool_use_id": call.tool_call_id,
        "content": [dict(block) for block in call.result.content],
        "is_error": isinstance(call.result, Error),
    }
    return {"type": "user", "message": {"role": "user", "content": [result]}}


def _compaction_lines(output: CompactionOutput) -> Iterator[_Line]:
    boundary: dict[str, Json] = {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "compactMetadata": {"preTokens": output.tokens_before},
    }
    yield output.id, output.at_ms, boundary
    message: Json = {"role": "user", "content": output.summary}
    summary: dict[str, Json] = {"type": "user", "isCompactSummary": True, "message": message}
    yield f"{output.id}/summary", output.at_ms, summary


def _content(blocks: tuple[Block, ...]) -> Json:
    """Return the content of a message; for a single text block, its text."""
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return blocks[0].get("text", "")
    return [dict(block) for block in blocks]


def _usage(usage: Usage) -> dict[str, Json]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def _time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
