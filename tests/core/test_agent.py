"""The stateful level: state, queues, listeners, setters, abort and continue."""

import asyncio
import inspect
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import (
    AgentBusy,
    AgentCliError,
    ConversationError,
    ModelError,
    NothingToContinue,
)
from agent_cli.contracts.events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    PromptStarted,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.contracts.media_files import image_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, text_block, text_of
from agent_cli.contracts.tooling import Approval, ToolContext
from agent_cli.core import record
from agent_cli.core.agent import Agent, AgentState
from agent_cli.core.branching import branch_points
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import (
    LIMIT_S,
    LOOK,
    MODEL,
    Gate,
    Held,
    ScriptedModel,
    answer,
    calls,
    check_run,
    config,
    listening,
    outline,
    returns,
    said,
    says,
    scripted_agent,
    stream_of,
    texts,
    tool,
    tool_use,
    users,
)
from tests.tables import each_row

Mode = Literal["one_at_a_time", "all"]


def ending_of(events: list[Event]) -> tuple[str, str | None]:
    """Return the ending that the last run reported."""
    end = events[-1]
    assert isinstance(end, AgentEnd)
    return end.stop_reason, end.error


# State.


def test_new_agent_has_the_documented_default_state() -> None:
    """S0-31, S3-14: compare every field of the state."""
    agent = Agent()

    assert agent.state == AgentState(
        system_prompt="",
        model=None,
        thinking_level="minimal",
        tools=[],
        messages=[],
        is_streaming=False,
        stream_message=None,
        pending_tool_calls=frozenset(),
        error=None,
    )
    assert not agent.has_queued_messages()


def test_agent_and_loop_config_have_the_documented_options_and_defaults() -> None:
    """S0-54, S0-26, S0-29: the options of a caller that sets nothing."""
    options = LoopConfig()

    given = {name: each.default for name, each in inspect.signature(Agent).parameters.items()}

    assert given == {
        "config": None,
        "initial_state": None,
        "conversation": None,
        "steering_mode": "one_at_a_time",
        "follow_up_mode": "one_at_a_time",
    }
    assert (options.stream_fn, options.registry, options.get_api_key) == (None, None, None)
    assert (options.transform_context, options.convert_to_llm) == (None, None)
    assert (options.session_id, options.thinking_budgets) == (None, {})
    assert (options.max_retry_delay_ms, options.max_rounds) == (60_000, 100)
    assert (options.tool_timeout_s, options.concurrency) == (120.0, 8)
    assert options.tool_stop_timeout_s == 5.0


async def test_first_request_uses_the_initial_state() -> None:
    """S0-54, S3-01, S3-09: prompt, model, level, tools and messages."""
    model = ScriptedModel(says("ok"))
    messages: list[Message] = [UserMessage.of("Hi"), AssistantMessage((text_block("Hello"),))]
    state = AgentState("Be brief.", MODEL, "xhigh", [LOOK], messages)
    agent = Agent(LoopConfig(stream_fn=model), initial_state=state)

    await agent.prompt("go")

    request = model.requests[0]
    assert (request.system, request.model, request.tools) == (("Be brief.",), MODEL, (LOOK.spec,))
    assert [(each.name, each.description) for each in request.tools] == [("look", "Does look")]
    assert request.thinking_level == "xhigh"
    assert users(request.messages) == ["Hi", "go"]


async def test_fields_unset_in_the_initial_state_come_from_loop_config() -> None:
    """S0-54: a state that sets the prompt alone used to take model and tools away."""
    model = ScriptedModel(says("ok"))
    options = LoopConfig(stream_fn=model, model=MODEL, tools=[LOOK], thinking_level="high")
    agent = Agent(options, initial_state=AgentState("Be brief."))

    await agent.prompt("go")

    request = model.requests[0]
    assert (request.system, request.model, request.tools) == (("Be brief.",), MODEL, (LOOK.spec,))
    assert request.thinking_level == "high"


def test_state_of_one_agent_can_initialize_another_with_the_same_config() -> None:
    """S0-54: equal values in both are no conflict."""
    options = LoopConfig(system_prompt="Be brief.", model=MODEL, tools=[LOOK])

    assert Agent(options, initial_state=Agent(options).state).state == Agent(options).state


@each_row(
    ("field", "state"),
    [
        ("system_prompt", AgentState("other")),
        ("model", AgentState(model=Model("other"))),
        ("thinking_level", AgentState(thinking_level="low")),
        ("tools", AgentState(tools=[tool("other", returns("x"))])),
    ],
)
def test_conflict_between_loop_config_and_initial_state_is_an_error(
    field: str, state: AgentState
) -> None:
    """S0-54: otherwise one of the two values would be silently ignored."""
    options = LoopConfig(
        system_prompt="Be brief.", model=MODEL, tools=[LOOK], thinking_level="high"
    )

    with pytest.raises(AgentCliError, match=f"^{field} is set in LoopConfig and in AgentState"):
        Agent(options, initial_state=state)


def test_initial_messages_together_with_a_conversation_are_an_error() -> None:
    state = AgentState(messages=[UserMessage.of("Hi")])

    with pytest.raises(AgentCliError, match=r"^messages are set in AgentState and in conv"):
        Agent(initial_state=state, conversation=Conversation())


async def test_loop_config_copies_the_callers_lists_and_dicts() -> None:
    """S0-30, S0-57: a list or dict that the caller changes later affects no run."""
    tools, budgets = [LOOK], {"high": 9000}
    model = ScriptedModel(says("ok"))
    options = LoopConfig(model=MODEL, stream_fn=model, tools=tools, thinking_budgets=budgets)
    tools.clear()
    budgets.clear()

    await Agent(options).prompt("go")

    assert model.requests[0].tools == (LOOK.spec,)
    assert model.requests[0].thinking_budgets == {"high": 9000}


