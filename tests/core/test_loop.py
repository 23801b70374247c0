"""The loop's events and requests: order, stop reasons, hooks, limits."""

import asyncio
import itertools
import pickle
import typing
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import (
    AgentCliError,
    ContextOverflow,
    LimitReached,
    ModelError,
    NoStreamFunction,
    ProviderNotFound,
)
from agent_cli.contracts.events import (
    AgentEnd,
    AppEvent,
    CoreEvent,
    Event,
    MessageEnd,
    MessageUpdate,
    Retry,
    StateChanged,
    ToolCallsAnnounced,
    ToolExecutionStart,
    TurnEnd,
    UsageChanged,
)
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import (
    BlockEnd,
    ModelRequest,
    Provider,
    ProviderRegistry,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Json, Usage, text_block
from agent_cli.contracts.tooling import Approval, ToolContext
from agent_cli.core.agent import Agent
from agent_cli.core.event_stream import AgentContext, agent_loop
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.turn import Turn
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
    does,
    listening,
    notices,
    outline,
    partials,
    returns,
    said,
    says,
    scripted_agent,
    stream_of,
    texts,
    tool,
    tool_use,
    users,
    words,
)
from tests.fakes import results as result_outline
from tests.tables import each_row


def around(id: str) -> list[str]:
    return [f"tool_execution_start {id}", f"tool_execution_end {id}"]


# Order of events.


async def test_answer_without_tools_has_exactly_the_documented_events() -> None:
    """S3-04, S0-37, S0-39, S0-41, S0-51, S0-70, C5: in the order of document S3."""
    reply = says("Hi there")
    agent, _, events = scripted_agent(reply)

    await agent.prompt("Hello")

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("Hello"),
        *answer(reply),
        "turn_end",
        "agent_end",
    ]
    assert events[-1].type == "agent_end"


async def test_run_with_one_tool_has_exactly_the_documented_events() -> None:
    """S3-05, S0-44, S0-47, S1-11: tool events, then the result; the next turn adds no message."""
    asks, says_so = calls(tool_use("look"), text="Let me see."), says("A tree.")
    agent, model, events = scripted_agent(asks, says_so, tools=[LOOK])

    await agent.prompt("What is there?")

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("What is there?"),
        *answer(asks),
        *around("t1"),
        *result_outline("t1"),
        "turn_end",
        "turn_start",
        *answer(says_so),
        "turn_end",
        "agent_end",
    ]
    assert len(model.requests) == 2


async def test_parallel_tools_start_and_report_in_call_order() -> None:
    """S0-47, S1-08, S4-19: starts and results in call order, whichever finishes first."""
    held = Held()
    asks, end = calls(tool_use("held", {}, "t1"), tool_use("look", {}, "t2")), says("ok")
    agent, _, events = scripted_agent(asks, end, tools=[LOOK, tool("held", held)])
    agent.subscribe(lambda e: held.gate("t1").open() if e.type == "tool_execution_end" else None)

    await agent.prompt("go")

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("go"),
        *answer(asks),
        "tool_execution_start t1",
        "tool_execution_start t2",
        "tool_execution_end t2",
        "tool_execution_end t1",
        *result_outline("t1", "t2"),
        "turn_end",
        "turn_start",
        *answer(end),
        "turn_end",
        "agent_end",
    ]


async def test_sequential_tools_never_overlap() -> None:
    """S0-44: no tool starts before the end of the previous one, which is slow."""

    async def work(on_update: ToolContext) -> str:
        await asyncio.sleep(0)
        return "done"

    asks = calls(tool_use("work", {}, "t1"), tool_use("work", {}, "t2"))
    options = LoopConfig(tool_execution="sequential")
    tools = [tool("work", does(work))]
    agent, _, events = scripted_agent(asks, says("ok"), tools=tools, options=options)

    await agent.prompt("go")

    batch = [name for name in outline(events) if name.startswith("tool_execution")]
    assert batch == [*around("t1"), *around("t2")]


def test_there_are_exactly_ten_core_events() -> None:
    """S0-08, S3-08: the ten names of the documents; the rest is under `app.`."""
    assert {kind.type for kind in typing.get_args(CoreEvent)} == {
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
    }
    assert all(kind.type.startswith("app.") for kind in typing.get_args(AppEvent))


# Payloads.


async def test_agent_end_carries_only_the_messages_of_the_run() -> None:
    """S0-09: the conversation has four earlier messages, and this run adds two."""
    agent, _, events = scripted_agent(says("one"), says("two"), says("three"))
    await agent.prompt("1")
    await agent.prompt("2")
    events.clear()

    await agent.prompt("3")

    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert [(message.role, getattr(message, "text", "")) for message in end.messages] == [
        ("user", "3"),
        ("assistant", "three"),
    ]


def turns_of(events: Sequence[Event]) -> list[tuple[str | None, list[str]]]:
    """Return the reply's text and the ids of the results of each turn that ended."""
    return [
        (
            event.message.text if event.message else None,
            [each.tool_call_id for each in event.tool_results],
        )
        for event in events
        if isinstance(event, TurnEnd)
    ]


async def test_turn_end_carries_the_reply_and_a_result_for_each_call() -> None:
    """S0-10: no results after a plain answer, otherwise the announced ones."""
    asks = calls(tool_use("look", {}, "t1"), tool_use("missing", {}, "t2"), text="I look.")
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK])

    result = await agent.prompt("go")

    first, second = (event for event in events if isinstance(event, TurnEnd))
    assert first.tool_results == result.messages[2:4]
    assert (first.message, second.message) == (result.messages[1], result.messages[4])
    assert second.tool_results == ()
    assert turns_of(events) == [("I look.", ["t1", "t2"]), ("ok", [])]


