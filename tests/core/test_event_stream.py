"""The stateless level: a run as an iterator of its events, with a result afterwards."""

import asyncio
import itertools
from dataclasses import replace

import pytest

import agent_cli
from agent_cli import AgentContext, agent_loop, agent_loop_continue
from agent_cli.contracts.errors import (
    AgentCliError,
    ConversationError,
    NoStreamFunction,
    NothingToContinue,
)
from agent_cli.contracts.events import AgentEnd, Event
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, Message, UserMessage
from agent_cli.contracts.provider import ProviderRegistry
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import Allow, Approval, Deny, Tool, ToolContext
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import (
    LIMIT_S,
    LOOK,
    MODEL,
    Gate,
    Held,
    ScriptedModel,
    Step,
    answer,
    calls,
    check_run,
    config,
    does,
    events_of,
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


def script() -> list[Step]:
    return [calls(tool_use("look"), text="I look."), says("A tree.")]


def shape(messages: list[Message]) -> list[object]:
    """Return messages without their times."""
    return [replace(message, timestamp=0) for message in messages]


async def test_agent_and_agent_loop_publish_the_same_events_and_messages() -> None:
    """S0-01, S0-70, S3-24: the stateful and the stateless level behave alike."""
    agent, _, told_by_agent = scripted_agent(*script(), tools=[LOOK])
    await agent.prompt("go")

    model = ScriptedModel(*script())
    stream = agent_loop([UserMessage.of("go")], AgentContext(tools=[LOOK]), config(model))
    told_by_loop = await events_of(stream)

    assert [event.type for event in told_by_loop] == [event.type for event in told_by_agent]
    end = told_by_agent[-1]
    assert isinstance(end, AgentEnd)
    assert shape([*stream.result().messages]) == shape([*end.messages])
    check_run(told_by_loop)


async def test_stream_result_is_available_only_after_the_last_event() -> None:
    """S0-07: messages, final message, number of model calls; earlier access is an error."""
    stream = agent_loop(
        [UserMessage.of("go")], AgentContext(tools=[LOOK]), config(ScriptedModel(*script()))
    )
    with pytest.raises(
        ConversationError, match=r"^the run has not ended: iterate over its events first$"
    ):
        stream.result()

    await events_of(stream)

    result = stream.result()
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert result.final_message is result.messages[-1]
    assert (result.iterations, result.stop_reason) == (2, "end_turn")


async def test_agent_loop_does_not_change_its_context() -> None:
    """S0-01, S0-30: this level is stateless; the new messages are in the result."""
    context = AgentContext("Be brief.", [UserMessage.of("Hi"), assistant("Hello")], [LOOK])
    before = tuple(context.messages)
    model = ScriptedModel(says("ok"))

    stream = agent_loop([UserMessage.of("go")], context, config(model))
    await events_of(stream)

    assert tuple(context.messages) == before
    assert model.requests[0].system == ("Be brief.",)
    assert users(model.requests[0].messages) == ["Hi", "go"]
    context.append(*stream.result().messages)
    assert [message.role for message in context.messages] == ["user", "assistant"] * 2


def assistant(text: str) -> AssistantMessage:
    return AssistantMessage((text_block(text),))


async def test_empty_context_is_accepted() -> None:
    """S0-30: a prompt is sufficient for a run."""
    stream = agent_loop([UserMessage.of("go")], AgentContext(), config(ScriptedModel(says("ok"))))

    await events_of(stream)

    assert stream.result().final_message is not None


async def test_several_prompts_are_announced_in_order_before_the_first_call() -> None:
    """S0-37: all of them are in the first request."""
    reply = says("ok")
    model = ScriptedModel(reply)
    prompts = [UserMessage.of("a"), UserMessage.of("b")]

    told = await events_of(agent_loop(prompts, AgentContext(), config(model)))

    assert outline(told) == [
        "agent_start",
        "turn_start",
        *said("a", "b"),
        *answer(reply),
        "turn_end",
        "agent_end",
    ]
    assert users(model.requests[0].messages) == ["a", "b"]


@each_row("tail", ["user", "toolResult", "limit"])
async def test_agent_loop_continue_adds_no_message(tail: str) -> None:
    """S0-38, S3-06, S3-24: the first message is the assistant's, even after the note of a limit."""
    prompt = UserMessage.of("go")
    messages: list[Message] = [prompt]
    if tail != "user":
        once = replace(config(ScriptedModel(*script())), max_rounds=1)
        first = agent_loop([prompt], AgentContext(tools=[LOOK]), once)
        await events_of(first)
        messages = [*first.result().messages][: None if tail == "limit" else -1]
    reply = says("ok")
    model = ScriptedModel(reply)

    told = await events_of(agent_loop_continue(AgentContext(messages=messages), config(model)))

    assert messages[-1].role == tail
    assert outline(told) == [
        "agent_start",
        "turn_start",
        *answer(reply),
        "turn_end",
        "agent_end",
    ]


@each_row("messages", [[], [UserMessage.of("go"), assistant("ok")]])
async def test_agent_loop_continue_with_nothing_to_answer_is_an_error(
    messages: list[Message],
) -> None:
    """S3-07: the error is typed, and raised before anything happens."""
    with pytest.raises(NothingToContinue):
        agent_loop_continue(AgentContext(messages=messages), LoopConfig(model=MODEL))


async def test_custom_messages_need_a_converter_in_agent_loop() -> None:
    """S3-03: this level has no default; the error names the kind."""
    context = AgentContext(messages=[CustomMessage("notification", "mail")])
    model = ScriptedModel(says("ok"))

    stream = agent_loop([UserMessage.of("go")], context, config(model))
    await events_of(stream)

    assert "notification" in str(stream.result().error)
    assert model.requests == []


async def test_cancelling_the_stream_still_delivers_its_last_events() -> None:
    """S0-25, S0-51, S0-66: agent_end is the last event; the iteration ends by itself."""
    gate = Gate()
    model = ScriptedModel([*stream_of(says("Hello world"))[:2], gate])
    stream = agent_loop([UserMessage.of("go")], AgentContext(), config(model))
    told: list[Event] = []

    async for event in stream:
        told.append(event)
        if event.type == "message_update":
            stream.cancel.cancel()

    check_run(told)
    assert (stream.result().stop_reason, model.closed) == ("aborted", 1)


async def test_a_stream_cancelled_before_it_is_read_sends_nothing() -> None:
    """Its events are those of a run that was stopped at once; the prompt is recorded."""
    model = ScriptedModel(says("never"))
    stream = agent_loop([UserMessage.of("go")], AgentContext(), config(model))

    stream.cancel.cancel()
    events = await events_of(stream)

    check_run(events)
    assert (stream.result().stop_reason, model.requests) == ("aborted", [])
    assert users(stream.result().messages) == ["go"]


class _Registered:
    """A provider whose model plays a script."""

    def __init__(self, model: ScriptedModel) -> None:
        self.stream = model


@each_row("session_id", [None, "mine"])
async def test_registry_finds_the_model_with_and_without_a_session_id(
    session_id: str | None,
) -> None:
    """S0-05, S0-27: this level has no conversation's id to fall back on."""
    model = ScriptedModel(says("ok"))
    registry = ProviderRegistry({MODEL.api: _Registered(model)})
    options = LoopConfig(model=MODEL, registry=registry, session_id=session_id)

    await events_of(agent_loop(["go"], AgentContext(), options))

    assert [request.session_id for request in model.requests] == [session_id]
    with pytest.raises(NoStreamFunction):
        agent_loop(["go"], AgentContext(), replace(options, model=None))


@each_row("ending", ["limit", "abort", "end"])
async def test_undelivered_steering_messages_are_returned_by_the_stream(ending: str) -> None:
    """S0-22, S0-51: the caller's source is empty by then; only the stream still has the message."""
    source = [UserMessage.of("delivered"), UserMessage.of("too late")]
    late = source[1]

    def take() -> list[UserMessage]:
        taken = source.pop(0)
        if taken is late and ending == "abort":
            stream.cancel.cancel()
        return [taken]

    model = ScriptedModel(*(calls(tool_use("look", id=id)) for id in ("t1", "t2")), says("ok"))
    options = replace(
        config(model),
        max_rounds=2 if ending == "limit" else 100,
        get_steering_messages=lambda: take() if source else [],
    )
    stream = agent_loop([UserMessage.of("go")], AgentContext(tools=[LOOK]), options)

    await events_of(stream)

    assert source == []
    assert stream.undelivered == (() if ending == "end" else (late,))
    assert users(model.requests[1].messages) == ["go", "delivered"]


async def test_leaving_the_iteration_over_events_stops_the_run() -> None:
    """S0-07: a run does not go on without a reader of its events."""
    held = Held()
    context = AgentContext(tools=[tool("held", held)])
    model = ScriptedModel(calls(tool_use("held")))
    iteration = aiter(agent_loop([UserMessage.of("go")], context, config(model)))

    async for event in iteration:
        if event.type == "tool_execution_start":
            await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)
            break
    await asyncio.wait_for(iteration.aclose(), LIMIT_S)  # type: ignore[attr-defined]

    assert held.cancelled == ["t1"]


