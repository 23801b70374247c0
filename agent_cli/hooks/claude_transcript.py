"""A copy of a conversation in the form of Claude Code's transcripts, for hooks that read it.

One JSON object a line: each message of the user, each block of a reply, each result of a call.
Lines are only appended. `parentUuid` names the line before, also after a rewind.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias
from uuid import NAMESPACE_OID, uuid5

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
from agent_cli.core.projection import entries
from agent_cli.hooks.claude_names import to_claude
from agent_cli.system.records import dataclass, field
from agent_cli.version import __version__

_Line: TypeAlias = tuple[str, int, dict[str, Json]]  # id, time in Unix ms, fields


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
    _written: set[str] = field(default_factory=set[str])

    def update(self, prompts: Iterable[Prompt]) -> Path:
        """Append the new entries of *prompts*, and return the file."""
        lines: list[str] = []
        parent: str | None = None
        for id, at_ms, fields in _lines(entries(prompts), self.workspace):
            uuid = str(uuid5(NAMESPACE_OID, f"{self.path.stem}/{id}"))
            if id not in self._written:
                self._written.add(id)
                line = {"parentUuid": parent, "uuid": uuid, "timestamp": _time(at_ms)}
                common = {"userType": "external", "cwd": str(self.workspace), **self.about}
                whole = {**line, **common, "version": __version__, **fields}
                lines.append(json.dumps(whole, ensure_ascii=True) + "\n")
            parent = uuid
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
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
