"""The inputs of one turn, and the changes that contributors make to them."""

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Event, MessageEnd, MessageStart
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from tests.fakes import MODEL, returns, tool


def turn_of(config: LoopConfig) -> tuple[Turn, list[Event]]:
    """Return a turn of a conversation that has begun, and the events it emits."""
    events: list[Event] = []
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    turn = Turn(
        config, conversation, events.append, CancelToken(), ChatStateMachine(), overflow=False
    )
    return turn, events


def test_turn_starts_with_copies_of_the_configured_lists() -> None:
    """S2-15: a contributor adds to the copies; the configuration stays unchanged."""
    look = tool("look", returns("a tree"))
    turn, _ = turn_of(LoopConfig(model=MODEL, system_prompt="You are brief.", tools=[look]))

    turn.tools.append(tool("more", returns("")))
    turn.system.append("It is Monday.")

    assert (turn.model, turn.system) == (MODEL, ["You are brief.", "It is Monday."])
    assert turn.config.tools == (look,)
    assert turn_of(LoopConfig())[0].system == []


def test_turn_without_a_model_is_an_error_that_names_the_remedy() -> None:
    """A sentence, not an AttributeError from inside the provider."""
    turn, _ = turn_of(LoopConfig())

    with pytest.raises(AgentCliError, match=r"^no model is set: give the agent one$"):
        _ = turn.model


def test_message_for_the_model_is_published_with_its_start_and_end() -> None:
    """S0-39, S0-51: a front end that waits for the end of a message sees it."""
    turn, events = turn_of(LoopConfig(model=MODEL))

    turn.tell_model("[The plan has changed.]")

    told = turn.conversation.context()[-1]
    assert isinstance(told, UserMessage)
    assert told.content == (text_block("[The plan has changed.]"),)
    assert events == [MessageStart(told), MessageEnd(told)]