async def test_unexpected_exception_is_raised_after_the_last_event() -> None:
    """C22: all events of the run are published before."""
    stream = agent_loop(
        [UserMessage.of("go")], AgentContext(), config(ScriptedModel(ZeroDivisionError()))
    )
    told: list[Event] = []

    with pytest.raises(ZeroDivisionError):
        async for event in stream:
            told.append(event)

    check_run(told)


def test_package_exports_agent_and_agent_loop() -> None:
    """S0-02, S3-26: the names are those of the documents."""
    assert {"Agent", "agent_loop", "agent_loop_continue", "AgentContext", "EventStream"} <= set(
        agent_cli.__all__
    )


async def test_events_of_a_run_can_be_iterated_only_once() -> None:
    """S0-07: a second loop over them must not send the prompt again."""
    model = ScriptedModel(says("ok"), says("ok"))
    stream = agent_loop([UserMessage.of("go")], AgentContext(), config(model))
    await events_of(stream)

    with pytest.raises(ConversationError):
        await events_of(stream)

    assert len(model.requests) == 1


async def test_agent_loop_without_prompts_and_messages_is_an_error() -> None:
    """C22: a mistake of the caller is reported as one, before anything is sent."""
    with pytest.raises(ConversationError):
        await events_of(agent_loop([], AgentContext(), config(ScriptedModel(says("ok")))))


