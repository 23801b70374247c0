"""Mend replies in the history that the Messages API would refuse; pure.

A model may call a tool by a name that no tool can have, and a session may continue with another
server than the one that wrote its replies. One such reply would make every later request fail.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, ToolResultMessage
from agent_cli.contracts.timeline import Block
from agent_cli.system.loading import late_pattern

_LONGEST: Final = 64
_VALID: Final = late_pattern(r"[a-zA-Z0-9_-]{1,64}")
"""Stricter than the Messages API, which takes up to 200 characters as the name of a call."""
_INVALID: Final = late_pattern(r"[^a-zA-Z0-9_-]")
FALLBACK: Final = "fallback"
_FOREIGN: Final = frozenset({"extra_content", "reasoning_details", "field"})
"""What the Chat Completions API adds to calls and thinking, for its own servers."""
_THINKING: Final = ("thinking", "redacted_thinking")


def accepted(
    history: Sequence[LlmMessage], *, compat: bool, marks_fallbacks: bool = False
) -> tuple[LlmMessage, ...]:
    """Return *history* with valid names in its calls, and without fields of the other API.

    Unless *marks_fallbacks*, a reply that one model began and another ended loses the mark between
    them, and the thinking before it, which the API could not tell from the thinking behind it.

    Unless *compat*, the ids of the calls are valid too, and thinking without a signature is left
    out: the API never writes such thinking. A compatible server gets its own ids and thinking back.
    """
    whole = history if marks_fallbacks else map(_unmarked, history)
    return tuple(_mended(message, compat=compat) for message in whole)


def without_thinking(history: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *history* without thinking, for a server that does not accept it."""
    return tuple(
        replace(each, content=tuple(b for b in each.content if b["type"] not in _THINKING))
        if isinstance(each, AssistantMessage)
        else each
        for each in history
    )


def _unmarked(message: LlmMessage) -> LlmMessage:
    if not isinstance(message, AssistantMessage) or (mark := _last_mark(message)) < 0:
        return message
    kept = tuple(
        block
        for at, block in enumerate(message.content)
        if block["type"] != FALLBACK and not (at < mark and block["type"] in _THINKING)
    )
    return replace(message, content=kept)


def _last_mark(message: AssistantMessage) -> int:
    """Return the position of the last mark of a fallback; -1 without one."""
    marks = (at for at, block in enumerate(message.content) if block["type"] == FALLBACK)
    return max(marks, default=-1)


def _mended(message: LlmMessage, *, compat: bool) -> LlmMessage:
    match message:
        case AssistantMessage():
            content = tuple(
                _valid_call(block, compat=compat) if block["type"] == "tool_use" else block
                for block in map(_of_this_api, message.content)
                if compat or not _is_unsigned(block)
            )
            return message if content == message.content else replace(message, content=content)
        case ToolResultMessage(tool_call_id=call_id) if not (compat or _VALID.fullmatch(call_id)):
            return replace(message, tool_call_id=_valid_id(call_id))
        case _:
            return message


def _of_this_api(block: Block) -> Block:
    if _FOREIGN.isdisjoint(block):
        return block
    return {key: value for key, value in block.items() if key not in _FOREIGN}


def _is_unsigned(block: Block) -> bool:
    return block["type"] == "thinking" and not block.get("signature")


def _valid_call(block: Block, *, compat: bool) -> Block:
    name, call_id = str(block.get("name") or ""), str(block.get("id") or "")
    if _VALID.fullmatch(name) and (compat or _VALID.fullmatch(call_id)):
        return block
    valid = {"name": _valid_name(name), "id": call_id if compat else _valid_id(call_id)}
    return {**block, **valid}


def _valid_name(name: str) -> str:
    if _VALID.fullmatch(name):
        return name
    return _INVALID.sub("_", name)[:_LONGEST] or "unknown"


def _valid_id(call_id: str) -> str:
    """Return *call_id*, or a valid id made from it; a call and its result get the same one."""
    if _VALID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"toolu_{digest[:24]}"