async def test_turn_end_of_an_aborted_batch_carries_its_results() -> None:
    """S0-10, G4: they were announced, so they are part of the turn's end, too."""
    held = Held()
    asks = calls(tool_use("look", {}, "t1"), tool_use("held", {}, "t2"), text="I look.")
    agent, _, events = scripted_agent(asks, tools=[LOOK, tool("held", held)])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t2").reached.wait(), LIMIT_S)

    agent.abort()
    await asyncio.wait_for(running, LIMIT_S)

    assert turns_of(events) == [("I look.", ["t1", "t2"])]


async def test_turn_end_of_a_resumed_batch_carries_all_results_of_the_reply() -> None:
    """S0-10: none while a decision is pending; then also those of calls that ran before it."""
    danger = replace(tool("danger", returns("boom")), require_approval=Approval(required=True))
    asks = calls(tool_use("look", {}, "t1"), tool_use("danger", {}, "t2"), text="I look.")
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK, danger])
    await agent.prompt("go")
    assert turns_of(events) == [("I look.", [])]
    events.clear()

    await agent.approve("t2")

    assert turns_of(events) == [(None, ["t1", "t2"]), ("ok", [])]


async def test_usage_event_carries_usage_of_the_reply_and_the_total() -> None:
    """Cost displays and cost limits rely on this event."""
    first = replace(calls(tool_use("look")), usage=Usage(100, 20))
    agent, _, events = scripted_agent(first, says("ok", usage=Usage(7, 3)), tools=[LOOK])

    await agent.prompt("go")

    assert [event for event in events if isinstance(event, UsageChanged)] == [
        UsageChanged(Usage(100, 20), Usage(100, 20)),
        UsageChanged(Usage(7, 3), Usage(107, 23)),
    ]


async def test_each_message_has_one_start_and_one_end() -> None:
    """S0-11: user, assistant and tool result alike."""
    agent, _, events = scripted_agent(calls(tool_use("look")), says("ok"), tools=[LOOK])

    await agent.prompt("go")

    roles = [event.message.role for event in events if isinstance(event, MessageEnd)]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    check_run(events)


async def test_message_updates_grow_to_the_full_text() -> None:
    """S0-12, S3-08: joined deltas are the text; the raw event is included."""
    text = "One  two\nthree. "
    agent, _, events = scripted_agent(says(text, thinking="Hm, well."))

    await agent.prompt("go")

    seen = partials(events)
    assert all(after.startswith(before) for before, after in itertools.pairwise(seen))
    deltas = [
        event.event.delta
        for event in events
        if isinstance(event, MessageUpdate) and isinstance(event.event, TextDelta)
    ]
    assert "".join(deltas) == seen[-1] == text
    last = [event for event in events if isinstance(event, MessageUpdate)][-1].message
    assert last.thinking == "Hm, well."


async def test_message_updates_can_be_pickled() -> None:
    """A queue between processes takes events; what builds the message stays with the run."""
    agent, _, events = scripted_agent(says("ok"))
    await agent.prompt("go")
    updates = [event for event in events if isinstance(event, MessageUpdate)]

    again = pickle.loads(pickle.dumps(updates))

    assert updates
    assert [(each.message, each.event) for each in again] == [
        (each.message, each.event) for each in updates
    ]


async def test_message_updates_include_tool_calls_that_are_still_streaming() -> None:
    """S0-12: a call has its name from the first delta on, and its input once that is complete."""
    asks = calls(tool_use("look", {"at": "x"}, "t1"), tool_use("look", {}, "t2"), text="I look.")
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK])

    await agent.prompt("go")

    seen = [
        (update.event.type, [call["input"] for call in update.message.tool_calls])
        for update in events
        if isinstance(update, MessageUpdate)
    ]
    at = {"at": "x"}
    assert seen[:9] == [
        ("text_delta", []),
        ("text_delta", []),
        ("block_end", []),
        ("toolcall_start", [{}]),
        ("toolcall_delta", [{}]),
        ("block_end", [at]),
        ("toolcall_start", [at, {}]),
        ("toolcall_delta", [at, {}]),
        ("block_end", [at, {}]),
    ]
    last = [update for update in events if isinstance(update, MessageUpdate)][8]
    assert last.message.content == asks.content


async def test_tool_execution_start_carries_id_name_and_arguments() -> None:
    """S0-13: the input is as the model wrote it."""
    given: dict[str, Json] = {"path": "a/b", "deep": {"list": [1, None, True]}}
    agent, _, events = scripted_agent(calls(tool_use("look", given)), says("ok"), tools=[LOOK])

    await agent.prompt("go")

    assert [event for event in events if isinstance(event, ToolExecutionStart)] == [
        ToolExecutionStart("t1", "look", given)
    ]


async def test_the_whole_batch_is_announced_before_the_first_call_starts() -> None:
    """S4-18: listeners get the list, then the executions."""
    asks = calls(tool_use("look", {"a": 1}, "t1"), tool_use("missing", {}, "t2"))
    agent, _, events = scripted_agent(asks, says("ok"), tools=[LOOK])

    await agent.prompt("go")

    [announced] = (event for event in events if isinstance(event, ToolCallsAnnounced))
    assert [(call.id, call.name, call.input) for call in announced.calls] == [
        ("t1", "look", {"a": 1}),
        ("t2", "missing", {}),
    ]
    assert "tool_execution_start" not in [e.type for e in events[: events.index(announced)]]


