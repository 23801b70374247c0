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
from agent_cli.core.pins import as_pinned, pins
from agent_cli.core.projection import CUT_TEXT, WORDS_TEXT, numbered, unsent_ids

# The user's words fill at most this share of the window.
WORDS_SHARE: Final = 0.1

# Tools whose results are answers of the user.
_ANSWERED: Final = ("ask_user", "present_plan")

# Tools whose calls a summary may refer to by their numbers.
_CHANGING: Final = ("edit", "write", "bash")
_TARGET_CHARS: Final = 60
_LISTED_MAX: Final = 100

# Characters kept of the beginning and of the end of one long text: a paste, a log.
_HEAD, _TAIL = 3_000, 1_000


def user_words(
    conversation: Conversation, *, until: str, chars_max: int, can_recall: bool = True
) -> str:
    """Return what the user said before the entry *until*, oldest first, one item each.

    That is every message but the first, which is always sent; every answer to a question; and
    every refusal of a call with its reason. The newest stay if all of it has more than *chars_max*
    characters; pinned texts stay whole in any case. *can_recall*: the model has the tool `recall`.
    """
    kept: list[str] = []
    items = list(_items(conversation, until, can_recall=can_recall))
    for text in reversed(items):
        chars_max -= len(text)
        if chars_max < 0:
            break
        kept.append(text)
    if kept and (left_out := len(items) - len(kept)):
        kept.append(f"[older ones left out here: {left_out}{_finds(can_recall=can_recall)}]")
    pinned = [f"- {as_pinned(text)}" for text in pins(conversation.prompts).values()]
    return "\n".join([*pinned, *reversed(kept)])


def cut_note(
    conversation: Conversation, *, until: str, chars_max: int, can_recall: bool = True
) -> str:
    """Return what the model reads in place of all before the entry *until*: the user's words.

    For a cut without a summary; the arguments are those of `user_words`.
    """
    words = user_words(conversation, until=until, chars_max=chars_max, can_recall=can_recall)
    return f"{CUT_TEXT}{_finds(can_recall=can_recall)}.]" + (
        f"\n\n{WORDS_TEXT}\n{words}" if words else ""
    )


def _finds(*, can_recall: bool) -> str:
    return "; recall finds them" if can_recall else ""


def changing_entries(conversation: Conversation, *, until: str) -> str:
    """Return the calls before the entry *until* that may have changed something, a line each.

    Each has its number, for notes that refer to it. The newest stay if there are many.
    """
    lines: list[str] = []
    for number, output in numbered(conversation.prompts):
        if output.id == until:
            break
        if isinstance(output, ToolOutput) and output.name in _CHANGING:
            given = output.input if isinstance(output.input, dict) else {}
            target = str(given.get("path") or given.get("command") or "")
            lines.append(f"[{number}] {output.name} {' '.join(target.split())[:_TARGET_CHARS]}")
    return "\n".join(lines[-_LISTED_MAX:])


def without_words(summary: Sequence[Message]) -> Iterator[Message]:
    """Yield the message of an earlier *summary* or cut without the user's words behind it."""
    for message in summary:
        if isinstance(message, UserMessage):
            text = message.text.partition(f"\n\n{WORDS_TEXT}\n")[0]
            yield replace(message, content=(text_block(text),))


def _items(conversation: Conversation, until: str, *, can_recall: bool) -> Iterator[str]:
    unsent = unsent_ids(conversation.prompts)
    is_first = True
    for number, output in numbered(conversation.prompts):
        if output.id == until:
            return
        if output.id in unsent:
            continue
        if is_first and isinstance(output, UserOutput):
            is_first = False
        elif text := _user_text(output):
            where = f"; recall entry {number} for the whole" if can_recall else ""
            yield f"- [{number}] {_shortened(text, where)}"


def _user_text(output: Output) -> str:
    match output:
        case UserOutput():
            return _text(output.content) if output.is_typed else ""
        case ToolOutput(result=Success(content)) if output.name in _ANSWERED:
            return f"(answer) {_text(content)}"
        case ToolOutput(decision="rejected", result=Success(content) | Error(content)):
            return f"(refused {output.name}) {_text(content)}"
        case _:
            return ""


def _text(content: tuple[Block, ...]) -> str:
    return text_of(content).strip()


def _shortened(text: str, where: str) -> str:
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    note = f"[… {left_out:,} characters{where} …]"
    return f"{text[:_HEAD]} {note} {text[-_TAIL:]}"
