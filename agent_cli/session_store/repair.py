"""Repair a conversation whose process ended at an arbitrary moment, so that it can be continued.

Pure: from prompts to the records that repair them. No tool is run again and no record is rewritten:
the repair is appended like everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent_cli.contracts.events import Event, PromptCompleted, PromptOutput, PromptStateChanged
from agent_cli.contracts.timeline import (
    UNANSWERED_QUESTION,
    BlockOutput,
    Error,
    Pending,
    Prompt,
    ReplyOutput,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    text_block,
)
from agent_cli.session_store.codec import JsonObject
from agent_cli.session_store.records import dropped, record_of

UNKNOWN_OUTCOME = "outcome unknown after a crash; check before repeating"
NEVER_ANSWERED = "not answered: the program ended before the user's answer"
NEVER_STARTED = "not run: the program ended before its turn"


def repairs(prompts: Sequence[Prompt], *, keep_questions: bool = True) -> list[JsonObject]:
    """Return the records that make *prompts* continuable; [] when they already are.

    Args:
        prompts: As read from a session.
        keep_questions: Keep calls waiting for a decision; otherwise they are settled.
    """
    found: list[JsonObject] = []
    for prompt in prompts:
        last = keep_questions and prompt is prompts[-1]
        prompt, ending = _with_end(prompt)
        found += [_recorded(each) for each in ending]
        orphans = _orphans(prompt)
        if orphans:
            found.append(dropped(prompt.id, orphans))
        for event in _closing(_without(prompt, orphans), keep_questions=last):
            found.append(_recorded(event))
    return found


def _recorded(event: Event) -> JsonObject:
    record = record_of(event)
    assert record is not None
    return record[0]


def _with_end(prompt: Prompt) -> tuple[Prompt, list[Event]]:
    """Return *prompt* with its last answer ended, and the event of that, if only that is missing.

    The blocks of a reply are recorded once it has arrived whole, its end behind them. An answer
    that the user has seen is kept, even if the program or the disk stopped between the two. A reply
    with tool calls is not: perhaps not all of them are recorded.
    """
    orphans = _orphans(prompt)
    blocks = [out for out in prompt.output if out.id in orphans]
    if not blocks or prompt.output[-1] is not blocks[-1] or not isinstance(blocks[-1], TextOutput):
        return prompt, []
    if not all(isinstance(out, TextOutput | ThinkingOutput) for out in blocks):
        return prompt, []
    last = blocks[-1]
    end = ReplyOutput(f"{last.id}-end", last.at_ms, last.reply_id, prompt.model, "end_turn")
    ended = PromptOutput(prompt.id, len(prompt.output), end)
    return replace(prompt, output=[*prompt.output, end]), [ended]


def _orphans(prompt: Prompt) -> list[str]:
    """Return the entries of replies whose end was not recorded; they do not count."""
    complete = {out.reply_id for out in prompt.output if isinstance(out, ReplyOutput)}
    return [
        out.id
        for out in prompt.output
        if isinstance(out, BlockOutput) and out.reply_id not in complete
    ]


def _without(prompt: Prompt, orphans: Sequence[str]) -> Prompt:
    return replace(prompt, output=[out for out in prompt.output if out.id not in orphans])


def _closing(prompt: Prompt, *, keep_questions: bool) -> Iterator[Event]:
    """Yield records that settle a prompt's open calls and complete it, if no decision is due."""
    waits = keep_questions and _asks(prompt)
    for index, call in enumerate(prompt.output):
        if not isinstance(call, ToolOutput) or not isinstance(call.result, Pending):
            continue
        if call.is_running and call.result.why == "approval":
            again = replace(call, started_at_ms=None)
            closed = replace(call, result=Error((text_block(NEVER_ANSWERED),)))
            yield PromptOutput(prompt.id, index, again if waits else closed, replaced=True)
        elif call.is_running:
            # Its end was not observed, so ended_at_ms stays empty.
            unknown = replace(call, result=Error((text_block(UNKNOWN_OUTCOME),)))
            yield PromptOutput(prompt.id, index, unknown, replaced=True)
        elif not waits:
            refused = call.decision == "rejected"  # the model has not read the rejection yet
            asked = call.result.reason == UNANSWERED_QUESTION
            unread = NEVER_ANSWERED if asked else NEVER_STARTED
            said = call.result.reason if refused else unread
            unrun = replace(call, result=Error((text_block(said),)))
            yield PromptOutput(prompt.id, index, unrun, replaced=True)
    if waits and prompt.state == "running":
        # The program ended between recording the question and the pause.
        yield PromptStateChanged(prompt.id, "waiting_for_approval")
    if not waits and prompt.state != "completed":
        yield PromptCompleted(prompt.id)


def _asks(prompt: Prompt) -> bool:
    """Return whether a call of the last reply waits for a decision."""
    replies = [out.reply_id for out in prompt.output if isinstance(out, ReplyOutput)]
    return any(
        isinstance(out, ToolOutput)
        and out.reply_id == replies[-1]
        and isinstance(out.result, Pending)
        and out.result.why == "approval"
        for out in prompt.output
    )
