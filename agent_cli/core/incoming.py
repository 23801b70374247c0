"""Check messages before they enter a conversation; every way in accepts and refuses the same."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import UnionType
from typing import Final

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.found_tools import change_in, definition_in
from agent_cli.contracts.frozen import is_json
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Incoming,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import all_of
from agent_cli.contracts.timeline import Block, Usage
from agent_cli.system.shapes import is_array, is_object, is_sequence

_OF_REPLIES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_WITH_SOURCE = frozenset({"image", "document"})
_FILLED = {"base64": "data", "text": "data", "url": "url", "file": "file_id", "content": "content"}
"""The field that a source of each kind must fill; for other kinds it is `type`."""
_OF_USERS = frozenset({"text", "image", "document", "search_result", "container_upload"})
_NOT_IN = {"assistant": frozenset({"tool_result"}), "toolResult": _OF_REPLIES}
_FIELDS: Final[Mapping[type, Mapping[str, type | UnionType]]] = {
    UserMessage: {"timestamp": int, "author": str, "effort": str | None},
    AssistantMessage: {
        "stop_reason": str,
        "usage": Usage,
        "model": str,
        "error": str | None,
        "timestamp": int,
        "beside": tuple,
    },
    ToolResultMessage: {"tool_call_id": str, "tool_name": str, "is_error": bool, "timestamp": int},
    CustomMessage: {"role": str, "timestamp": int},
}
"""The types of the fields beside the content."""
_BLANK_LETTERS = " \u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_UNKNOWN_OR_PRIVATE = frozenset({"Cn", "Co"})
"""Categories that are not printable to Python, but may be to a terminal: the newest emoji."""


def with_images(message: str | Message, images: Iterable[Block]) -> str | Message:
    """Return *message* with image blocks behind its content.

    Raises:
        AgentCliError: *images* are no blocks, or *message* is of a kind that takes none.
    """
    blocks = all_of(images, dict, what="images")
    if not blocks:
        return message
    typed = UserMessage.of(message) if isinstance(message, str) else message
    if not isinstance(typed, UserMessage):
        raise ConversationError(f"images go with a text or a UserMessage, not with {typed.role}")
    return replace(typed, content=(*typed.content, *blocks))


def checked_incoming(message: object) -> Incoming:
    """Check *message* as `checked_user_message` does; a custom message is returned unchanged."""
    if isinstance(message, CustomMessage):
        _check_fields(message)
        return message
    return checked_user_message(message)


def checked_user_message(message: object) -> UserMessage:
    """Return *message*, a `UserMessage` or the text of one, if it can be sent.

    Raises:
        ConversationError: It is something else, or holds nothing to send.
    """
    if isinstance(message, str):
        message = UserMessage.of(message)
    if isinstance(message, AssistantMessage | ToolResultMessage):
        raise ConversationError(
            f"a prompt cannot be a message of kind {message.role}: append_message() takes those"
        )
    if not isinstance(message, UserMessage):
        raise ConversationError(
            f"a message must be text or a UserMessage, not {type(message).__name__}"
        )
    check_content(message)
    return message


def checked_imported(message: object) -> Message:
    """Return *message* of a caller's history, if it can be part of one.

    The content of a user's message is checked when its prompt begins.

    Raises:
        ConversationError: It is no message, or its content cannot be sent.
    """
    if not isinstance(message, UserMessage | CustomMessage | AssistantMessage | ToolResultMessage):
        raise ConversationError(f"a history holds messages, not {type(message).__name__}")
    _check_fields(message)
    if isinstance(message, AssistantMessage | ToolResultMessage):
        _check_blocks(message.content)
        if kinds := sorted(_kinds(message.content) & _NOT_IN[message.role]):
            sentence = f"a message of kind {message.role} cannot hold {', '.join(kinds)} blocks"
            raise ConversationError(sentence)
        if not all(_is_call(block) for block in message.content if block["type"] == "tool_use"):
            raise ConversationError("a call needs an object as its input, and text as its id")
    return message


def check_content(message: UserMessage) -> None:
    """Raise `ConversationError` if the content of *message* cannot be sent."""
    _check_fields(message)
    _check_blocks(message.content)
    undefined = [
        block for block in message.content if not (definition_in(block) or change_in(block))
    ]
    if kinds := sorted(_kinds(undefined) - _OF_USERS):
        raise ConversationError(f"a user's message cannot hold {', '.join(kinds)} blocks")
    if not any(b["type"] != "text" or _shows(str(b["text"])) for b in message.content):
        raise ConversationError("there is nothing to send: a message needs text or an image")


def _shows(text: str) -> bool:
    """Return whether *text* holds a character that a reader sees."""
    if any(c.isprintable() and c not in _BLANK_LETTERS for c in text):
        return True
    from unicodedata import category  # hardly ever needed

    return any(category(c) in _UNKNOWN_OR_PRIVATE for c in text)


def _kinds(content: Iterable[Block]) -> set[str]:
    return {str(block["type"]) for block in content}


def _check_blocks(content: object) -> None:
    if is_array(content) or not is_sequence(content) or not all(map(_is_block, content)):
        raise ConversationError(
            "the content of a message must be a tuple of blocks: UserMessage.of(text) makes one"
        )


def _check_fields(message: Message) -> None:
    """Raise `ConversationError` for a field that the record could not keep, or a request send."""
    kind = next(each for each in _FIELDS if isinstance(message, each))
    for name, kinds in _FIELDS[kind].items():
        value = getattr(message, name)
        if not isinstance(value, kinds):
            raise ConversationError(
                f"the {name} of a {type(message).__name__} cannot be {type(value).__name__}"
            )
    data = message.data if isinstance(message, CustomMessage) else None
    details = message.details if isinstance(message, ToolResultMessage) else None
    if not is_json(data) or not is_json(details):
        raise ConversationError(f"the data of a {type(message).__name__} must be JSON")


def _is_block(block: object) -> bool:
    if not is_object(block) or not isinstance(block.get("type"), str) or not is_json(block):
        return False
    if block["type"] in _WITH_SOURCE:
        source = block.get("source")
        return is_object(source) and bool(source.get(_FILLED.get(str(source.get("type")), "type")))
    needed = {"text": "text", "tool_use": "name"}.get(block["type"])
    return needed is None or isinstance(block.get(needed), str)


def _is_call(block: Block) -> bool:
    """Return whether the id and the input of *block* are a call's; one without an id gets one."""
    return isinstance(block.get("id"), str | None) and is_object(block.get("input"))