# Malformed streams.


async def test_a_stream_that_fails_before_its_first_event_leaves_no_open_message() -> None:
    """S0-41: no start without an end; S0-39: agent_start still came."""
    agent, _, events = scripted_agent(ModelError("no connection"))

    await agent.prompt("go")

    assert outline(events) == ["agent_start", "turn_start", *said("go"), "turn_end", "agent_end"]


async def test_prompt_aborted_at_the_first_event_is_recorded_and_not_sent() -> None:
    """S0-64: the model gets this prompt together with the next one."""
    agent, model, events = scripted_agent(says("ok"))
    stop = agent.subscribe(lambda event: agent.abort() if event.type == "agent_start" else None)

    result = await agent.prompt("go")
    stop()

    check_run(events)
    assert outline(events) == ["agent_start", "turn_start", *said("go"), "turn_end", "agent_end"]
    assert (result.stop_reason, users(result.messages), model.requests) == ("aborted", ["go"], [])
    await agent.prompt("again")
    assert model.sent() == [{"role": "user", "content": [text_block("go"), text_block("again")]}]


async def test_queued_message_is_recorded_once_when_its_run_is_aborted_at_start() -> None:
    """S0-43: the run that took the message records it, so it is not queued again."""
    agent, _, _ = scripted_agent(says("ok"), says("ok"))
    await agent.prompt("go")
    agent.follow_up(UserMessage.of("and then"))
    stop = agent.subscribe(lambda event: agent.abort() if event.type == "agent_start" else None)

    await agent.continue_()
    stop()

    assert not agent.has_queued_messages()
    await agent.prompt("again")
    assert users(agent.state.messages) == ["go", "and then", "again"]


async def test_message_start_follows_any_first_stream_event() -> None:
    """S0-41: whatever the type of the provider's first event."""
    reply = calls(tool_use("look"))
    stream: list[StreamEvent] = [
        ToolCallStart(0, "t1", "look"),
        BlockEnd(0, reply.content[0]),
        ReplyEnd(reply),
    ]
    agent, _, events = scripted_agent(stream, says("ok"), tools=[LOOK])

    await agent.prompt("go")

    check_run(events)
    assert outline(events)[4:8] == [
        "message_start assistant",
        "message_update",
        "message_update",
        "message_end assistant",
    ]


async def test_stream_without_an_end_event_is_an_error() -> None:
    """S0-42: an incomplete reply is reported as such and is not part of the history."""
    agent, model, events = scripted_agent([ReplyStart("m"), TextDelta(0, "half")], says("ok"))

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert result.final_message is not None
    assert (result.final_message.text, result.final_message.stop_reason) == ("half", "error")
    check_run(events)
    await agent.prompt("again")
    assert "half" not in str(model.sent())


async def test_message_of_a_broken_stream_carries_the_error() -> None:
    """S0-42: the partial reply ends with the stop reason and the text of the error."""
    agent, _, events = scripted_agent(
        [ReplyStart("m"), TextDelta(0, "half"), ModelError("cut off")]
    )

    result = await agent.prompt("go")

    check_run(events)
    message = result.final_message
    assert message is not None
    assert (message.text, message.stop_reason, message.error) == ("half", "error", "cut off")


@each_row("restarted", [True, False])
async def test_restarted_reply_ends_its_turn_and_begins_a_new_one(restarted: bool) -> None:
    """S1-22: the first attempt is void; the history holds the complete reply only."""
    whole = says("whole")
    stream = [
        ReplyStart("m"),
        TextDelta(0, "half "),
        Retrying(1, 5, 0.0, "overloaded", restarted=restarted),
        *stream_of(whole),
    ]
    agent, _, events = scripted_agent(stream)

    result = await agent.prompt("go")

    check_run(events)
    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("go"),
        "message_start assistant",
        "message_update",
        "message_end assistant",
        "turn_end",
        "turn_start",
        *answer(whole),
        "turn_end",
        "agent_end",
    ]
    assert result.iterations == 1
    assert Retry(1, 5, 0.0, "overloaded", restarted=True) in events
    context = agent.conversation.context()
    assert [m.text for m in context if isinstance(m, AssistantMessage)] == ["whole"]


async def test_retry_before_the_first_event_keeps_the_turn() -> None:
    """S1-22, S1-21: nothing was shown, so nothing is void; the retry is reported."""
    whole = says("whole")
    agent, _, events = scripted_agent([Retrying(1, 5, 2.0, "overloaded"), *stream_of(whole)])

    await agent.prompt("go")

    assert outline(events) == [
        "agent_start",
        "turn_start",
        *said("go"),
        *answer(whole),
        "turn_end",
        "agent_end",
    ]
    assert [event for event in events if isinstance(event, Retry)] == [
        Retry(1, 5, 2.0, "overloaded", restarted=False)
    ]


# Stop reasons.


@each_row("stop_reason", ["end_turn", "stop_sequence", "max_tokens", "refusal"])
async def test_reply_without_tool_calls_ends_the_run(stop_reason: str) -> None:
    """S0-43, S1-06: there is one request, and the run has the stop reason of the reply."""
    agent, model, _ = scripted_agent(says("That is all", stop_reason=stop_reason))

    result = await agent.prompt("go")

    assert (result.stop_reason, len(model.requests)) == (stop_reason, 1)


