"""The timeline says from which message on the model is asked at which level."""

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.request_settings import note_effort
from tests.fakes import says, scripted_agent


async def test_change_is_recorded_at_the_message_it_begins_with() -> None:
    """Not again while it holds; it survives a summary of that message."""
    options = LoopConfig(prepare=[note_effort])
    agent, model, _ = scripted_agent(*[says("ok")] * 4, options=options)
    agent.set_thinking_level("high")
    await agent.prompt("one")
    await agent.prompt("two")
    agent.set_thinking_level(None)
    await agent.prompt("three")
    kept = agent.conversation.prompts[-1].input
    assert kept is not None
    agent.set_thinking_level("low")
    agent.conversation.compact("notes", kept.id)
    await agent.prompt("four")

    efforts = [
        [each.effort for each in request.messages if isinstance(each, UserMessage)]
        for request in model.requests
    ]
    assert efforts == [
        ["high"],
        ["high", None],
        ["high", None, ""],
        [None, "high", "", "low"],
    ]


async def test_level_is_noted_again_where_its_prompt_was_left_out() -> None:
    """A refused prompt leaves the context with its note."""
    options = LoopConfig(prepare=[note_effort])
    refused = says("no", stop_reason="refusal")
    agent, model, _ = scripted_agent(refused, says("ok"), options=options)
    agent.set_thinking_level("high")
    await agent.prompt("one")
    await agent.prompt("two")

    (sent,) = model.requests[-1].messages
    assert isinstance(sent, UserMessage)
    assert (sent.text, sent.effort) == ("two", "high")
