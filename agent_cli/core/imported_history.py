"""Convert messages back to a timeline, so that a caller's own history can be continued."""

from collections.abc import Iterable
from typing import assert_never

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import (
    INCOMPLETE,
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import all_of
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import Error, Success
from agent_cli.core.conversation import Conversation
from agent_cli.core.incoming import checked_imported


def conversation_of(
    messages: Iterable[Message], *, user_id: str = "local", keep_open: bool = False
) -> Conversation:
    """Return a conversation that shows *messages*; calls without a result get an error result.

    With *keep_open* the calls of the last reply stay open, for a decision that follows.

    Raises:
        ConversationError: A message cannot be sent, or a tool result answers no call of the reply
            before it.
        AgentCliError: *messages* is no sequence.
    """
    conversation = Conversation(user_id=user_id)
    for message in all_of(messages, what="a history"):
        _append(conversation, checked_imported(message))
    if conversation.prompts and conversation.prompts[-1].output:
        if keep_open and conversation.open_calls():
            return conversation
        close(conversation)
    return conversation


def close(conversation: Conversation) -> None:
    """Close a prompt that was left running; a prompt that waits for a decision stays open."""
    if conversation.prompts and conversation.prompts[-1].state == "running":
        conversation.answer_open_calls()
        conversation.complete()


def append(conversation: Conversation, message: Message) -> None:
    """Append *message* as if it had happened before the next prompt.

    Its calls may be answered by the messages that follow; they are never run.

    Raises:
        ConversationError: *message* cannot be sent, a tool result answers no open call, or a call
            waits for a decision.
    """
    conversation.require_ready_for(None)
    _append(conversation, checked_imported(message))
    conversation.complete()


def _append(conversation: Conversation, message: Message) -> None:
    with conversation.dated(message.timestamp):
        _append_dated(conversation, message)


def _append_dated(conversation: Conversation, message: Message) -> None:
    match message:
        case UserMessage():
            conversation.begin(message)
        case AssistantMessage():
            _append_reply(conversation, message)
        case ToolResultMessage():
            open_ids = [call.tool_call_id for call in conversation.open_calls()]
            if message.tool_call_id not in open_ids:
                raise ConversationError(
                    f"tool result {message.tool_call_id!r} answers no open call; open: {open_ids}"
                )
            outcome = Error if message.is_error else Success
            result = outcome(message.content, message.details)
            conversation.settle_call(message.tool_call_id, result)
        case CustomMessage():
            conversation.note(message)
        case _:
            assert_never(message)


def _append_reply(conversation: Conversation, message: AssistantMessage) -> None:
    conversation.answer_open_calls()
    if not conversation.prompts:
        conversation.begin()
    if message.stop_reason in INCOMPLETE:
        conversation.discard_reply(message.text, message.stop_reason, error=message.error)
    else:
        facts = (message.model, message.content, message.stop_reason, message.usage)
        conversation.add_reply(Reply("", *facts, beside=message.beside))