async def test_paused_reply_is_continued_with_another_request() -> None:
    """S0-43: pause_turn; the model is asked to go on, as no request may end with a reply's text."""
    agent, model, _ = scripted_agent(says("Searching \n", stop_reason="pause_turn"), says("Found"))

    result = await agent.prompt("go")

    assert result.iterations == 2
    assert model.sent()[-2:] == [
        {"role": "assistant", "content": [text_block("Searching \n")]},
        {"role": "user", "content": [text_block("(go on)")]},
    ]
    assert "(go on)" not in str(agent.state.messages)


async def test_parts_of_a_paused_reply_are_one_answer() -> None:
    """A part that broke off and was repeated is void; another prompt has its own answer."""
    pause = says("One ", stop_reason="pause_turn")
    broken = [*stream_of(says("half"))[:-1], ContextOverflow("too long")]
    agent, _, _ = scripted_agent(pause, broken, says("two ", stop_reason="pause_turn"), says("3"))

    result = await agent.prompt("go")

    assert result.final_message is not None
    assert (result.final_message.text, result.stop_reason) == ("One two 3", "end_turn")


async def test_resumed_run_returns_the_answer_with_its_part_from_before() -> None:
    """The limit of rounds ends a run between two parts; `continue_` asks for the next one."""
    script = (says("One ", stop_reason="pause_turn"), says("two"), says("new"))
    agent, model, _ = scripted_agent(*script, options=LoopConfig(max_rounds=1))

    first = await agent.prompt("go")
    rest = await agent.continue_()
    other = await agent.prompt("and?")

    finals = [each.final_message and each.final_message.text for each in (first, rest, other)]
    assert finals == ["One ", "One two", "new"]
    assert model.sent(1)[-1] == {"role": "user", "content": [text_block("(go on)")]}


async def test_paused_part_before_a_tool_call_is_not_part_of_the_answer() -> None:
    """What was said before a call ran is no part of the answer behind it."""
    agent, _, _ = scripted_agent(
        says("Wait. ", stop_reason="pause_turn"),
        calls(tool_use("look"), text="I look."),
        says("Found", stop_reason="pause_turn"),
        says(" it"),
        tools=[LOOK],
    )

    result = await agent.prompt("go")

    assert result.final_message is not None
    assert result.final_message.text == "Found it"


async def test_a_refused_exchange_is_not_sent_again() -> None:
    """S0-43: later requests have neither the refused prompt nor the refusal."""
    agent, model, _ = scripted_agent(says("I cannot", stop_reason="refusal"), says("ok"))
    await agent.prompt("something bad")

    await agent.prompt("something good")

    assert model.sent() == [{"role": "user", "content": [text_block("something good")]}]