async def test_changing_exposed_state_or_events_does_not_change_the_record() -> None:
    """S0-56: change the state's lists, their items, and the fields of events."""
    asks = calls(tool_use("look", {"at": ["x"]}), text="I look.")
    agent, model, _ = scripted_agent(asks, says("ok"), says("ok"), tools=[LOOK])
    given = UserMessage((text_block("go"),))
    refused: list[str] = []

    def spoil(value: object) -> None:
        """Change every mutable part of *value*, at any depth."""
        if isinstance(value, dict | list):
            try:
                value.clear()
            except TypeError:
                refused.append(type(value).__name__)
        for part in (
            [*value.values()]
            if isinstance(value, dict)
            else value
            if isinstance(value, list | tuple)
            else [getattr(value, name) for name in getattr(value, "__dataclass_fields__", ())]
        ):
            spoil(part)

    agent.subscribe(lambda e: None if isinstance(e, PromptStarted) else spoil(e))
    await agent.prompt(given)
    spoil(given)
    state = agent.state
    spoil(state.messages)
    state.messages.clear()
    state.tools.clear()
    await agent.prompt("again")

    assert len(refused) > 10
    assert model.sent() == [
        {"role": "user", "content": [text_block("go")]},
        {"role": "assistant", "content": [*asks.content]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [text_block("a tree")]}
            ],
        },
        {"role": "assistant", "content": [text_block("ok")]},
        {"role": "user", "content": [text_block("again")]},
    ]
    assert agent.state.tools == [LOOK]


async def test_tool_that_changes_its_input_does_not_change_the_record() -> None:
    """S2-32: the tool gets a copy; the record keeps the model's input."""

    async def body(
        tool_call_id: str, params: dict[str, list[str]], cancel: CancelToken, on_update: ToolContext
    ) -> str:
        params["at"].append("y")
        return params.pop("at")[-1]

    agent, model, _ = scripted_agent(
        calls(tool_use("look", {"at": ["x"]})), says("ok"), tools=[tool("look", body)]
    )

    await agent.prompt("go")

    assert model.sent()[1]["content"] == [tool_use("look", {"at": ["x"]})]


async def test_agent_state_is_up_to_date_at_every_event() -> None:
    """S0-32, S0-33, S0-34: whether a reply streams, the partial message, the pending calls."""
    asks = calls(tool_use("look", {}, "t1"), tool_use("missing", {}, "t2"), text="I look.")
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK])
    expected_calls: set[str] = set()
    in_reply = False
    wrong: list[Event] = []

    def compare(event: Event) -> None:
        nonlocal in_reply
        match event:
            case ToolExecutionStart():
                expected_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                expected_calls.discard(event.tool_call_id)
            case _:
                pass
        if event.type in ("message_start", "message_end"):
            role = getattr(event, "message").role  # noqa: B009 - both kinds have one
            in_reply = event.type == "message_start" and role == "assistant"
        state = agent.state
        if (
            {*state.pending_tool_calls} != expected_calls
            or (state.stream_message is not None) != in_reply
            or state.is_streaming == (event.type == "agent_end")
        ):
            wrong.append(event)

    agent.subscribe(compare)
    await agent.prompt("go")

    assert wrong == []
    assert len(events) > 20
    assert not agent.state.is_streaming


async def test_partial_message_in_the_state_grows_while_the_reply_streams() -> None:
    """S0-33: the text so far can be read at any moment."""
    gate = Gate()
    stream = stream_of(says("Hello world"))
    agent, _, _ = scripted_agent([*stream[:2], gate, *stream[2:]])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    partial = agent.state.stream_message

    assert partial is not None
    assert partial.text == "Hello "
    gate.open()
    await running
    assert agent.state.stream_message is None


async def test_run_error_stays_in_the_state_until_the_next_prompt() -> None:
    """S0-35, S0-42, S0-65: messages queued before the error stay queued."""
    agent, _, _ = scripted_agent(ModelError("gone"), says("ok"))
    queued = [UserMessage.of("steered"), UserMessage.of("followed up")]
    agent.steer(queued[0])
    agent.follow_up(queued[1])

    result = await agent.prompt("go")
    assert (result.stop_reason, result.error, agent.state.error) == ("error", "gone", "gone")
    assert not agent.state.is_streaming
    assert agent.clear_all_queues() == queued
    await agent.prompt("again")
    assert agent.state.error is None


async def test_a_reset_clears_the_error() -> None:
    """S0-35, S0-65: a reset clears the error as a new prompt does."""
    agent, _, _ = scripted_agent(ModelError("gone"))
    await agent.prompt("go")

    agent.reset()

    assert agent.state.error is None


# Prompts.


async def test_prompt_accepts_text_text_with_images_or_a_message() -> None:
    """S3-15: images are sent with their data and type."""
    image: Block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }
    agent, model, _ = scripted_agent(says("1"), says("2"), says("3"), says("4"))
    images = [image_block(b"hi", "image/png")]

    await agent.prompt("text")
    await agent.prompt("look", images)
    await agent.prompt(UserMessage.of("message"))
    await agent.prompt(UserMessage.of("see"), images)  # they were left out without a word
    with pytest.raises(ConversationError, match="images go with a text or a UserMessage"):
        await agent.prompt(CustomMessage("note"), images)

    mine = [message["content"] for message in model.sent() if message["role"] == "user"]
    assert mine == [
        [text_block("text")],
        [text_block("look"), image],
        [text_block("message")],
        [text_block("see"), image],
    ]


