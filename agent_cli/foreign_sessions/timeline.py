"""The records of another agent's session, and how they become prompts that the API accepts.

Thinking is left out: its signature belongs to another request. Each call has an id, a name and an
input that the API accepts, and a result; no text is empty; what it does not know becomes text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from agent_cli.contracts.authors import PROGRAM, USER
from agent_cli.contracts.messages import new_id
from agent_cli.contracts.timeline import (
    Block,
    CompactionOutput,
    Error,
    Json,
    Output,
    Prompt,
    ReplyOutput,
    Success,
    TextOutput,
    ToolOutput,
    UserOutput,
    text_block,
)
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_object

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IMAGE_CHARS_MAX: Final = 5_000_000
_NO_RESULT: Final = "The session ended before this call had a result."
_NOTHING: Final = "(no output)"


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A message in the user's role; not typed if the program wrote it."""

    at_ms: int
    blocks: tuple[Block, ...]
    is_typed: bool = True


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call with the id that the other program gave it."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """A reply of the model: texts and calls, in order."""

    at_ms: int
    model: str
    parts: list[str | CallRecord] = field(default_factory=list[str | CallRecord])


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """The result of a call."""

    id: str
    blocks: tuple[Block, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """From here on the model was shown *summary* in place of all before."""

    at_ms: int
    summary: str


ForeignRecord: TypeAlias = UserRecord | ReplyRecord | ResultRecord | SummaryRecord


def at_ms(line: Mapping[str, Json]) -> int:
    """Return the time of a line in Unix ms; 0 if it has none."""
    try:
        return int(datetime.fromisoformat(str(line.get("timestamp"))).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def prompts_of(records: Iterable[ForeignRecord]) -> list[Prompt]:
    """Return completed prompts; records before the first prompt are left out."""
    every = [*records]
    results = {each.id: each for each in every if isinstance(each, ResultRecord)}
    prompts: list[Prompt] = []
    used: set[str] = set()
    summary: SummaryRecord | None = None
    for each in every:
        match each:
            case UserRecord():
                # What was typed is the last text, as in our own messages: not a note about a file.
                ordered = sorted(each.blocks, key=lambda block: block["type"] == "text")
                content = tuple(_blocks(ordered))
                if content and not each.is_typed and prompts:
                    added = UserOutput(new_id(), each.at_ms, content, PROGRAM)
                    prompts[-1].output.append(added)
                elif content:
                    prompts.append(_prompt(each, content, summary))
                    summary = None
            case ReplyRecord() if prompts:
                _take_summary(prompts[-1], summary, each.at_ms)
                summary = None
                prompts[-1].output += _reply(each, results, used)
            case SummaryRecord():
                summary = each
            case _:
                pass
    return prompts


def _prompt(
    record: UserRecord, content: tuple[Block, ...], summary: SummaryRecord | None
) -> Prompt:
    message = UserOutput(new_id(), record.at_ms, content, USER)
    prompt = Prompt(new_id(), "local", "normal", record.at_ms, state="completed", input=message)
    if summary:
        prompt.output.append(_compaction(summary, message.id))
    return prompt


def _take_summary(prompt: Prompt, summary: SummaryRecord | None, at_ms: int) -> None:
    """Put a summary that was made during a run before a message that goes on from it."""
    if summary:
        goes_on = UserOutput(new_id(), at_ms, (text_block("Go on."),), PROGRAM)
        prompt.output += (goes_on, _compaction(summary, goes_on.id))


def _compaction(summary: SummaryRecord, first_kept_id: str) -> CompactionOutput:
    return CompactionOutput(new_id(), summary.at_ms, summary.summary, first_kept_id)


def _reply(record: ReplyRecord, results: dict[str, ResultRecord], used: set[str]) -> list[Output]:
    reply_id, output = new_id(), list[Output]()
    calls = [part for part in record.parts if isinstance(part, CallRecord)]
    # Texts before calls: results follow the calls of a reply at once.
    for part in record.parts:
        if isinstance(part, str) and part.strip():
            output.append(TextOutput(new_id(), record.at_ms, reply_id, text_block(part)))
    for call in calls:
        output.append(_call(call, record.at_ms, reply_id, results.get(call.id), used))
    if output:
        stop_reason = "tool_use" if calls else "end_turn"
        model = record.model or "unknown"
        output.append(ReplyOutput(new_id(), record.at_ms, reply_id, model, stop_reason))
    return output


def _call(
    call: CallRecord, at_ms: int, reply_id: str, result: ResultRecord | None, used: set[str]
) -> ToolOutput:
    id = call.id if _ID.fullmatch(call.id) and call.id not in used else f"call_{new_id()}"
    used.add(id)
    name = _NOT_IN_A_NAME.sub("_", call.name)[:64] or "tool"
    tool_input: Json = call.input if is_object(call.input) else {"input": call.input}
    content = tuple(_blocks(result.blocks)) if result else (text_block(_NO_RESULT),)
    state = Success if result and not result.is_error else Error
    if state is Error:
        # The API takes nothing but text in a failed result.
        content = tuple(block for block in content if block["type"] == "text")
    block: Block = {"type": "tool_use", "id": id, "name": name, "input": tool_input}
    return ToolOutput(
        new_id(),
        at_ms,
        reply_id,
        block,
        state(content or (text_block(_NOTHING),)),
        started_at_ms=at_ms,
        ended_at_ms=at_ms,
    )


def _blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield *blocks* in a form that the API accepts."""
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                if text.strip():
                    yield text_block(text)
            case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
                if kind in _IMAGES and isinstance(data, str) and len(data) < _IMAGE_CHARS_MAX:
                    source: Json = {"type": "base64", "media_type": kind, "data": data}
                    yield {"type": "image", "source": source}
                else:
                    yield text_block("[an image]")
            case {"type": str(kind)}:
                yield text_block(f"[{kind}]")
            case _:
                pass
