"""Collect what the user said, word for word, so that a compaction loses none of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.timeline import (
    Block,
    Error,
    Output,
    Success,
    ToolOutput,
    UserOutput,
    text_block,
    text_of,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import WORDS_TEXT, numbered, unsent_ids

# Tools whose results are answers of the user.
_ANSWERED: Final = ("ask_user", "present_plan")

# Characters kept of the beginning and of the end of one long text: a paste, a log.
_HEAD, _TAIL = 3_000, 1_000


def user_words(conversation: Conversation, *, until: str, chars_max: int) -> str:
    """Return what the user said before the entry *until*, oldest first, one item each.

    That is every message but the first, which is always sent; every answer to a question; and
    every refusal of a call with its reason. The newest stay if all of it has more than *chars_max*
    characters.
    """
    kept: list[str] = []
    items = list(_items(conversation, until))
    for text in reversed(items):
        chars_max -= len(text)
        if chars_max < 0:
            break
        kept.append(text)
    if kept and (left_out := len(items) - len(kept)):
        kept.append(f"[older ones left out here: {left_out}; recall finds them]")
    return "\n".join(reversed(kept))


def without_words(summary: Sequence[Message]) -> Iterator[Message]:
    """Yield the message of an earlier *summary* without the user's words behind it."""
    for message in summary:
        if isinstance(message, UserMessage):
            text = message.text.partition(f"\n\n{WORDS_TEXT}\n")[0]
            yield replace(message, content=(text_block(text),))


def _items(conversation: Conversation, until: str) -> Iterator[str]:
    unsent = unsent_ids(conversation.prompts)
    is_first = True
    for number, output in numbered(conversation.prompts):
        if output.id == until:
            return
        if output.id in unsent:
            continue
        if is_first and isinstance(output, UserOutput):
            is_first = False
        elif text := _said(output):
            yield f"- [{number}] {_shortened(text, number)}"


def _said(output: Output) -> str:
    match output:
        case UserOutput():
            return _text(output.content)
        case ToolOutput(result=Success(content)) if output.name in _ANSWERED:
            return f"(answer) {_text(content)}"
        case ToolOutput(decision="rejected", result=Success(content) | Error(content)):
            return f"(refused {output.name}) {_text(content)}"
        case _:
            return ""


def _text(content: tuple[Block, ...]) -> str:
    return text_of(content).strip()


def _shortened(text: str, number: int) -> str:
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    note = f"[… {left_out:,} characters; recall entry {number} for the whole …]"
    return f"{text[:_HEAD]} {note} {text[-_TAIL:]}"
