"""Questions to a conversation: what is open, what waits, what may come next. S2-31, S0-58."""

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Success, text_block
from agent_cli.core.conversation import Conversation
from tests.core.test_conversation import asked
from tests.fakes import says


def test_open_calls_are_those_of_the_last_reply_in_call_order() -> None:
    conversation = asked("t1", "t2", "t3")
    assert Conversation().open_calls() == []

    conversation.settle_call("t2", Success((text_block("ok"),)))
    assert [call.tool_call_id for call in conversation.open_calls()] == ["t1", "t3"]
    conversation.add_reply(says("done"))

    assert conversation.open_calls() == []
    assert conversation.last_reply().text == "done"


def test_results_of_the_last_reply_are_in_call_order() -> None:
    conversation = asked("t1", "t2")
    for id in ("t2", "t1"):
        conversation.settle_call(id, Success((text_block(id),)))

    results = conversation.results_of_last_reply()

    assert [result.tool_call_id for result in results] == ["t1", "t2"]


def test_questions_are_the_calls_a_person_must_decide_about() -> None:
    conversation = asked("t1", "t2")
    assert (conversation.waiting, conversation.questions()) == (False, [])

    conversation.pause({"t2": "it may hurt"})

    assert conversation.waiting
    assert [call.tool_call_id for call in conversation.questions()] == ["t2"]
    with pytest.raises(ConversationError, match="approve or reject t2"):
        conversation.require_ready_for(UserMessage.of("next"))


def test_unknown_call_is_named() -> None:
    with pytest.raises(ConversationError, match="there is no tool call 't9'"):
        asked("t1").call("t9")