async def test_prompt_records_which_model_was_asked() -> None:
    """S2-01, S2-54: typed, triggered or continued, even if another model is chosen later."""
    other = Model("other-model", api="scripted")
    agent, _, _ = scripted_agent(says("1"), says("2"), ModelError("gone"), says("3"))

    await agent.prompt("go")
    agent.set_model(other)
    await agent.trigger()
    await agent.prompt("again")
    agent.set_model(MODEL)
    await agent.continue_()

    asked = [prompt.model for prompt in agent.conversation.prompts]
    assert asked == [MODEL.id, other.id, other.id, MODEL.id]


async def test_run_without_a_message_begins_with_its_start_too() -> None:
    """S0-39: `app.prompt_started` came first when a prompt was triggered or continued."""
    agent, _, events = scripted_agent(says("1"), ModelError("gone"), says("2"))

    await agent.trigger()
    await agent.prompt("go")
    await agent.continue_()

    starts = [type(e) for e in events if isinstance(e, AgentStart | PromptStarted | AgentEnd)]
    assert starts == [AgentStart, PromptStarted, AgentEnd] * 3
    with pytest.raises(NothingToContinue):
        await agent.continue_()
    assert not isinstance(events[-1], PromptStarted)


async def test_model_of_a_prompt_applies_to_all_its_calls_and_to_no_other_prompt() -> None:
    """S2-01, S2-54: an approval does not end its effect; the next prompt uses the agent's model."""
    high = Model("high-model", api="scripted")
    danger = replace(tool("danger", returns("boom")), require_approval=Approval(required=True))
    agent, model, _ = scripted_agent(
        calls(tool_use("look")),
        calls(tool_use("danger", {}, "t2")),
        says("hard"),
        says("easy"),
        tools=[LOOK, danger],
    )

    await agent.prompt("a hard one", model=high)
    await agent.approve("t2")
    await agent.prompt("an easy one")

    asked = [request.model.id for request in model.requests]
    assert asked == ["high-model"] * 3 + ["scripted-model"]
    assert [p.model for p in agent.conversation.prompts] == ["high-model", "scripted-model"]
    assert agent.state.model == MODEL


async def test_model_set_during_a_run_overrides_the_model_of_the_prompt() -> None:
    """S2-54, S3-12: otherwise a user could not leave a failing model before the prompt ends."""
    own, chosen = Model("own-model", api="scripted"), Model("chosen-model", api="scripted")
    agent, model, _ = scripted_agent(calls(tool_use("look")), says("done"), tools=[LOOK])
    agent.subscribe(
        lambda event: agent.set_model(chosen) if event.type == "tool_execution_end" else None
    )

    await agent.prompt("go", model=own)

    assert [request.model.id for request in model.requests] == ["own-model", "chosen-model"]


async def test_adopted_prompt_continues_with_its_original_model() -> None:
    """S2-31, S2-54: a decision after a restart uses it; the next prompt uses the agent's model."""
    danger = replace(tool("danger", returns("boom")), require_approval=Approval(required=True))
    first, _, _ = scripted_agent(calls(tool_use("danger")), tools=[danger])
    await first.prompt("go", model=(own := Model("own-model", api="scripted")))
    agent, model, _ = scripted_agent(says("done"), says("ok"), tools=[danger])

    agent.adopt(first.conversation, model=own)
    await agent.approve("t1")
    await agent.prompt("next")
    agent.adopt(agent.conversation)

    assert [request.model.id for request in model.requests] == ["own-model", "scripted-model"]


async def test_agent_without_a_model_accepts_a_prompt_that_names_one() -> None:
    """S2-54: the prompt's model is sufficient."""
    scripted = ScriptedModel(says("ok"))
    agent = Agent(LoopConfig(stream_fn=scripted))

    assert (await agent.prompt("go", model=MODEL)).stop_reason == "end_turn"


async def test_user_message_stays_in_the_history_when_the_model_call_fails() -> None:
    """S1-03: the message is recorded before anything else, and a retry is a valid request."""
    agent, model, _ = scripted_agent(ModelError("gone"), says("ok"))

    await agent.prompt("go")

    assert users(agent.state.messages) == ["go"]
    await agent.continue_()
    assert model.sent() == [{"role": "user", "content": [text_block("go")]}]


