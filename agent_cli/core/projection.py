"""Project the timeline into messages for people and the context for the model.

Pure and stable: the same timeline gives the same bytes, and appending to it never changes an
earlier part of the request (prompt caches and signed thinking depend on it). Lossy on purpose:
widgets, contents of files, discarded replies and compacted entries are not sent.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from agent_cli.contracts.authors import PROGRAM
from agent_cli.contracts.messages import (
    EFFORT,
    LEFT_OUT,
    WITHDRAWN,
    AssistantMessage,
    CustomMessage,
    Message,
    SignedSummary,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    Json,
    Output,
    Pending,
    Prompt,
    ReplyOutput,
    TextOutput,
    ToolOutput,
    TrimOutput,
    Usage,
    UserOutput,
    text_block,
    text_of,
)

_SUMMARY_TEXT = "[Summary of the conversation up to here]"
CUT_TEXT = "[agent-cli: older messages were left out here, without a summary of them"
TRIGGER_TEXT = "(no input: go on)"
WORDS_TEXT = "[What the user said until then, word for word, with the numbers of the entries]"
INTERRUPTED_TEXT = "[The user interrupted the reply here.]"


def usage_of(prompts: Iterable[Prompt], taken_back: Usage) -> Usage:
    """Return the usage of *prompts*, added to the usage of rewound prompts."""
    return sum((prompt.usage for prompt in prompts), taken_back)


def entries(prompts: Iterable[Prompt]) -> Iterator[Output]:
    """Yield every entry of *prompts* in order, inputs included."""
    for prompt in prompts:
        if prompt.input is not None:
            yield prompt.input
        yield from prompt.output


def noted(outputs: Iterable[Output], name: str) -> Iterator[Json]:
    """Yield the data of the custom entries called *name* among *outputs*, in their order."""
    return (out.data for out in outputs if isinstance(out, CustomOutput) and out.name == name)


def has_reply(prompts: Iterable[Prompt]) -> bool:
    """Return whether *prompts* hold a reply; before the first one, no cache holds anything."""
    return any(isinstance(output, ReplyOutput) for output in entries(prompts))


def numbered(prompts: Iterable[Prompt]) -> Iterator[tuple[int, Output]]:
    """Yield every entry with its number, from 1; the numbers of complete prompts never change."""
    return enumerate(entries(prompts), start=1)


def messages(outputs: Iterable[Output], *, last_ms: int = 0) -> Iterator[Message]:
    """Yield the messages that *outputs* represent, including messages of incomplete replies.

    *last_ms* is the time of the last reply, or of its last answer, before *outputs*.
    """
    blocks: list[BlockOutput] = []
    # A call may have ended after the entries behind it were recorded.
    for output in outputs:
        at_ms = max(last_ms, output.at_ms)
        match output:
            case BlockOutput():
                blocks.append(output)
            case ReplyOutput():
                yield _assistant(output, blocks)
                for answer in _answers(blocks):
                    at_ms = max(at_ms, answer.timestamp)
                    yield answer
                blocks = []
                last_ms = at_ms
            case UserOutput():
                yield UserMessage(output.content, at_ms, output.author)
            case DiscardedOutput():
                content = (text_block(output.text),) if output.text else ()
                yield AssistantMessage(content, output.reason, error=output.error, timestamp=at_ms)
            case CustomOutput():
                yield CustomMessage(output.name, output.data, at_ms)
            case _:
                pass


def last_reply(outputs: Sequence[Output]) -> tuple[AssistantMessage, list[ToolResultMessage]]:
    """Return the last complete reply of *outputs* and the results its calls have so far."""
    # From the end, and no further than needed: this runs once per turn.
    mark = next(i for i in reversed(range(len(outputs))) if isinstance(outputs[i], ReplyOutput))
    reply = outputs[mark]
    assert isinstance(reply, ReplyOutput)
    first = mark
    while first and not isinstance(outputs[first - 1], ReplyOutput):
        first -= 1
    found = outputs[first:mark]
    blocks = [o for o in found if isinstance(o, BlockOutput) and o.reply_id == reply.reply_id]
    return _assistant(reply, blocks), list(_answers(blocks))


def _assistant(reply: ReplyOutput, blocks: Sequence[BlockOutput]) -> AssistantMessage:
    content = tuple(output.block for output in blocks)
    facts = (reply.stop_reason, reply.usage, reply.model)
    return AssistantMessage(content, *facts, timestamp=reply.at_ms, beside=reply.beside)


def _answers(blocks: Iterable[BlockOutput]) -> Iterator[ToolResultMessage]:
    at_ms = 0  # in call order, and so never before an earlier call, whichever ended first
    for call in blocks:
        if isinstance(call, ToolOutput) and not isinstance(call.result, Pending):
            at_ms = max(at_ms, call.ended_at_ms or call.at_ms)
            yield ToolResultMessage(
                call.tool_call_id,
                call.name,
                (*_edit_note(call), *call.result.content),
                isinstance(call.result, Error),
                call.result.details,
                at_ms,
            )


def _edit_note(call: ToolOutput) -> tuple[Block, ...]:
    """Return the note for the model about a call that ran with another input than it wrote."""
    if call.edited_input is None:
        return ()
    used = json.dumps(call.edited_input, ensure_ascii=False)
    note = "The user edited this call's input before it ran. Used instead"
    if call.decision is None:
        note = "A hook of the user's changed this call's input before it ran. Used instead"
    return (text_block(f"[{note}: {used}]"),)


def context(outputs: Sequence[Output]) -> list[Message]:
    """Return the messages of the next request, of `shown` entries."""
    found = _with_levels(messages(outputs))
    if (signed := _signed(outputs)) and isinstance(prompt := found[1], UserMessage):
        found[1] = replace(prompt, signed=signed)
    return found


def _with_levels(messages: Iterable[Message]) -> list[Message]:
    """Return *messages* with each note of a thinking level as the effort of the user's message."""
    found: list[Message] = []
    level: str | None = None
    for message in messages:
        match message:
            case CustomMessage(role="effort", data={"level": str(noted)}):
                if found and isinstance(last := found[-1], UserMessage):
                    found[-1] = replace(last, effort=noted)
                else:
                    level = noted
            case UserMessage() if level is not None:
                found.append(replace(message, effort=level))
                level = None
            case _:
                found.append(message)
    return found