@pytest.mark.parametrize("before", [[], [says("Hello ")]], ids=["first", "second"])
@each_row("queue", ["steer", "follow_up"])
async def test_a_message_queued_before_a_refusal_is_the_next_prompt(
    queue: str, before: list[Reply]
) -> None:
    """S0-43, S0-48: the refused prompt is left out; the message queued meanwhile is sent."""
    gate = Gate()
    refused = [gate, *stream_of(says("I cannot", stop_reason="refusal"))]
    agent, model, events = scripted_agent(*before, refused, says("ok"))
    for _ in before:
        await agent.prompt("hi")
    events.clear()
    running = asyncio.ensure_future(agent.prompt("something bad"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    getattr(agent, queue)(UserMessage.of("something good"))
    gate.open()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert (result.stop_reason, result.error) == ("end_turn", None)
    assert users(model.requests[-1].messages) == ["hi"] * len(before) + ["something good"]
    assert [prompt.state for prompt in agent.conversation.prompts[-2:]] == ["completed"] * 2
    check_run(events)


async def test_refusal_after_a_reply_keeps_the_prompt_and_its_replies() -> None:
    """S0-43: only a prompt without any reply is taken out, so a message steered into it stays."""
    gate = Gate()
    refused = [gate, *stream_of(says("I cannot", stop_reason="refusal"))]
    agent, model, _ = scripted_agent(calls(tool_use("look")), refused, says("ok"), tools=[LOOK])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("and now?"))
    gate.open()
    await asyncio.wait_for(running, LIMIT_S)

    assert users(model.requests[-1].messages) == ["go", "and now?"]
    assert len(agent.conversation.prompts) == 1


async def test_calls_of_a_truncated_reply_do_not_run() -> None:
    """S4-30, S0-43: the model reads why, and may send the call once more."""
    held = Held()
    asks = calls(tool_use("held", {}, "t1"), stop_reason="max_tokens")
    agent, model, events = scripted_agent(asks, says("smaller"), tools=[tool("held", held)])

    await agent.prompt("go")

    assert held.started == []
    assert "ended with max_tokens before this call was complete" in str(model.sent()[-1])
    check_run(events)


@each_row("stop_reason", ["end_turn", "stop_sequence", "pause_turn", "tool_calls"])
async def test_complete_calls_run_whatever_the_stop_reason(stop_reason: str) -> None:
    """S0-43: some servers report the stop reason of an answer, or an unknown one."""
    asks = [calls(tool_use("look", {}, f"t{n}"), stop_reason=stop_reason) for n in range(3)]
    agent, model, events = scripted_agent(*asks, says("ok"), tools=[LOOK])

    result = await agent.prompt("go")

    assert texts(result.messages) == {"t0": "a tree", "t1": "a tree", "t2": "a tree"}
    assert (result.stop_reason, len(model.requests)) == ("end_turn", 4)
    check_run(events)


async def test_two_truncated_replies_in_a_row_end_the_run() -> None:
    """S4-30: a call that never fits must not be requested endlessly; a notice says so."""
    cut = [calls(tool_use("look", {}, f"t{n}"), stop_reason="max_tokens") for n in range(2)]
    agent, model, events = scripted_agent(*cut, says("ok"), tools=[LOOK])

    result = await agent.prompt("go")

    assert (result.stop_reason, len(model.requests)) == ("max_tokens", 2)
    assert notices(events) == [
        "the reply was cut off at max_tokens; the model is told so and goes on",
        "the reply was cut off at max_tokens again: ask for smaller steps, or raise max_tokens",
    ]
    await agent.prompt("again")


async def test_run_continues_after_isolated_truncated_replies() -> None:
    """S4-30: only two in a row end the run; complete calls run."""
    script = [
        calls(tool_use("look", {}, f"t{n}"), stop_reason=stop_reason)
        for n, stop_reason in enumerate(["max_tokens", "tool_use"] * 2)
    ]
    ran: list[str] = []

    async def look(context: ToolContext) -> str:
        ran.append(context.tool_call_id)
        return "a tree"

    agent, model, _ = scripted_agent(*script, says("ok"), tools=[tool("look", does(look))])

    result = await agent.prompt("go")

    assert (result.stop_reason, len(model.requests)) == ("end_turn", 5)
    assert ran == ["t1", "t3"]
    read = texts(result.messages)
    assert [read[id] for id in ("t1", "t3")] == ["a tree"] * 2
    assert all("max_tokens" in read[id] for id in ("t0", "t2"))


async def test_each_context_overflow_is_retried_once() -> None:
    """S0-43: the space freed once may be used up later in the same run."""
    full = ContextOverflow("too long")
    agent, model, _ = scripted_agent(full, calls(tool_use("look")), full, says("ok"), tools=[LOOK])

    result = await agent.prompt("go")

    assert (result.stop_reason, len(model.requests)) == ("end_turn", 4)


async def test_context_overflow_without_compaction_is_an_error() -> None:
    """S0-43: retried once, since a plugin may compact in between."""
    full = [says("", stop_reason="model_context_window_exceeded")] * 2
    agent, model, events = scripted_agent(*full)

    result = await agent.prompt("go")

    assert (result.stop_reason, len(model.requests)) == ("error", 2)
    check_run(events)


@each_row("turns", [0, 1, 3])
async def test_loop_runs_tools_until_the_model_calls_none(turns: int) -> None:
    """S0-43, S0-49, S1-11: n rounds of tools make n + 1 requests."""
    rounds = [calls(tool_use("look", {}, f"t{n}")) for n in range(turns)]
    agent, model, _ = scripted_agent(*rounds, says("ok"), tools=[LOOK])

    result = await agent.prompt("go")

    assert len(model.requests) == result.iterations == turns + 1


# Limits.


async def test_max_rounds_ends_the_run_with_a_valid_history() -> None:
    """S0-26, S4-17, S2-25, C6: N calls at most, a stop reason of its own, a note in the record."""
    rounds = [calls(tool_use("look", {}, f"t{n}")) for n in range(5)]
    options = LoopConfig(max_rounds=3)
    agent, model, events = scripted_agent(*rounds, tools=[LOOK], options=options)

    result = await agent.prompt("go")

    assert (len(model.requests), result.stop_reason) == (3, "max_rounds")
    check_run(events)
    limit = "stopped after round 3, the limit max_rounds; send a message to go on"
    assert result.error == limit
    note = result.messages[-1]
    assert isinstance(note, CustomMessage)
    assert (note.role, note.data) == ("limit", {"text": limit})
    assert list(result.messages) == agent.state.messages
    assert outline(events)[-3:] == ["message_start limit", "message_end limit", "agent_end"]
    assert agent.conversation.prompts[-1].state == "completed"
    model.script = [says("ok")]
    assert (await agent.prompt("go on")).stop_reason == "end_turn"


async def test_every_limit_leaves_a_note_that_is_not_sent_to_the_model() -> None:
    """S2-25: a hook may raise the limit; the stateless level needs no converter for the note."""

    def spent(_turn: Turn) -> None:
        raise LimitReached("too dear", limit="max_cost")

    model = ScriptedModel(says("ok"))
    options = LoopConfig(model=MODEL, stream_fn=model, prepare=[spent])
    stream = agent_loop([UserMessage.of("go")], AgentContext(), options)
    check_run([event async for event in stream])
    assert [message.role for message in stream.result().messages] == ["user", "limit"]

    context = AgentContext(messages=stream.result().messages)
    again = agent_loop([UserMessage.of("more")], context, replace(options, prepare=()))
    check_run([event async for event in again])

    assert users(model.requests[0].messages) == ["go", "more"]
    assert "too dear" not in str(model.sent())


async def test_max_rounds_of_zero_means_no_limit() -> None:
    """S0-26: a run of 120 rounds ends by itself."""
    rounds = [calls(tool_use("look", {}, f"t{n}")) for n in range(120)]
    agent, model, _ = scripted_agent(
        *rounds, says("ok"), tools=[LOOK], options=LoopConfig(max_rounds=0)
    )

    await agent.prompt("go")

    assert len(model.requests) == 121


async def test_limit_reached_before_the_first_call_ends_the_run_with_its_reason() -> None:
    """S0-39: an exhausted budget is a stop reason, wherever it is noticed."""

    def spent(turn: Turn) -> None:
        raise LimitReached("1 $ is spent", limit="max_cost")

    agent, model, events = scripted_agent(options=LoopConfig(prepare=[spent]))

    result = await agent.prompt("go")

    assert (result.stop_reason, result.error, model.requests) == ("max_cost", "1 $ is spent", [])
    check_run(events)


# Hooks.


async def test_messages_are_transformed_then_converted_then_sent() -> None:
    """S0-20, S0-21, S3-03, S1-04: this happens once per model call; the record is unchanged."""
    order: list[str] = []

    async def transform(messages: Sequence[Message], cancel: CancelToken) -> Sequence[Message]:
        order.append("transform")
        assert not cancel.cancelled
        assert isinstance(messages[0], UserMessage)
        messages[0].content[0]["text"] = "changed in place"
        return [*messages, CustomMessage("note", "seen"), UserMessage.of("transformed")]

    def convert(messages: Sequence[Message]) -> Sequence[Message]:
        order.append("convert")
        assert [m.role for m in messages][-2:] == ["note", "user"]
        return [m for m in messages if not isinstance(m, CustomMessage)]

    options = LoopConfig(transform_context=transform, convert_to_llm=convert)
    agent, model, _ = scripted_agent(
        calls(tool_use("look")), says("ok"), tools=[LOOK], options=options
    )
    agent.subscribe(
        lambda e: (
            order.append("request")
            if e.type == "message_start" and getattr(e, "message").role == "assistant"  # noqa: B009
            else None
        )
    )

    await agent.prompt("go")

    assert order == ["transform", "convert", "request"] * 2
    assert users(model.requests[0].messages) == ["changed in place", "transformed"]
    assert users(agent.state.messages) == ["go"]


@each_row("name", ["transform_context", "convert_to_llm"])
@each_row("made", ["text", None, ["text"]])
async def test_hook_that_returns_no_messages_ends_the_run_with_a_sentence(
    name: str, made: object
) -> None:
    """A text was sent letter by letter, and failed in the provider."""
    hook: dict[str, typing.Any] = {name: lambda *_: made}
    agent, model, _ = scripted_agent(says("ok"), options=replace(LoopConfig(), **hook))

    result = await agent.prompt("go")

    assert (result.stop_reason, model.requests) == ("error", [])
    assert f"the messages of {name} must be" in str(result.error)


async def test_custom_messages_left_by_the_converter_are_an_error() -> None:
    """S3-03: the error names the kind, and nothing is sent."""
    note = CustomMessage("notification", {"text": "mail"})

    def keep(messages: Sequence[Message]) -> Sequence[Message]:
        return [*messages, note]

    agent, model, _ = scripted_agent(says("ok"), options=LoopConfig(convert_to_llm=keep))
    result = await agent.prompt("go")

    assert (result.stop_reason, model.requests) == ("error", [])
    assert "notification" in str(result.error)
    assert "convert_to_llm" in str(result.error)


@each_row("waits", [True, False])
async def test_abort_during_transform_context_sends_nothing(waits: bool) -> None:
    """S3-10: it does not matter whether the transformation waits."""

    async def transform(messages: Sequence[Message], cancel: CancelToken) -> Sequence[Message]:
        agent.abort()
        if waits:
            await Gate().pass_through()
        return messages

    agent, model, events = scripted_agent(options=LoopConfig(transform_context=transform))

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert (result.stop_reason, model.requests) == ("aborted", [])
    check_run(events)


async def test_api_key_function_is_called_before_each_model_call() -> None:
    """S0-24, S3-13: a new key is used at once, and never written anywhere."""
    keys = ["key-one", "key-two"]

    async def get_api_key(provider: str) -> str:
        assert provider == MODEL.provider
        await asyncio.sleep(0)
        return keys.pop(0)

    options = LoopConfig(get_api_key=get_api_key)
    agent, model, events = scripted_agent(
        calls(tool_use("look")), says("ok"), tools=[LOOK], options=options
    )

    await agent.prompt("go")

    assert [request.api_key for request in model.requests] == ["key-one", "key-two"]
    assert "key-" not in str([events, agent.conversation.prompts, agent.state, model.requests])


async def test_options_that_are_set_are_in_the_request() -> None:
    """S0-25, S0-27, S0-28, S0-29: compare the complete request."""
    options = LoopConfig(
        system_prompt="Be brief.",
        max_tokens=77,
        temperature=0.5,
        thinking_level="high",
        thinking_budgets={"high": 9000},
        api_key="key-one",
        session_id="s1",
        max_retry_delay_ms=5,
    )
    agent, model, _ = scripted_agent(says("ok"), tools=[LOOK], options=options)

    await agent.prompt("go")

    assert model.requests[0] == ModelRequest(
        model=MODEL,
        messages=model.requests[0].messages,
        system=("Be brief.",),
        tools=(LOOK.spec,),
        max_tokens=77,
        temperature=0.5,
        thinking_level="high",
        thinking_budgets={"high": 9000},
        api_key="key-one",
        session_id="s1",
        max_retry_delay_ms=5,
    )
    assert users(model.requests[0].messages) == ["go"]
    assert "key-one" not in repr([options, model.requests[0]])


async def test_options_that_are_not_set_are_absent_from_the_request() -> None:
    """S0-25, C20: the provider decides about them; a wait requested by a server is limited."""
    model = ScriptedModel(says("ok"))
    stream = agent_loop(
        [UserMessage.of("go")], AgentContext(), LoopConfig(model=MODEL, stream_fn=model)
    )

    check_run([event async for event in stream])

    assert model.requests[0] == ModelRequest(
        model=MODEL,
        messages=model.requests[0].messages,
        max_tokens=32_000,
        thinking_level="minimal",
        max_retry_delay_ms=60_000,
    )


async def test_model_calls_get_the_cancel_token_of_their_run() -> None:
    """S0-25, S0-66: a stream function that blocks a thread polls it."""
    agent, model, _ = scripted_agent(
        calls(tool_use("look")), says("ok"), says("again"), tools=[LOOK]
    )
    await agent.prompt("go")
    await agent.prompt("again")

    first, second, third = (request.cancel for request in model.requests)
    assert first is second is not third
    assert first is not None and third is not None
    assert not first.cancelled and not third.cancelled


@each_row(("found", "sent"), [("fresh", "fresh"), (None, "fixed")])
async def test_api_key_function_overrides_the_fixed_key(found: str | None, sent: str) -> None:
    """S0-24, S0-25: the fixed key is used if the function returns None."""
    options = LoopConfig(api_key="fixed", get_api_key=lambda _provider: found)
    agent, model, _ = scripted_agent(says("ok"), options=options)

    await agent.prompt("go")

    assert model.requests[0].api_key == sent


async def test_key_that_is_no_text_ends_the_run_before_anything_is_sent() -> None:
    """S0-24: it was put into the request and failed within the provider, like a bug of ours."""
    found: typing.Any = b"key-one"
    options = LoopConfig(get_api_key=lambda _provider: found)
    agent, model, _ = scripted_agent(says("ok"), options=options)

    result = await agent.prompt("go")

    assert result.error == "the key of get_api_key must be str or None, not bytes"
    assert model.requests == []


async def test_tools_with_the_same_name_are_refused_before_anything_is_sent() -> None:
    """S1-15: a call could mean either; the error names the tool and both origins."""
    other = tool("other", returns("x"))
    twice = "more than one tool is named look (tests.fakes, tests.fakes): rename or remove one"

    with pytest.raises(AgentCliError) as at_start:
        scripted_agent(says("ok"), tools=[LOOK, other, LOOK])
    agent, model, events = scripted_agent(
        says("ok"),
        tools=[LOOK, other],
        options=LoopConfig(prepare=[lambda turn: turn.tools.append(LOOK)]),
    )
    with pytest.raises(AgentCliError) as later:
        agent.set_tools([LOOK, LOOK])
    result = await agent.prompt("go")

    check_run(events)
    assert (result.stop_reason, model.requests) == ("error", [])
    assert str(at_start.value) == str(later.value) == result.error == twice


async def test_prepare_hooks_build_every_model_call_from_scratch() -> None:
    """S2-15, S2-16, S1-10: they run before each request; nothing leaks into the next turn."""
    seen: list[tuple[int, int]] = []

    def contribute(turn: Turn) -> None:
        seen.append((len(turn.tools), len(turn.system)))
        turn.tools.append(LOOK)
        turn.system.append("context")

    options = LoopConfig(prepare=[contribute], system_prompt="stable")
    agent, model, _ = scripted_agent(calls(tool_use("look")), says("ok"), options=options)

    await agent.prompt("go")

    assert seen == [(0, 1), (0, 1)]
    assert [request.system for request in model.requests] == [("stable", "context")] * 2
    assert [len(request.tools) for request in model.requests] == [1, 1]


# The choice of the provider.


class CountingProvider:
    """A provider that counts its calls."""

    def __init__(self, *script: object) -> None:
        self.model = ScriptedModel(says("from the registry"))

    def stream(self, request: ModelRequest) -> typing.AsyncIterator[typing.Any]:
        return self.model(request)


async def test_provider_is_found_in_the_registry_by_the_models_api() -> None:
    """S0-03, S3-12: no stream function is needed then."""
    provider: Provider = CountingProvider()
    agent = Agent(LoopConfig(model=MODEL, registry=ProviderRegistry({"scripted": provider})))

    result = await agent.prompt("go")

    assert result.final_message is not None
    assert result.final_message.text == "from the registry"


async def test_stream_function_overrides_the_registry() -> None:
    """S0-04, S0-68, S0-69, S3-23: a proxy is a stream function; the provider is not asked."""
    provider = CountingProvider()
    options = LoopConfig(registry=ProviderRegistry({"scripted": provider}))
    agent, model, _ = scripted_agent(says("ok"), options=options)

    await agent.prompt("go")

    assert (len(model.requests), len(provider.model.requests)) == (1, 0)


async def test_model_with_an_unknown_api_is_an_error_that_names_the_api() -> None:
    """S0-05: a typed error that also lists the registered providers; no event, no call."""
    other = CountingProvider()
    registry = ProviderRegistry({"other": other})
    agent, events = listening(Agent(LoopConfig(model=MODEL, registry=registry)))

    with pytest.raises(ProviderNotFound, match=r"'scripted'.*other"):
        await agent.prompt("go")

    assert (events, other.model.requests) == ([], [])
    await asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)