def asking_tools() -> tuple[list[Tool], list[str]]:
    """Return a tool that asks and one that does not, and the list of calls that ran."""
    ran: list[str] = []

    async def body(on_update: ToolContext) -> str:
        ran.append(on_update.tool_call_id)
        return "done"

    danger = replace(tool("danger", does(body)), require_approval=Approval(required=True))
    return [danger, tool("safe", does(body))], ran


@each_row("verdict", [Allow(), Deny("use yarn")])
async def test_agent_loop_continue_resumes_a_pending_call_with_a_decision(
    verdict: Allow | Deny,
) -> None:
    """S2-31, S2-32, S0-38: the context and a decision are sufficient; deferred calls run, too."""
    tools, ran = asking_tools()
    asks = calls(tool_use("danger", {}, "t1"), tool_use("safe", {}, "t2"))
    model = ScriptedModel(asks, says("ok"))
    stream = agent_loop([UserMessage.of("go")], AgentContext(tools=tools), config(model))
    await events_of(stream)
    assert (stream.result().stop_reason, ran) == ("waiting_for_approval", [])
    context = AgentContext(messages=stream.result().messages, tools=tools)

    resumed = agent_loop_continue(context, config(model), decisions={"t1": verdict})
    events = await events_of(resumed)

    assert resumed.result().stop_reason == "end_turn"
    answer = "use yarn" if isinstance(verdict, Deny) else "done"
    assert texts(resumed.result().messages) == {"t1": answer, "t2": "done"}
    assert ran == (["t2"] if isinstance(verdict, Deny) else ["t1", "t2"])
    check_run(events)