async def test_second_prompt_during_a_run_is_refused() -> None:
    """S0-62: the error names the remedies; the run is not disturbed."""
    held = Held()
    agent, _, events = scripted_agent(
        calls(tool_use("held")), says("ok"), tools=[tool("held", held)]
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    for refused in (
        agent.prompt("too"),
        agent.continue_(),
        agent.trigger(),
        agent.approve("t1"),
        agent.reject("t1"),
    ):
        with pytest.raises(
            AgentBusy, match=r"^a run is .* steer\(\) or follow_up\(\), .* for its end$"
        ):
            await refused
    with pytest.raises(AgentBusy):
        agent.append_message(UserMessage.of("too"))
    with pytest.raises(AgentBusy):
        agent.clear_messages()

    held.gate("t1").open()
    assert (await running).stop_reason == "end_turn"
    check_run(events)


# Steering and follow-ups.


async def test_steering_during_the_first_tool_skips_the_remaining_calls() -> None:
    """S0-40, S0-45, S0-46, S0-59, S3-19: one call ok, two skipped, and the message comes next."""
    held = Held()
    asks = calls(*(tool_use("held", {}, f"t{n}") for n in (1, 2, 3)))
    options = LoopConfig(tool_execution="sequential")
    agent, model, events = scripted_agent(
        asks, says("ok"), tools=[tool("held", held)], options=options
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.queue_message(UserMessage.of("stop that"))
    held.gate("t1").open()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert held.started == ["t1"]
    found = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    assert [(m.tool_call_id, m.is_error) for m in found] == [
        ("t1", False),
        ("t2", True),
        ("t3", True),
    ]
    assert "Skipped" in found[1].text
    assert users(model.requests[-1].messages) == ["go", "stop that"]
    assert model.sent()[-1]["content"][-1] == text_block("stop that")  # type: ignore[index]  # a list
    check_run(events)


async def test_steering_skips_parallel_calls_that_have_not_started() -> None:
    """C3, S0-22: calls that wait for a free slot have not started."""
    held = Held()
    asks = calls(*(tool_use("held", {}, f"t{n}") for n in (1, 2, 3)))
    agent, model, events = scripted_agent(
        asks, says("ok"), tools=[tool("held", held)], options=LoopConfig(concurrency=1)
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("stop that"))
    held.gate("t1").open()
    await asyncio.wait_for(running, LIMIT_S)

    assert held.started == ["t1"]
    assert users(model.requests[-1].messages)[-1] == "stop that"
    check_run(events)


@each_row("from_thread", [False, True])
async def test_steering_with_cancel_running_cancels_running_calls(from_thread: bool) -> None:
    """C3, S0-59: the message may come from another thread, while every call waits."""
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), tool_use("held", {}, "t2"))
    options = LoopConfig(steering="cancel_running")
    agent, model, events = scripted_agent(
        asks, says("ok"), tools=[tool("held", held)], options=options
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t2").reached.wait(), LIMIT_S)

    if from_thread:
        thread = threading.Thread(target=agent.steer, args=[UserMessage.of("stop that")])
        thread.start()
        thread.join()
    else:
        agent.steer(UserMessage.of("stop that"))
    result = await asyncio.wait_for(running, LIMIT_S)

    assert held.cancelled == ["t1", "t2"]
    assert all("user sent a message" in text for text in texts(result.messages).values())
    assert users(model.requests[-1].messages)[-1] == "stop that"
    check_run(events)


@each_row("steered", [False, True])
async def test_result_of_a_stopped_call_says_why_and_whether_it_had_started(steered: bool) -> None:
    """S0-46, S0-64, C3: the model must know which effects are possible and which are not."""
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), tool_use("held", {}, "t2"))
    options = LoopConfig(steering="cancel_running", concurrency=1)
    agent, _, events = scripted_agent(asks, says("ok"), tools=[tool("held", held)], options=options)
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    if steered:
        agent.steer(UserMessage.of("stop that"))
    else:
        agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    check_run(events)
    assert held.started == ["t1"]
    begun, unstarted = texts(result.messages).values()
    if steered:
        assert begun.startswith("Stopped: the user sent a message")
        assert unstarted.startswith("Skipped: the user sent a message")
    else:
        assert begun.startswith("Stopped with the whole run")
        assert unstarted.startswith("Not run: the run was stopped")


async def test_steering_with_after_batch_skips_no_call() -> None:
    """C3: the message is in the next request."""
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), tool_use("held", {}, "t2"))
    options = LoopConfig(steering="after_batch", concurrency=1)
    agent, model, _ = scripted_agent(asks, says("ok"), tools=[tool("held", held)], options=options)
    held.gate("t2").open()
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("by the way"))
    held.gate("t1").open()
    await asyncio.wait_for(running, LIMIT_S)

    assert held.ended == ["t1", "t2"]
    assert users(model.requests[-1].messages)[-1] == "by the way"


async def test_steering_during_the_final_answer_adds_a_turn() -> None:
    """S0-40, S0-48: the message is not lost, is announced in that turn, and is sent once."""
    first, second = says("done"), says("also done")
    agent, model, events = scripted_agent(first, second)
    stop = agent.subscribe(
        lambda e: agent.steer(UserMessage.of("and this")) if e.type == "message_update" else None
    )
    agent.subscribe(lambda e: stop() if e.type == "message_update" else None)

    await agent.prompt("go")

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("go"),
        *answer(first),
        "turn_end",
        "turn_start",
        *said("and this"),
        *answer(second),
        "turn_end",
        "agent_end",
    ]
    assert users(model.requests[1].messages) == ["go", "and this"]


@each_row(("mode", "turns"), [("all", 2), ("one_at_a_time", 4)])
@each_row("queue", ["steering", "follow-ups", "alias"])
async def test_queue_delivers_messages_in_order_all_at_once_or_one_per_turn(
    queue: str, mode: Mode, turns: int
) -> None:
    """S0-36, S0-57, S3-11: the mode of the queue decides."""
    held = Held()
    asks = calls(*(tool_use("held", {}, f"t{n}") for n in range(1, 6)))
    agent, model, _ = scripted_agent(
        asks, *[says("ok")] * 4, tools=[tool("held", held)], options=LoopConfig(concurrency=1)
    )
    for n in range(2, 6):
        held.gate(f"t{n}").open()
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)
    {
        "steering": agent.set_steering_mode,
        "follow-ups": agent.set_follow_up_mode,
        "alias": agent.set_queue_mode,
    }[queue](mode)

    for text in ("a", "b", "c"):
        (agent.follow_up if queue == "follow-ups" else agent.steer)(UserMessage.of(text))
    held.gate("t1").open()
    await asyncio.wait_for(running, LIMIT_S)

    assert users(model.requests[-1].messages) == ["go", "a", "b", "c"]
    assert len(model.requests) == turns + (queue == "follow-ups")
    assert not agent.has_queued_messages()


