"""Check messages at the door: every way into a conversation accepts and refuses the same ones."""

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Incoming,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.core.api_messages import not_blank
from agent_cli.system.shapes import is_object

_OF_REPLIES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})


def checked_incoming(message: object) -> Incoming:
    """Return *message* as `checked_user_message` does; a message of a custom kind as it is."""
    return message if isinstance(message, CustomMessage) else checked_user_message(message)


def checked_user_message(message: object) -> UserMessage:
    """Return *message*, a `UserMessage` or its text, if it can be sent.

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


def check_content(message: UserMessage) -> None:
    """Raise `ConversationError` if the content of *message* cannot be sent."""
    if not _is_content(message.content):
        raise ConversationError(
            "the content of a message must be a tuple of blocks: UserMessage.of(text) makes one"
        )
    if kinds := sorted({str(block["type"]) for block in message.content} & _OF_REPLIES):
        raise ConversationError(f"a user's message cannot hold {', '.join(kinds)} blocks")
    if not not_blank(message.content):
        raise ConversationError("there is nothing to send: a message needs text or an image")


def _is_content(content: object) -> bool:
    return isinstance(content, tuple) and all(map(_is_block, content))


def _is_block(block: object) -> bool:
    if not is_object(block) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)
