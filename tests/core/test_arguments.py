"""A caller's argument of a wrong type: refused at the door, and the agent stays usable."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from agent_cli import AgentContext, agent_loop, agent_loop_continue
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.media_files import image_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import require_one_of
from agent_cli.contracts.provider import ProviderRegistry
from agent_cli.contracts.timeline import Pending, text_block
from agent_cli.contracts.tooling import Allow, Approval, Ask, Deny
from agent_cli.core.agent import Agent, AgentState
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from tests.fakes import ScriptedModel, calls, config, returns, says, tool, tool_use, wrong
from tests.tables import each_row


class Provides:
    """A provider."""

    stream = ScriptedModel()


class OwnMessage(UserMessage):
    """A program's subclass."""


HELLO = (text_block("hello"),)
HOLDS_ITSELF: dict[str, Any] = {}
HOLDS_ITSELF["a"] = HOLDS_ITSELF
CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "x", "input": {}}
NO_INPUTS: list[Any] = [5, [], "x", {"a": {3}}, {1: 2}, HOLDS_ITSELF, {"a": float("nan")}]
Door = Callable[[Any], Any]  # Any: the wrong type of argument is the point
DOORS: dict[str, Door] = {
    "steer": lambda agent: agent.steer(None),
    "follow_up": lambda agent: agent.follow_up([]),
    "prompt": lambda agent: agent.prompt(object()),
    "images": lambda agent: agent.prompt("go", 5),
    "an image": lambda agent: agent.prompt("go", ["x"]),
    "model of a prompt": lambda agent: agent.prompt("go", model="claude"),
    "no model of a prompt": lambda agent: agent.prompt("go", model=0),
    "set_model": lambda agent: agent.set_model(None),
    "set_model, a name": lambda agent: agent.set_model("claude"),
    "set_tools": lambda agent: agent.set_tools("x"),
    "set_tools, None": lambda agent: agent.set_tools(None),
    "set_tools, names": lambda agent: agent.set_tools(["read"]),
    "set_thinking_level": lambda agent: agent.set_thinking_level("hgih"),
    "set_thinking_level, a list": lambda agent: agent.set_thinking_level([]),
    "set_system_prompt": lambda agent: agent.set_system_prompt(b"x"),
    "set_steering_mode": lambda agent: agent.set_steering_mode("some"),
    "set_follow_up_mode": lambda agent: agent.set_follow_up_mode(None),
    "replace_messages": lambda agent: agent.replace_messages("text"),
    "replace_messages, None": lambda agent: agent.replace_messages(None),
    "adopt": lambda agent: agent.adopt(None),
    "subscribe": lambda agent: agent.subscribe(None),
    "approve": lambda agent: agent.approve(None),
    "a prompt's author": lambda agent: agent.prompt(UserMessage(HELLO, author=wrong(5))),
    "a subclass's author": lambda agent: agent.prompt(OwnMessage(HELLO, author=wrong(5))),
    "a custom message's data": lambda agent: agent.prompt(CustomMessage("note", wrong(object()))),
}
PARTS: dict[str, Any] = {
    "time": AssistantMessage(HELLO, timestamp=wrong("now")),
    "usage": AssistantMessage(HELLO, usage=wrong(5)),
    "beside": AssistantMessage(HELLO, beside=wrong(5)),
    "author": UserMessage(HELLO, author=wrong(5)),
    "role": CustomMessage(wrong(5)),
    "block": UserMessage((wrong({"type": "text", "text": "a", "x": object()}),)),
    "input": AssistantMessage(({**CALL, "input": [1]},)),
    "no input": AssistantMessage(({"type": "tool_use", "id": "t", "name": "x"},)),
    "part of an input": AssistantMessage((wrong({**CALL, "input": {"a": object()}}),)),
    "id": AssistantMessage(({**CALL, "id": 5},)),
}


@each_row("door", DOORS.values(), ids=DOORS)
async def test_a_wrong_type_is_refused_and_changes_nothing(door: Door) -> None:
    """It was taken into the options or the record, and every later request failed."""
    agent = Agent(config(ScriptedModel(says("Still here."))))
    before = (agent.options, agent.conversation)

    with pytest.raises(AgentCliError):
        await _awaited(door(agent))

    assert (agent.options, agent.conversation) == before
    assert (await agent.prompt("Are you there?")).stop_reason == "end_turn"


@each_row("message", PARTS.values(), ids=PARTS)
async def test_an_imported_message_with_a_part_of_a_wrong_type_is_refused(message: Any) -> None:
    """No later request could be sent with it."""
    agent = Agent(config(ScriptedModel(says("Still here."))))

    for take_in in (agent.append_message, lambda each: agent.replace_messages([each])):
        with pytest.raises(AgentCliError):
            take_in(message)

    assert (await agent.prompt("Are you there?")).stop_reason == "end_turn"


def test_details_that_are_no_json_are_refused() -> None:
    """Listeners write them as JSON: one that fails loses the event."""
    agent = Agent(config(ScriptedModel()))
    agent.append_message(AssistantMessage((CALL,), "tool_use"))

    with pytest.raises(AgentCliError, match="must be JSON"):
        agent.append_message(ToolResultMessage("t", "x", HELLO, details=wrong(object())))


@pytest.mark.parametrize("edited", NO_INPUTS, ids=repr)
async def test_an_edited_input_that_is_no_object_leaves_the_call_waiting(edited: Any) -> None:
    """The model reads the edited input as JSON in each later request."""
    agent = await _waiting()

    with pytest.raises(AgentCliError, match="edited input"):
        await agent.approve("t1", edited=edited)

    assert (await agent.approve("t1")).stop_reason == "end_turn"