async def test_follow_up_is_delivered_when_the_agent_would_stop() -> None:
    """S0-23, S0-50, S0-60: it is delivered after the last tool turn, before agent_end."""
    agent, model, events = scripted_agent(
        calls(tool_use("look", {}, "t1")),
        calls(tool_use("look", {}, "t2")),
        says("done"),
        says("more"),
        tools=[LOOK],
    )
    agent.follow_up(UserMessage.of("then this"))

    await agent.prompt("go")

    sent = [users(request.messages) for request in model.requests]
    assert sent == [["go"], ["go"], ["go"], ["go", "then this"]]
    check_run(events)


async def test_cleared_queues_return_their_messages_and_deliver_none() -> None:
    """S0-61: `has_queued_messages` tells whether one is left."""
    agent, model, _ = scripted_agent(says("ok"))
    steering, follow_up = UserMessage.of("s"), UserMessage.of("f")

    agent.steer(steering)
    assert agent.has_queued_messages()
    assert agent.clear_steering_queue() == [steering]
    agent.follow_up(follow_up)
    assert agent.has_queued_messages()
    assert agent.clear_follow_up_queue() == [follow_up]
    agent.steer(steering)
    agent.follow_up(follow_up)
    assert agent.clear_all_queues() == [steering, follow_up]
    assert not agent.has_queued_messages()

    await agent.prompt("go")
    assert users(model.requests[-1].messages) == ["go"]


async def test_callers_message_source_may_return_none_or_an_empty_list() -> None:
    """S0-22, S0-23: either means no message; follow-ups are requested at the end only."""
    polls: list[str] = []

    def steering() -> None:
        polls.append("steering")

    async def follow_ups() -> list[UserMessage]:
        polls.append("follow-ups")
        return []

    options = LoopConfig(get_steering_messages=steering, get_follow_up_messages=follow_ups)
    agent, _, _ = scripted_agent(calls(tool_use("look")), says("ok"), tools=[LOOK], options=options)

    await agent.prompt("go")

    assert polls == ["steering", "steering", "steering", "follow-ups"]


@each_row("ending", ["limit", "abort"])
async def test_undelivered_steering_message_is_queued_again_when_the_run_ends(ending: str) -> None:
    """S0-42, S0-48: once, if the run that skipped a batch for the message ends first."""
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), tool_use("held", {}, "t2"))
    options = LoopConfig(concurrency=1, max_rounds=1)
    agent, model, _ = scripted_agent(
        asks, says("ok"), says("ok"), tools=[tool("held", held)], options=options
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)
    agent.steer(UserMessage.of("keep me"))
    if ending == "abort":
        agent.subscribe(lambda e: agent.abort() if e.type == "turn_end" else None)
    held.gate("t1").open()
    await asyncio.wait_for(running, LIMIT_S)

    delivered = users(model.requests[-1].messages)[1:]
    assert delivered + [message.text for message in agent.clear_all_queues()] == ["keep me"]
    assert ending == "limit" or delivered == []
    await agent.prompt("more")
    assert not agent.has_queued_messages()


# Continue.


def test_the_user_of_the_options_is_that_of_the_conversation() -> None:
    """S2-50: also of a history that was handed over."""
    history: list[Message] = [UserMessage.of("old"), AssistantMessage((text_block("old"),))]
    state = AgentState(messages=history)

    agent = Agent(LoopConfig(user_id="ada"), initial_state=state)

    assert agent.conversation.user_id == "ada"
    assert {prompt.user_id for prompt in agent.conversation.prompts} == {"ada"}


async def test_a_conversation_that_was_left_running_is_closed_and_its_calls_are_not_run() -> None:
    """S0-04: whoever brought it may have been killed; the next prompt is one of its own."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("old"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    held = Held()
    config = LoopConfig(stream_fn=ScriptedModel(says("ok")), tools=(tool("look", held),))

    agent = Agent(config, conversation=conversation)
    assert list(agent.conversation.open_calls()) == []
    await agent.prompt("new")

    assert [prompt.state for prompt in conversation.prompts] == ["completed", "completed"]


async def test_continue_after_a_failed_call_adds_no_message() -> None:
    """S0-38, S0-63, S3-06: the history ends with the user's message."""
    reply = says("ok")
    agent, _, events = scripted_agent(ModelError("gone"), reply)
    await agent.prompt("go")
    events.clear()

    await agent.continue_()

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *answer(reply),
        "turn_end",
        "agent_end",
    ]


async def test_continue_resumes_from_tool_results() -> None:
    """S0-63, S3-07: a run stopped by the limit of rounds ends with tool results."""
    agent, model, _ = scripted_agent(
        calls(tool_use("look")), says("ok"), tools=[LOOK], options=LoopConfig(max_rounds=1)
    )
    await agent.prompt("go")

    result = await agent.continue_()

    assert result.stop_reason == "end_turn"
    assert users(model.requests[-1].messages) == ["go"]


async def test_continue_delivers_steering_before_it_asks_the_model_again() -> None:
    """C8: a message queued when a limit ended the run may be meant to stop the work."""
    agent, model, events = scripted_agent(
        calls(tool_use("look")), says("ok"), tools=[LOOK], options=LoopConfig(max_rounds=1)
    )
    await agent.prompt("go")
    agent.steer(UserMessage.of("no, stop"))
    events.clear()

    await agent.continue_()

    assert users(model.requests[1].messages) == ["go", "no, stop"]
    check_run(events)