async def test_a_missing_model_is_an_error_that_names_both_remedies() -> None:
    """S0-06: a typed error before any request, at both levels."""
    agent, events = listening(Agent(LoopConfig(model=MODEL)))
    words = "^no model can be asked: give the agent a stream_fn, or a registry and a model$"

    with pytest.raises(NoStreamFunction, match=words):
        await agent.prompt("go")
    with pytest.raises(NoStreamFunction):
        agent_loop([UserMessage.of("go")], AgentContext(), LoopConfig(model=MODEL))
    with pytest.raises(NoStreamFunction, match="and a model"):
        await Agent(LoopConfig(registry=ProviderRegistry())).prompt("go")

    assert events == []


# The model's input.


async def test_tool_results_are_sent_as_one_message_before_any_text() -> None:
    """S1-09, S1-31: results are in call order; steering messages follow."""
    held = Held()
    asks = calls(*(tool_use("held", {}, f"t{n}") for n in range(3)))
    agent, model, _ = scripted_agent(asks, says("ok"), tools=[tool("held", held)])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t2").reached.wait(), LIMIT_S)
    agent.steer(UserMessage.of("hurry"))
    for n in (2, 1, 0):
        held.gate(f"t{n}").open()
    await running

    content = model.sent()[-1]["content"]

    assert isinstance(content, list)
    assert [b["type"] for b in content if isinstance(b, dict)] == ["tool_result"] * 3 + ["text"]
    assert [b.get("tool_use_id") for b in content if isinstance(b, dict)][:3] == ["t0", "t1", "t2"]