def _signed(outputs: Sequence[Output]) -> SignedSummary | None:
    """Return the second of *outputs* as the server signed it, if it is a signed summary."""
    found = None
    for output in outputs[2:]:
        match output:
            case CompactionOutput(
                id=entry_id, words=words, signed={"model": str(model), "block": dict(block)}
            ) if entry_id == outputs[1].id:
                found = SignedSummary(model, block, f"{WORDS_TEXT}\n{words}" if words else "")
            case TrimOutput(note=note) if found and note:
                found = replace(found, words=note)
            case _:
                pass
    return found


def shown(prompts: Sequence[Prompt]) -> list[Output]:
    """Return the entries that the next request shows, with compactions and trims applied.

    The first user message always stays. A prompt the model refused is left out whole, and so is a
    message that was withdrawn before it was sent; of a reply the user interrupted the text stays,
    with a note, because the next message may refer to it; a file is its summary at the end of its
    tool's result.
    """
    kept: list[Output] = []
    gone: dict[str, int] = {}
    withdrawn = _withdrawn(prompts)
    for prompt in prompts:
        entries = [*_with_input(prompt, after=kept), *prompt.output]
        if is_refused(prompt):
            # A cut made meanwhile still applies, and may begin at an entry left out here.
            gone |= {output.id: len(kept) for output in entries}
            entries = [out for out in entries if _is_cut(out)]
        for output in entries:
            if output.id in withdrawn:
                gone[output.id] = len(kept)
            else:
                kept.append(output)
    return list(_fold(_cut(kept, gone)))


def _withdrawn(prompts: Iterable[Prompt]) -> set[str]:
    """Return the ids of the entries that were withdrawn before they were sent."""
    notes = noted(entries(prompts), WITHDRAWN)
    return {str(note["entry"]) for note in notes if isinstance(note, dict) and "entry" in note}


def is_summary(text: str, *, or_cut: bool = False) -> bool:
    """Return whether *text* is the message in place of summarised entries, or of any left out."""
    return text.startswith((_SUMMARY_TEXT, CUT_TEXT) if or_cut else _SUMMARY_TEXT)


def unsent_ids(prompts: Sequence[Prompt]) -> set[str]:
    """Return the ids of the entries that no request shows: withdrawn ones, refused prompts."""
    refused = entries(prompt for prompt in prompts if is_refused(prompt))
    return _withdrawn(prompts) | {output.id for output in refused}


def is_refused(prompt: Prompt) -> bool:
    """Return whether the model refused *prompt* at once; the context leaves it out whole."""
    reasons = [out.reason for out in prompt.output if isinstance(out, DiscardedOutput)]
    replied = any(isinstance(out, ReplyOutput) for out in prompt.output)
    return "refusal" in reasons and not replied


def _with_input(prompt: Prompt, *, after: Sequence[Output]) -> list[Output]:
    """Return the prompt's input, or a stand-in where the API needs a user message."""
    if prompt.input is not None:
        return [prompt.input]
    asks = prompt.state != "completed" or any(map(_is_reply, prompt.output))
    if not asks or _awaits_reply(after):
        return []
    return [UserOutput(prompt.id, prompt.at_ms, (text_block(TRIGGER_TEXT),), PROGRAM)]


def _is_reply(output: Output) -> bool:
    """Return whether the model reads *output* as its own words, also of a partial reply."""
    if isinstance(output, DiscardedOutput):
        return output.reason == "aborted" and bool(output.text.strip())
    return isinstance(output, ReplyOutput)


def _awaits_reply(outputs: Sequence[Output]) -> bool:
    """Return whether *outputs* end with a message of the user, results of calls, or a pause."""
    reply_id = None
    for output in reversed(outputs):
        match output:
            case UserOutput():
                return reply_id is None
            case ReplyOutput() if reply_id is not None:
                return False
            case ReplyOutput(stop_reason="pause_turn"):
                return True
            case ReplyOutput():
                reply_id = output.reply_id
            case ToolOutput() if output.reply_id == reply_id:
                return True
            case _:
                pass
    return False