async def test_continue_delivers_queued_messages_or_fails_without_any() -> None:
    """S0-63, S3-07, C8: an answer alone cannot be continued; the error is typed."""
    agent, model, _ = scripted_agent(*[says(text) for text in ("ok", "steered", "then", "last")])
    with pytest.raises(NothingToContinue):
        await agent.continue_()
    await agent.prompt("go")
    with pytest.raises(NothingToContinue):
        await agent.continue_()

    agent.follow_up(UserMessage.of("later"))
    agent.steer(UserMessage.of("first"))
    await agent.continue_()

    assert users(model.requests[-1].messages) == ["go", "first", "later"]
    agent.follow_up(UserMessage.of("alone"))
    await agent.continue_()
    assert users(model.requests[-1].messages) == ["go", "first", "later", "alone"]


# Abort, reset, idle.


async def test_abort_closes_the_stream_and_keeps_the_text_of_the_reply() -> None:
    """S0-64, S0-66, S3-17: the model reads what the user had read; the next prompt works."""
    gate = Gate()
    agent, model, events = scripted_agent([*stream_of(says("Hello world"))[:2], gate], says("ok"))
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert (result.stop_reason, agent.state.error, model.closed) == ("aborted", None, 1)
    assert result.final_message is not None
    assert (result.final_message.stop_reason, result.final_message.error) == ("aborted", None)
    check_run(events)
    await agent.prompt("again")
    assert "'text': 'Hello'" in str(model.sent())
    assert "interrupted" in str(model.sent())


async def test_hooks_and_requests_of_a_run_get_its_cancel_token() -> None:
    """S0-66: a transform that works in a thread polls the token of the run that waits for it."""
    given: list[CancelToken] = []

    def transform(messages: Sequence[Message], cancel: CancelToken) -> Sequence[Message]:
        given.append(cancel)
        if len(given) == 1:
            agent.abort()
            assert cancel.cancelled
        return messages

    options = LoopConfig(transform_context=transform)
    agent, model, _ = scripted_agent(says("ok"), says("ok"), options=options)

    assert (await agent.prompt("go")).stop_reason == "aborted"
    assert model.requests == []
    await agent.prompt("again")
    assert given[1:] == [model.requests[-1].cancel]