async def test_each_request_begins_with_the_previous_one() -> None:
    """S2-14: history grows at its end only; caches depend on it."""
    agent, model, _ = scripted_agent(
        calls(tool_use("look")), says("ok"), says("and now"), tools=[LOOK]
    )

    await agent.prompt("go")
    await agent.prompt("again")

    first, second, third = (model.sent(n) for n in range(3))
    assert second[: len(first)] == first
    assert third[: len(second)] == second


async def test_pieces_of_a_scripted_reply_join_to_its_text() -> None:
    """The fakes of the other tests rely on this."""
    assert "".join(words("a  b\n c ")) == "a  b\n c "


async def test_run_with_tools_goes_through_the_documented_phases() -> None:
    """S4-05 … S4-11, S4-22: two rounds of tools, then the answer; each change is published."""
    rounds = [calls(tool_use("look", {}, f"t{n}")) for n in range(2)]
    agent, _, events = scripted_agent(*rounds, says("ok"), tools=[LOOK])

    await agent.prompt("go")

    changes = [(e.before, e.after) for e in events if isinstance(e, StateChanged)]
    tools = ["thinking", "planning_tools", "executing_tools"]
    path = ["idle", *tools, *tools, "thinking", "responding", "done", "idle"]
    assert changes == list(itertools.pairwise(path))
    kinds = [type(event) for event in events if isinstance(event, StateChanged | TurnEnd)]
    assert kinds[-4:] == [StateChanged, TurnEnd, StateChanged, StateChanged]  # responding: before