def _cut(shown: list[Output], gone: Mapping[str, int]) -> list[Output]:
    """Apply the compactions and trims among *shown*: the later one wins, summaries and notes last.

    Args:
        shown: The entries to cut.
        gone: The former position of entries that are left out, by id.
    """
    summary, trim, first_kept_id = None, None, None
    for output in shown:
        match output:
            case CompactionOutput():
                summary, trim, first_kept_id = output, None, output.first_kept_id
            case TrimOutput():
                trim, first_kept_id = output if output.note else trim, output.first_kept_id
            case _:
                pass
    if first_kept_id is None:
        return shown
    first = next((i for i, output in enumerate(shown) if isinstance(output, UserOutput)), None)
    if first is None:
        return shown  # every prompt was refused
    if (kept_from := gone.get(first_kept_id)) is None:
        kept_from = next(i for i, output in enumerate(shown) if output.id == first_kept_id)
    if kept_from <= first:
        return shown
    levels = _levels(shown[first:kept_from])[-1:]
    return [shown[first], *_in_place(summary, trim), *levels, *shown[kept_from:]]


def _in_place(summary: CompactionOutput | None, trim: TrimOutput | None) -> Iterator[UserOutput]:
    """Yield the message in place of what the last *summary* and a later *trim* leave out."""
    notes = [trim.note] if trim else []
    if summary is not None and summary.summary:
        if summary.words and not trim:  # its note repeats these words
            notes = [f"{WORDS_TEXT}\n{summary.words}"]
        notes = [f"{_SUMMARY_TEXT}\n{summary.summary}", *notes]
    entry = summary if summary is not None and summary.summary else trim
    if entry is not None:
        yield UserOutput(entry.id, entry.at_ms, (text_block("\n\n".join(notes)),), PROGRAM)


def _levels(outputs: Iterable[Output]) -> list[Output]:
    """Return the notes of thinking levels: the last one before a cut holds behind it too."""
    return [each for each in outputs if isinstance(each, CustomOutput) and each.name == EFFORT]


def _fold(shown: Iterable[Output]) -> Iterator[Output]:
    """Drop entries the model does not see, and put file summaries into their tool's result."""
    shown = list(shown)
    summaries: dict[str, list[Block]] = {}
    for output in shown:
        if isinstance(output, FileOutput):
            note = text_block(f"[file for the user: {output.path}] {output.summary}")
            summaries.setdefault(output.tool_call_id, []).append(note)
    left_out = _left_out(shown)
    for output in shown:
        match output:
            case DiscardedOutput(reason="aborted"):
                yield from _interrupted(output)
            case DiscardedOutput():
                continue
            case ToolOutput() if output.id in left_out:
                yield _with_pointer(output, left_out[output.id])
            case ToolOutput() if output.tool_call_id in summaries:
                yield _with_notes(output, summaries[output.tool_call_id])
            case _:
                yield output


def _is_cut(output: Output) -> bool:
    """Return whether *output* leaves something out of the requests behind it."""
    if isinstance(output, CustomOutput):
        return output.name == LEFT_OUT
    return isinstance(output, CompactionOutput | TrimOutput)


def _left_out(shown: Iterable[Output]) -> dict[str, Json]:
    """Return the numbers of the results that notes leave out, by the ids of their entries."""
    found: dict[str, Json] = {}
    for numbers in noted(shown, LEFT_OUT):
        found |= numbers if isinstance(numbers, dict) else {}
    return found


def _with_pointer(call: ToolOutput, number: Json) -> ToolOutput:
    if isinstance(call.result, Pending):
        return call
    content = call.result.content
    has_pdf = any(block["type"] == "document" for block in content)
    size = "with a PDF" if has_pdf else f"of {len(text_of(content)):,} characters"
    recalled = "" if has_pdf else f", or recall with entry {number} to read it"
    note = text_block(
        f"[agent-cli: this result {size} was left out to save tokens. It is as old"
        f" as this call: call the tool again{recalled}.]"
    )
    return replace(call, result=type(call.result)((note,), call.result.details))


def _interrupted(reply: DiscardedOutput) -> Iterator[Output]:
    """Yield the part of *reply* that the user had read, and a note that it was interrupted."""
    note_id = reply.id
    if text := reply.text.rstrip():
        yield TextOutput(reply.id, reply.at_ms, reply.id, text_block(text))
        yield ReplyOutput(reply.id, reply.at_ms, reply.id, "", "end_turn")
        note_id = f"{reply.id} note"  # no entry's: a cut cannot come between the two
    yield UserOutput(note_id, reply.at_ms, (text_block(INTERRUPTED_TEXT),), PROGRAM)


def _with_notes(call: ToolOutput, notes: Sequence[Block]) -> ToolOutput:
    if isinstance(call.result, Pending):
        return call
    result = type(call.result)((*call.result.content, *notes), call.result.details)
    return replace(call, result=result)