async def test_each_run_has_a_new_cancel_token_shared_by_model_and_tools() -> None:
    """S0-18, S0-66: one abort reaches all of them; the next run does not start cancelled."""
    seen: list[tuple[CancelToken, bool]] = []
    both = asyncio.Barrier(3)

    async def keep(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        try:
            await both.wait()
            await cancel.wait()
            await asyncio.Event().wait()
        finally:
            seen.append((cancel, cancel.cancelled))
        return "never"

    async def look(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        seen.append((cancel, cancel.cancelled))
        return "ok"

    agent, model, _ = scripted_agent(
        calls(tool_use("keep", {}, "t1"), tool_use("keep", {}, "t2")),
        calls(tool_use("look", {}, "t3")),
        says("ok"),
        tools=[tool("keep", keep), tool("look", look)],
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(both.wait(), LIMIT_S)
    agent.abort()
    stopped = await asyncio.wait_for(running, LIMIT_S)
    again = await agent.prompt("again")

    first, second = model.requests[0].cancel, model.requests[1].cancel
    assert first is not None and second is not None and first is not second
    assert seen == [(first, True), (first, True), (second, False)]
    assert (stopped.stop_reason, again.stop_reason) == ("aborted", "end_turn")
    assert (first.cancelled, second.cancelled) == (True, False)


async def test_an_abort_while_idle_does_nothing() -> None:
    """S0-64: the next run is not affected."""
    agent, _, _ = scripted_agent(says("ok"))

    agent.abort()

    assert (await agent.prompt("go")).stop_reason == "end_turn"


async def test_wait_for_idle_returns_after_all_listeners_got_agent_end() -> None:
    """S0-67, S3-17: it returns at once if the agent is idle."""
    gate = Gate()
    agent, _, events = scripted_agent([gate, *stream_of(says("ok"))])
    await asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)
    waiting = asyncio.ensure_future(agent.wait_for_idle())
    await asyncio.sleep(0)
    assert not waiting.done()

    gate.open()
    await asyncio.wait_for(waiting, LIMIT_S)

    assert events[-1].type == "agent_end"
    await running


async def test_reset_clears_messages_queues_and_error_but_keeps_the_setup() -> None:
    """S0-65, S3-16, C27: `all=True` also clears the prompt, the tools and the model."""
    agent, _, _ = scripted_agent(says("ok"), tools=[LOOK], options=LoopConfig(system_prompt="Hi"))
    await agent.prompt("go")
    agent.steer(UserMessage.of("x"))
    agent.follow_up(UserMessage.of("y"))

    agent.reset()

    assert (agent.state.messages, agent.has_queued_messages()) == ([], False)
    state = agent.state
    assert (state.system_prompt, state.tools, state.model) == ("Hi", [LOOK], MODEL)
    agent.reset(all=True)
    assert agent.state == AgentState()


# Listeners.


async def test_unsubscribe_function_ends_only_its_own_subscription() -> None:
    """S0-55, S3-18: a listener subscribes twice, and one function is called twice."""
    agent, _, _ = scripted_agent(says("one"), says("two"), says("three"))
    heard: list[str] = []

    def listen(event: Event) -> None:
        if event.type == "agent_end":
            heard.append("end")

    first, second = agent.subscribe(listen), agent.subscribe(listen)
    await agent.prompt("a")
    assert len(heard) == 2

    first()
    first()
    await agent.prompt("b")
    assert len(heard) == 3
    second()
    await agent.prompt("c")
    assert len(heard) == 3


async def test_unsubscribing_a_listener_ends_its_latest_subscription() -> None:
    """S0-55: callers need not keep the function; an unknown listener is no error."""
    agent, _, _ = scripted_agent(says("one"), says("two"))
    heard: list[str] = []

    def one(event: Event) -> None:
        heard.append("one") if event.type == "agent_end" else None

    def two(event: Event) -> None:
        heard.append("two") if event.type == "agent_end" else None

    for listener in (one, two, one):
        agent.subscribe(listener)
    agent.unsubscribe(one)
    agent.unsubscribe(print)
    await agent.prompt("a")
    assert heard == ["one", "two"]

    agent.unsubscribe(one)
    agent.unsubscribe(one)
    await agent.prompt("b")
    assert heard == ["one", "two", "two"]


async def test_custom_message_can_be_a_prompt() -> None:
    """S3-02, S3-15: recorded and published unchanged; the converter decides what is sent."""

    def convert(messages: Sequence[Message]) -> list[Message]:
        return [
            UserMessage.of(f"news: {message.data}")
            if isinstance(message, CustomMessage)
            else message
            for message in messages
        ]

    agent, model, events = scripted_agent(says("ok"), options=LoopConfig(convert_to_llm=convert))

    result = await agent.prompt(CustomMessage("mail", "lunch?"))

    assert [message.role for message in result.messages] == ["mail", "assistant"]
    assert agent.state.messages == list(result.messages)
    assert users(model.requests[0].messages)[-1] == "news: lunch?"
    assert outline(events)[2:4] == ["message_start mail", "message_end mail"]


@each_row("message", [AssistantMessage(()), ToolResultMessage("t1", "look", ())])
async def test_assistant_message_or_tool_result_as_a_prompt_is_an_error(message: Message) -> None:
    """S3-15: the error names the remedy, and no event is published."""
    agent, _, events = scripted_agent()

    with pytest.raises(ConversationError, match=rf"{message.role}: append_message\(\)"):
        await agent.prompt(message)

    assert (events, agent.state.messages) == ([], [])


async def test_listeners_are_called_in_order_and_may_unsubscribe_at_any_time() -> None:
    """S0-55, S3-18: unsubscribing twice is harmless."""
    heard: list[str] = []
    agent, _, _ = scripted_agent(says("ok"))

    def first(event: Event) -> None:
        heard.append("first")
        leave()
        leave()

    leave = agent.subscribe(first)
    agent.subscribe(lambda event: heard.append("second"))

    await agent.prompt("go")

    leave()
    assert heard[:3] == ["first", "second", "second"]
    assert heard.count("first") == 1


async def test_two_listeners_receive_the_same_events() -> None:
    """S4-25: a screen and a stream of JSON can be attached to one run."""
    agent, _, events = scripted_agent(calls(tool_use("look")), says("ok"), tools=[LOOK])
    _, others = listening(agent)

    await agent.prompt("go")

    assert len(events) > 10
    assert events == others


async def test_exception_in_a_listener_does_not_disturb_the_run(
    logged: list[dict[str, object]],
) -> None:
    """S0-55: the run and the other listeners continue."""
    model = ScriptedModel(says("ok"))
    agent = Agent(config(model))

    def broken(event: Event) -> None:
        raise RuntimeError("a renderer's bug")

    agent.subscribe(broken)
    _, events = listening(agent)

    result = await agent.prompt("go")

    assert result.stop_reason == "end_turn"
    check_run(events)
    assert {entry["event"] for entry in logged} == {"listener failed"}


# Setters and messages.


async def test_settings_changed_during_a_tool_apply_to_the_next_request() -> None:
    """S0-57, S3-16: change the system prompt, the model, the thinking level and the tools."""
    other = Model("other-model", api="scripted")
    level: ThinkingLevel = "high"
    agent, model, _ = scripted_agent(calls(tool_use("look")), says("ok"), tools=[LOOK])

    def change(event: Event) -> None:
        if event.type == "tool_execution_start":
            agent.set_system_prompt("New.")
            agent.set_model(other)
            agent.set_thinking_level(level)
            agent.set_tools([])

    agent.subscribe(change)
    result = await agent.prompt("go")

    before, after = model.requests
    assert (before.system, before.model, before.tools) == ((), MODEL, (LOOK.spec,))
    assert (after.system, after.model, after.tools) == (("New.",), other, ())
    assert after.thinking_level == "high"
    assert texts(result.messages) == {"t1": "a tree"}


@each_row("given", [None, "mine"])
async def test_requests_carry_the_session_id(given: str | None) -> None:
    """S0-27: the id given, else the conversation's."""
    agent, model, _ = scripted_agent(
        calls(tool_use("look")), says("ok"), tools=[LOOK], options=LoopConfig(session_id=given)
    )

    await agent.prompt("go")

    assert [each.session_id for each in model.requests] == [given or agent.conversation.id] * 2


@each_row("level", [None, "off", "minimal", "low", "medium", "high", "xhigh"])
async def test_thinking_level_is_passed_to_the_request(level: ThinkingLevel | None) -> None:
    """S0-28, S3-09: all six, and None; their mapping is up to the provider."""
    agent, model, _ = scripted_agent(says("ok"))

    agent.set_thinking_level(level)
    await agent.prompt("go")

    assert model.requests[0].thinking_level == level


async def test_messages_can_be_replaced_appended_and_cleared() -> None:
    """S0-58, S3-16: the next request holds them, and listeners get the new conversation."""
    agent, model, events = scripted_agent(says("ok"), says("ok"))

    agent.replace_messages([UserMessage.of("a"), AssistantMessage((text_block("b"),))])
    agent.append_message(UserMessage.of("c"))
    await agent.prompt("d")
    assert users(model.requests[-1].messages) == ["a", "c", "d"]
    agent.clear_messages()
    await agent.prompt("e")

    assert users(model.requests[-1].messages) == ["e"]
    started = [e.prompt.input for e in events if isinstance(e, PromptStarted)]
    assert [text_of(each.content) for each in started if each] == ["c", "d", "e"]


async def test_custom_messages_stay_in_the_state_and_are_not_sent() -> None:
    """S3-02, S3-03, S3-20, C9: the default converter leaves them out of the request."""
    note = CustomMessage("notification", {"text": "mail"})
    agent, model, _ = scripted_agent(says("ok"))

    agent.append_message(note)
    await agent.prompt("go")

    kept = [m for m in agent.state.messages if isinstance(m, CustomMessage)]
    assert [(m.role, m.data) for m in kept] == [("notification", {"text": "mail"})]
    assert "mail" not in str(model.sent())


async def test_message_timestamps_are_integers_and_never_decrease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3-25: events, result and state agree, whatever the clock and the tools do."""
    times = [int(1e6) - 7 * n for n in range(400)]  # a clock that only steps back
    monkeypatch.setattr(record, "now_ms", lambda: times.pop(0) if times else 0)
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), tool_use("look", {}, "t2"))
    agent, model, events = scripted_agent(
        asks, says("one"), says("two"), tools=[LOOK, tool("held", held)]
    )
    agent.subscribe(lambda e: held.gate("t1").open() if e.type == "tool_execution_end" else None)
    queued = UserMessage.of("and?")
    agent.follow_up(queued)
    result = await agent.prompt(UserMessage((text_block("go"),), timestamp=5))

    stamps = [message.timestamp for message in agent.state.messages]

    assert stamps == sorted(stamps)
    assert all(type(stamp) is int and stamp >= int(1e6) for stamp in stamps)
    assert list(result.messages) == agent.state.messages
    ends = [event.message for event in events if isinstance(event, MessageEnd)]
    assert ends == agent.state.messages
    starts = [event.message.timestamp for event in events if isinstance(event, MessageStart)]
    assert starts == sorted(starts)
    assert "timestamp" not in str(model.sent())


async def test_a_triggered_run_sends_a_valid_request() -> None:
    """S2-02, C23: a trigger has no input, but the request still begins with a user message."""
    agent, model, _ = scripted_agent(says("ok"))

    await agent.trigger(visible=False)

    assert model.sent()[0]["role"] == "user"
    assert users(agent.state.messages) == []
    assert not agent.conversation.prompts[0].visible


async def test_transcript_shows_a_triggered_run_unless_it_is_to_be_hidden() -> None:
    """S2-02: its reply can be branched from; a hidden prompt offers nothing to choose."""
    agent, _, _ = scripted_agent(says("shown"), says("hidden"))

    await agent.trigger()
    await agent.trigger(visible=False)

    points = branch_points(agent.conversation.prompts)
    assert [point.answered for point in points] == ["shown"]


async def test_unexpected_exception_in_a_hook_is_raised_after_agent_end() -> None:
    """C22: only programming errors raise; the agent can be used again."""

    bugs = [KeyError("a bug")]

    def buggy() -> None:
        if bugs:
            raise bugs.pop()

    asks = calls(tool_use("look", {}, "t1"), tool_use("look", {}, "t2"))
    options = LoopConfig(get_steering_messages=buggy)
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK], options=options)

    with pytest.raises(KeyError):
        await agent.prompt("go")

    check_run(events)
    assert ending_of(events) == ("error", "KeyError('a bug')")
    assert (await agent.prompt("again")).stop_reason == "end_turn"


async def test_agent_cli_error_from_a_hook_becomes_the_error_of_the_run() -> None:
    """C22: the error ends the run between two tools, and is not raised."""

    def refuses() -> None:
        raise ConversationError("the queue is gone")

    options = LoopConfig(get_steering_messages=refuses)
    agent, _, events = scripted_agent(calls(tool_use("look")), tools=[LOOK], options=options)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.error) == ("error", "the queue is gone")
    check_run(events)


async def test_cancelling_the_caller_ends_the_run_with_a_complete_history() -> None:
    """S0-64: the running tool is cancelled, and the next prompt works."""
    held = Held()
    agent, _, events = scripted_agent(
        calls(tool_use("held")), says("ok"), tools=[tool("held", held)]
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    check_run(events)
    assert held.cancelled == ["t1"]
    await agent.prompt("again")


@each_row("text", ["", " \n"])
async def test_an_empty_prompt_is_refused(text: str) -> None:
    """S1-02, S1-31: the API refuses blank text, so nothing would be left to send."""
    agent, model, _ = scripted_agent(says("ok"))

    with pytest.raises(ConversationError):
        await agent.prompt(text)

    assert model.requests == []


async def test_run_ends_as_aborted_when_its_caller_is_cancelled() -> None:
    """S0-64: nothing failed, so there is no error; the model reads of the interruption."""
    gate = Gate()
    agent, _, events = scripted_agent([*stream_of(says("Hello world"))[:2], gate])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (ending_of(events), agent.state.error) == (("aborted", None), None)
    assert not agent.state.is_streaming
    assert "interrupted" in str(agent.conversation.context())