async def test_failed_run_goes_through_the_error_phase_to_idle() -> None:
    """S4-12: a REPL continues from the idle phase."""
    agent, _, events = scripted_agent(ModelError("gone"), says("ok"))

    await agent.prompt("go")

    changes = [(e.before, e.after) for e in events if isinstance(e, StateChanged)]
    assert changes == [("idle", "thinking"), ("thinking", "error"), ("error", "idle")]


async def test_aborted_run_goes_through_the_error_phase_to_idle() -> None:
    """S4-12: a front end must not show a reply that was stopped as one that is complete."""
    agent, _, events = scripted_agent([*stream_of(says("Hello world"))[:2], gate := Gate()])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.abort()
    await asyncio.wait_for(running, LIMIT_S)

    changes = [(e.before, e.after) for e in events if isinstance(e, StateChanged)]
    assert changes == [("idle", "thinking"), ("thinking", "error"), ("error", "idle")]


async def test_unknown_or_raising_tools_give_error_results_and_the_run_continues() -> None:
    """S0-52, S0-53, S1-12, S1-13, S1-15: names match exactly; the model reads the errors."""

    async def broken(tool_call_id: str, params: object, cancel: object, on_update: object) -> str:
        raise ValueError("no such planet")

    uses = [tool_use(name, {}, f"t{n}") for n, name in enumerate(["lok", "broken", "Look"], 1)]
    agent, model, _ = scripted_agent(calls(*uses), says("ok"), tools=[LOOK, tool("broken", broken)])

    result = await agent.prompt("go")

    found = {m.tool_call_id: m for m in result.messages if isinstance(m, ToolResultMessage)}
    assert "lok" in found["t1"].text and "look" in found["t1"].text
    assert texts(result.messages)["t2"] == "no such planet"
    assert "'Look' does not exist" in found["t3"].text
    assert len(model.requests) == 2
    assert all(message.is_error for message in found.values())
    assert "Traceback" not in str(model.sent())
    assert result.stop_reason == "end_turn"


async def test_contributors_are_told_of_a_request_that_was_too_long_and_only_then() -> None:
    """S2-23: they make room, which costs the cache and what is left out."""
    seen: list[bool] = []
    options = LoopConfig(prepare=[lambda turn: seen.append(turn.overflow)])
    script = ContextOverflow("too long"), says("ok"), says("ok")
    agent, _, _ = scripted_agent(*script, options=options)

    await agent.prompt("one")
    await agent.prompt("two")

    assert seen == [False, True, False]