async def test_a_decision_may_replace_the_input_of_its_call() -> None:
    """It was ignored: the call ran with the input that the person had changed."""
    used: list[object] = []

    async def body(_id: str, params: object, _cancel: object, _context: object) -> str:
        used.append(params)
        return "done"

    danger = replace(tool("danger", body), require_approval=Approval(required=True))
    asks = calls(*(tool_use("danger", {"cmd": "rm -rf /"}, id) for id in ("t1", "t2")))
    model = ScriptedModel(asks, says("ok"))
    stream = agent_loop([UserMessage.of("go")], AgentContext(tools=[danger]), config(model))
    await events_of(stream)
    context = AgentContext(messages=stream.result().messages, tools=[danger])

    decisions = {"t1": Allow(input={"cmd": "ls"}), "t2": Allow(input={"cmd": "rm -rf /"})}
    await events_of(agent_loop_continue(context, config(model), decisions=decisions))

    assert used == [{"cmd": "ls"}, {"cmd": "rm -rf /"}]
    note = '[The user edited this call\'s input before it ran. Used instead: {"cmd": "ls"}]'
    results = model.sent()[-1]["content"]
    assert isinstance(results, list)
    assert [result["content"] for result in results if isinstance(result, dict)] == [
        [text_block(note), text_block("done")],
        [text_block("done")],
    ]


async def test_a_call_that_ran_before_a_question_does_not_run_again_after_it() -> None:
    """The messages of a run that waited held no result: going on with them ran it again."""
    tools, ran = asking_tools()
    asks = [tool_use("safe", {}, "t1"), tool_use("danger", {}, "t2"), tool_use("danger", {}, "t3")]
    model = ScriptedModel(calls(*asks), says("ok"))
    options = replace(config(model, tools=tools), approval="defer")
    stream = agent_loop(["go"], AgentContext(), options)
    ends = [await events_of(stream)]
    messages = [*stream.result().messages]

    for id in ("t2", "t3"):
        context = AgentContext(messages=messages)
        stream = agent_loop_continue(context, options, decisions={id: Allow()})
        ends.append(await events_of(stream))
        messages += stream.result().messages

    assert ran == ["t1", "t2", "t3"]
    assert stream.result().stop_reason == "end_turn"
    assert texts(messages) == {"t1": "done", "t2": "done", "t3": "done"}
    assert [message.role for message in messages] == [
        *("user", "assistant", "toolResult", "toolResult", "toolResult", "assistant")
    ]
    added = [events[-1].messages for events in ends if isinstance(events[-1], AgentEnd)]
    assert [*itertools.chain(*added)] == messages


async def test_in_a_batch_decisions_count_together_since_messages_hold_none() -> None:
    """One alone runs nothing and leaves no trace: docs/library.md says so."""
    tools, ran = asking_tools()
    model = ScriptedModel(calls(*(tool_use("danger", {}, id) for id in ("t1", "t2"))), says("ok"))
    options = replace(config(model, tools=tools), approval="batch")
    stream = agent_loop(["go"], AgentContext(), options)
    await events_of(stream)
    context = AgentContext(messages=stream.result().messages)

    alone = agent_loop_continue(context, options, decisions={"t1": Allow()})
    await events_of(alone)
    together = agent_loop_continue(context, options, decisions={"t1": Allow(), "t2": Allow()})
    await events_of(together)

    assert (alone.result().stop_reason, alone.result().messages) == ("waiting_for_approval", ())
    assert (together.result().stop_reason, ran) == ("end_turn", ["t1", "t2"])


