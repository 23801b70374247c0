"""Queued messages in the record."""

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.core.unsent import keep_unsent, unsent


def test_record_holds_the_messages_that_wait_now() -> None:
    """One entry for each change."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))

    for texts in (["a"], ["a"], ["b", "a"]):
        keep_unsent(conversation, texts)

    assert unsent(conversation) == ["b", "a"]
    assert len(conversation.prompts[-1].output) == 2
    keep_unsent(conversation, [])
    assert unsent(conversation) == []


def test_message_that_was_delivered_right_before_a_kill_is_not_unsent() -> None:
    """Its delivery is recorded first; a second message with this text still waits."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("a"))
    keep_unsent(conversation, ["a", "b", "a"])

    conversation.add_user(UserMessage.of("a"))

    assert unsent(conversation) == ["b", "a"]


def test_nothing_is_recorded_before_the_first_prompt() -> None:
    """A session in which nothing was said is not kept."""
    conversation = Conversation()

    keep_unsent(conversation, ["a"])

    assert conversation.prompts == []
