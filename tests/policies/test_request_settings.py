"""Plan mode as it is announced, and the level at which the model is asked from which message on."""

from itertools import pairwise

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.request_settings import PLAN_OFF, PLAN_ON, note_effort, plan_mode
from tests.fakes import calls, says, scripted_agent, tool, tool_use


async def seen(*_arguments: object) -> str:
    return "seen"


async def test_model_is_told_of_plan_mode_once_and_keeps_its_tools() -> None:
    """C19: removing edit and write from the list of tools would invalidate the prompt cache."""
    mode = ["plan"]
    options = LoopConfig(prepare=[plan_mode(lambda: mode[0] == "plan")])
    look = calls(tool_use("look", {}, "t1"))
    agent, model, _ = scripted_agent(
        *(look, says("a"), says("b"), says("c"), says("d")),
        tools=[tool("look", seen)],
        options=options,
    )

    await agent.prompt("one")
    await agent.prompt("two")
    mode[0] = "ask"
    await agent.prompt("three")
    await agent.prompt("four")

    told = [
        message.text
        for message in agent.conversation.messages()
        if isinstance(message, UserMessage) and message.text.startswith("[agent-cli")
    ]
    assert told == [PLAN_ON, PLAN_OFF]
    assert [[each.name for each in request.tools] for request in model.requests] == [["look"]] * 5
    for before, after in pairwise(model.requests):
        assert after.messages[: len(before.messages)] == before.messages


async def test_resumed_session_is_told_that_plan_mode_has_ended() -> None:
    """The last notice is read from the conversation, not from this program's memory."""
    mode = ["plan"]
    options = LoopConfig(prepare=[plan_mode(lambda: mode[0] == "plan")])
    first, *_ = scripted_agent(says("a"), options=options)
    await first.prompt("one")
    mode[0] = "ask"
    second, model, _ = scripted_agent(says("b"), options=options)
    second.adopt(first.conversation)

    await second.prompt("two")

    assert PLAN_OFF in str(model.requests[-1].messages[-1])


async def test_plan_mode_is_announced_again_after_a_compaction() -> None:
    """The announcement then follows the summary."""
    options = LoopConfig(prepare=[plan_mode(lambda: True)])
    agent, model, _ = scripted_agent(says("a"), says("b"), options=options)
    await agent.prompt("one")
    agent.conversation.compact("what was", agent.conversation.prompts[-1].output[-1].id)

    await agent.prompt("two")

    assert str(model.requests[-1].messages).count("plan mode is on") == 1


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