async def test_a_decision_about_no_open_call_is_an_error() -> None:
    """S2-32: the error is raised before anything runs, and names the open calls."""
    tools, ran = asking_tools()
    history: list[Message] = [
        UserMessage.of("go"),
        AssistantMessage((tool_use("danger", {}, "t1"),), "tool_use"),
    ]

    with pytest.raises(ConversationError, match=r"no call t8, t9 waits.*'t1'"):
        agent_loop_continue(
            AgentContext(messages=history, tools=tools),
            config(ScriptedModel()),
            decisions={"t9": Allow(), "t8": Allow(), "t1": Allow()},
        )

    assert ran == []


async def test_open_calls_without_a_decision_are_answered_and_not_run() -> None:
    """S0-58: an imported history must not start tools."""
    tools, ran = asking_tools()
    history: list[Message] = [
        UserMessage.of("go"),
        AssistantMessage((tool_use("safe", {}, "t1"),), "tool_use"),
    ]
    model = ScriptedModel(says("ok"))

    await events_of(agent_loop_continue(AgentContext("", history, tools), config(model)))

    assert ran == []
    assert "No result was recorded" in str(model.sent())


async def test_context_is_merged_with_the_loop_config() -> None:
    """S0-30, S0-37: an empty context used to remove the config's tools and prompt."""
    model = ScriptedModel(says("ok"))
    options = replace(config(model, tools=[LOOK]), system_prompt="Be brief.")

    await events_of(agent_loop([UserMessage.of("go")], AgentContext(), options))

    request = model.requests[0]
    assert (request.system, request.tools) == (("Be brief.",), (LOOK.spec,))


@each_row(
    ("field", "context"),
    [
        ("system_prompt", AgentContext("other")),
        ("tools", AgentContext(tools=[tool("other", returns("x"))])),
    ],
)
def test_context_that_contradicts_the_loop_config_is_an_error(
    field: str, context: AgentContext
) -> None:
    """S0-30: otherwise one of the two would be silently ignored."""
    options = replace(config(ScriptedModel(), tools=[LOOK]), system_prompt="Be brief.")

    with pytest.raises(AgentCliError, match=f"^{field} is set in LoopConfig and in AgentContext"):
        agent_loop([UserMessage.of("go")], context, options)


async def test_context_copies_the_callers_lists() -> None:
    """S0-30: later additions to those lists have no effect; `append` adds to the context."""
    messages: list[Message] = [UserMessage.of("Hi"), assistant("Hello")]
    prompts = [UserMessage.of("go")]
    context = AgentContext(messages=messages, tools=[LOOK])
    model = ScriptedModel(says("ok"))

    stream = agent_loop(prompts, context, config(model))
    messages.append(UserMessage.of("late"))
    prompts.append(UserMessage.of("late"))
    await events_of(stream)

    assert users(model.requests[0].messages) == ["Hi", "go"]
    context.append(UserMessage.of("one"), UserMessage.of("two"))
    assert users(list(context.messages)) == ["Hi", "one", "two"]
    assert isinstance(context.messages, tuple)


@each_row("after", [[], [CustomMessage("note")]])
def test_context_that_ends_with_an_answer_cannot_be_continued(after: list[Message]) -> None:
    """S0-63, S3-07: a note after the answer is not sent, so it changes nothing."""
    context = AgentContext(messages=[UserMessage.of("Hi"), assistant("Hello"), *after])

    with pytest.raises(
        NothingToContinue,
        match=r"^nothing to continue: the conversation is empty or ends with an answer$",
    ):
        agent_loop_continue(context, config(ScriptedModel()))