@each_row("reason", [5, None, b"x"])
async def test_a_reason_that_is_no_text_leaves_the_call_waiting(reason: Any) -> None:
    """It becomes the result that the model reads."""
    agent = await _waiting()

    with pytest.raises(AgentCliError, match="reason"):
        await agent.reject("t1", reason)

    assert (await agent.reject("t1")).stop_reason == "end_turn"


@pytest.mark.parametrize(
    "decisions",
    [5, "t1", {"t1": None}, {"t1": True}, {5: Allow()}, {"t1": Deny(wrong(5))}]
    + [{"t1": Allow(input=edited)} for edited in NO_INPUTS],
    ids=repr,
)
async def test_decisions_of_a_wrong_type_begin_no_run(decisions: Any) -> None:
    """Neither a run nor a call may begin with what cannot be recorded."""
    agent = await _waiting()
    context = AgentContext(messages=agent.conversation.messages())

    with pytest.raises(AgentCliError):
        agent_loop_continue(context, agent.options, decisions=decisions)


@each_row(
    "verdict",
    [None, Deny(wrong(None)), Ask("?", input=[]), Allow(input="x"), Allow(holds=wrong(True))],
)
async def test_a_verdict_that_cannot_be_recorded_asks_a_person(verdict: Any) -> None:
    """A check that fails counts as a question; the record took the input, and no request went."""
    model = ScriptedModel(calls(tool_use("look")))
    options = config(model, tools=[tool("look", returns("seen"))])
    agent = Agent(replace(options, authorize_tool=lambda *_call: verdict))

    result = await agent.prompt("go")

    assert result.stop_reason == "waiting_for_approval"
    held = agent.conversation.questions()[0].result
    assert isinstance(held, Pending)
    assert "the permission check failed" in held.reason


@each_row(
    "door",
    [
        lambda options: agent_loop(wrong("hello"), AgentContext(), options),
        lambda options: agent_loop(wrong(5), AgentContext(), options),
        lambda options: agent_loop(["hello"], wrong(None), options),
        lambda _options: agent_loop(["hello"], AgentContext(), wrong(None)),
        lambda options: agent_loop(["hello"], AgentContext(system_prompt=wrong(5)), options),
        lambda _options: AgentContext(messages=wrong(None)),
        lambda _options: AgentContext(tools=wrong("read")),
        lambda _options: Agent(wrong("claude")),
        lambda options: Agent(options, initial_state=wrong({})),
        lambda options: Agent(options, conversation=wrong([])),
        lambda options: Agent(options, initial_state=AgentState(tools=wrong(None))),
        lambda options: Agent(options, steering_mode=wrong("some")),
        lambda _options: LoopConfig(steering=wrong("cancel")),
        lambda _options: LoopConfig(approval=wrong(True)),
        lambda _options: ProviderRegistry(wrong([])),
        lambda _options: ProviderRegistry({"api": wrong(object())}),
        lambda _options: ProviderRegistry({"api": wrong(Provides)}),
        lambda _options: ProviderRegistry().register(wrong(5), Provides()),
        lambda _options: ChatStateMachine(wrong("phase")),
        lambda _options: image_block(wrong("picture.png"), "image/png"),
        lambda _options: image_block(b"", wrong(None)),
    ],
)
def test_a_loop_or_an_agent_is_not_begun_with_a_wrong_type(door: Door) -> None:
    """A text in place of the list of prompts was one prompt for each of its letters."""
    with pytest.raises(AgentCliError):
        door(config(ScriptedModel(says("Hi."))))


async def test_a_subclass_of_a_message_is_one() -> None:
    """It was a KeyError."""
    agent = Agent(config(ScriptedModel(says("Hi."))))

    assert (await agent.prompt(OwnMessage(HELLO))).stop_reason == "end_turn"


def test_refused_list_is_named() -> None:
    """S0-66, S2-50: a text would be taken for the list of its letters."""
    options = config(ScriptedModel())

    with pytest.raises(AgentCliError, match=r"^tools must be a sequence, not str$"):
        Agent(options, initial_state=AgentState(tools=wrong("read")))
    with pytest.raises(AgentCliError, match=r"^a history must be a sequence, not str$"):
        Agent(options).replace_messages(wrong("hello"))


def test_a_choice_is_compared_without_what_equals_it() -> None:
    """Anything may say that it equals a text."""
    require_one_of(None, ["a", None], what="it")

    with pytest.raises(AgentCliError, match=r"it must be one of 'a', None, not \['a'\]"):
        require_one_of(["a"], ["a", None], what="it")


async def _awaited(outcome: object) -> None:
    if inspect.isawaitable(outcome):
        async with asyncio.timeout(10):
            await outcome


async def _waiting() -> Agent:
    """Return an agent whose call `t1` waits for a decision."""
    model = ScriptedModel(calls(tool_use("look")), says("Done."))
    look = replace(tool("look", returns("seen")), require_approval=Approval(required=True))
    agent = Agent(config(model, tools=[look]))
    await agent.prompt("go")
    return agent


def test_image_may_be_the_buffer_that_a_library_wrote_it_to() -> None:
    """`BytesIO.getbuffer()`, a memoryview, saves a copy."""
    assert image_block(wrong(BytesIO(b"hi").getbuffer()), "image/png") == image_block(
        b"hi", "image/png"
    )
