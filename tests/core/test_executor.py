"""A batch of calls: concurrent or alone, in call order where order counts, within limits."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, ToolError
from agent_cli.contracts.events import (
    Event,
    ToolCall,
    ToolCallsAnnounced,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.timeline import FileOutput, Json, ToolOutput, WidgetOutput, text_block
from agent_cli.contracts.tooling import (
    Allow,
    Ask,
    Deny,
    Execute,
    Tool,
    ToolContext,
    ToolResult,
    Verdict,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.executor import Executor
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from tests.fakes import (
    LIMIT_S,
    Held,
    calls,
    check_run,
    does,
    outline,
    raises,
    returns,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
)
from tests.tables import each_row


async def result_of(
    body: Execute, *, options: LoopConfig | None = None, timeout_s: float | None = None
) -> tuple[ToolResultMessage, Sequence[Event]]:
    """Let the model call a tool with *body* once; the run continues afterwards."""
    agent, _, events = scripted_agent(
        calls(tool_use("work", {"a": 1})),
        says("ok"),
        tools=[tool("work", body, timeout_s=timeout_s)],
        options=options,
    )
    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)
    check_run(events)
    assert result.stop_reason == "end_turn"
    [message] = (m for m in result.messages if isinstance(m, ToolResultMessage))
    return message, events


async def test_batch_can_be_executed_without_a_loop() -> None:
    """S1-16: an executor needs neither a model nor an agent."""
    conversation, events = Conversation(), list[Event]()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1"), tool_use("missing", {}, "t2")))
    options = LoopConfig(tools=[tool("look", returns("a tree"))])

    results = await Executor(
        Turn(options, conversation, events.append, CancelToken(), ChatStateMachine(), False)
    ).run()

    assert [(each.tool_call_id, each.is_error) for each in results] == [("t1", False), ("t2", True)]
    assert conversation.open_calls() == []
    assert outline(events)[-2:] == ["message_start toolResult t2", "message_end toolResult t2"]


# Concurrent, alone, in order.


async def test_all_calls_of_a_reply_run_concurrently() -> None:
    """S1-07, S2-48: three calls that wait for each other could not finish one by one."""
    together = asyncio.Barrier(3)

    async def meet(on_update: ToolContext) -> str:
        await together.wait()
        return "met"

    asks = calls(*(tool_use("meet", {}, f"t{n}") for n in range(3)))
    agent, _, _ = scripted_agent(asks, says("ok"), tools=[tool("meet", does(meet))])

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert texts(result.messages) == {"t0": "met", "t1": "met", "t2": "met"}


async def test_results_are_in_call_order_not_in_completion_order() -> None:
    """S1-08: the first call is the slowest."""
    held = Held()
    asks = calls(*(tool_use("held", {}, f"t{n}") for n in range(3)))
    agent, model, _ = scripted_agent(asks, says("ok"), tools=[tool("held", held)])
    held.gate("t2").open()
    following = {"t2": "t1", "t1": "t0"}

    def open_next(event: Event) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_call_id in following:
            held.gate(following[event.tool_call_id]).open()

    agent.subscribe(open_next)
    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert held.ended == ["t2", "t1", "t0"]
    assert list(texts(result.messages)) == ["t0", "t1", "t2"]
    assert "'t0'" in str(model.sent()[-1]).split("tool_use_id")[1]


@each_row("concurrency", [1, 2])
async def test_concurrency_limit_bounds_the_tools_that_run_at_once(concurrency: int) -> None:
    """G6: calls above the limit wait for a free slot."""
    running = most = 0

    async def count(on_update: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    asks = calls(*(tool_use("count", {}, f"t{n}") for n in range(5)))
    agent, _, events = scripted_agent(
        asks,
        says("ok"),
        tools=[tool("count", does(count))],
        options=LoopConfig(concurrency=concurrency),
    )
    await agent.prompt("go")

    assert most == concurrency
    check_run(events)


async def test_call_that_waits_for_another_starts_once_it_runs() -> None:
    """Its seconds are those of its own work; it was announced, so that it can be shown."""
    held = Held()
    uses = [tool_use("write", {"paths": ["a"]}, f"t{n}") for n in range(2)]
    agent, _, events = scripted_agent(calls(*uses), says("ok"), tools=[writer(held)])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t0").reached.wait(), LIMIT_S)
    before = list(events)
    for gate in ("t0", "t1"):
        held.gate(gate).open()
    await asyncio.wait_for(running, LIMIT_S)

    started = [each.tool_call_id for each in before if isinstance(each, ToolExecutionStart)]
    announced = [each for each in before if isinstance(each, ToolCallsAnnounced)]
    assert (started, len(announced[0].calls)) == (["t0"], 2)
    check_run(events)


async def test_tool_that_is_not_parallel_safe_runs_alone() -> None:
    """S1-44, C24: calls before it are finished, calls after it have not started."""
    log: list[str] = []

    def body(name: str) -> Execute:
        async def work(on_update: ToolContext) -> str:
            log.append(f"{name} starts")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            log.append(f"{name} ends")
            return "ok"

        return does(work)

    tools = [tool("safe", body("safe")), tool("alone", body("alone"), parallel_safe=False)]
    names = ["safe", "safe", "alone", "safe"]
    asks = calls(*(tool_use(name, {}, f"t{n}") for n, name in enumerate(names)))
    agent, _, _ = scripted_agent(asks, says("ok"), tools=tools)
    await agent.prompt("go")

    assert log == [
        *["safe starts"] * 2,
        *["safe ends"] * 2,
        *["alone starts", "alone ends"],
        *["safe starts", "safe ends"],
    ]


async def test_tool_says_of_each_call_whether_it_may_run_beside_others() -> None:
    """C24: a call that must run alone is a barrier, and so is one whose tool cannot tell."""
    log: list[Json] = []

    async def work(
        _id: str, params: dict[str, Json], _cancel: CancelToken, _update: ToolContext
    ) -> str:
        log.append(["starts", params.get("alone")])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.append(["ends", params.get("alone")])
        return "ok"

    tools = [tool("work", work, parallel_safe=lambda params: not params["alone"])]
    inputs: list[Json] = [{"alone": False}, {"alone": True}, {}, {"alone": False}]
    asks = calls(*(tool_use("work", given, f"t{n}") for n, given in enumerate(inputs)))
    agent, _, _ = scripted_agent(asks, says("ok"), tools=tools)
    await agent.prompt("go")

    given = (False, True, None, False)
    assert log == [[word, alone] for alone in given for word in ("starts", "ends")]


def writer(held: Held) -> Tool:
    """Return a tool that writes the paths its input names."""

    def writes(params: dict[str, list[str]]) -> list[str]:
        return params["paths"]

    return tool("write", held, writes=writes)


async def started_with(*paths: list[Json], open_first: Sequence[str] = ()) -> list[str]:
    """Run a batch of writers of *paths*, opened in call order; return which calls started when."""
    held = Held()
    for id in open_first:
        held.gate(id).open()
    uses = [tool_use("write", {"paths": each}, f"t{n}") for n, each in enumerate(paths)]
    agent, _, events = scripted_agent(calls(*uses), says("ok"), tools=[writer(held)])
    log: list[str] = held.started
    running = asyncio.ensure_future(agent.prompt("go"))
    for n in range(len(paths)):
        await asyncio.wait_for(held.gate(f"t{n}").reached.wait(), LIMIT_S)
        log.append("|")
        held.gate(f"t{n}").open()
    await asyncio.wait_for(running, LIMIT_S)
    check_run(events)
    return [name for name in log if name != "|"] if open_first else log


async def test_calls_that_write_the_same_path_run_in_call_order() -> None:
    """C1: one by one, while other calls run concurrently."""
    log = await started_with(["/a"], ["/a"], ["/b"], ["/a"])

    assert log[:3] == ["t0", "t2", "|"]
    assert [id for id in log if id.startswith("t")] == ["t0", "t2", "t1", "t3"]


async def test_call_that_writes_two_paths_keeps_its_place_for_both() -> None:
    """C1: a later call for the second path does not overtake it."""
    log = await started_with(["/a"], ["/a", "/b"], ["/b"])

    assert [id for id in log if id.startswith("t")] == ["t0", "t1", "t2"]


async def test_path_named_twice_by_one_call_does_not_block_the_call() -> None:
    """C1: a call must not wait for itself."""
    assert await started_with(["/a", "/a"], ["/a"]) == ["t0", "|", "t1", "|"]


async def test_read_sees_earlier_writes_to_its_paths_and_no_later_ones() -> None:
    """C1: a folder includes everything below it; reads run concurrently."""
    held = Held()
    read = replace(tool("read", held), reads=lambda params: params["paths"])
    asks: list[tuple[str, list[Json]]] = [
        ("read", ["/a/x"]),  # t0
        ("write", ["/a/x"]),  # t1: after t0
        ("read", ["/a"]),  # t2: after t1, which is below it
        ("read", ["/a/x"]),  # t3: after t1, beside t2
        ("write", ["/a/y"]),  # t4: after t2
        ("read", ["/ab", "/b"]),  # t5: at once
    ]
    uses = [tool_use(name, {"paths": paths}, f"t{n}") for n, (name, paths) in enumerate(asks)]
    agent, _, events = scripted_agent(calls(*uses), says("ok"), tools=[read, writer(held)])
    running = asyncio.ensure_future(agent.prompt("go"))
    steps: list[list[str]] = []
    for id in ("t0", "t1", "t2", "t3", "t4", "t5"):
        await asyncio.wait_for(held.gate(id).reached.wait(), LIMIT_S)
        await asyncio.sleep(0)
        steps.append(sorted(held.started))
        held.gate(id).open()
    await asyncio.wait_for(running, LIMIT_S)

    check_run(events)
    assert steps[:3] == [["t0", "t5"], ["t0", "t1", "t5"], ["t0", "t1", "t2", "t3", "t5"]]


_MOVED = "Not run: it would touch other files now than when it was checked. Call again."


@each_row(
    ("verdict", "answer"),
    [(Allow(), "written"), (Deny("never there"), "never there"), (Ask("there?"), _MOVED)],
)
@each_row("asks_before", [False, True])
async def test_call_whose_files_changed_before_its_turn_is_checked_again(
    verdict: Verdict, answer: str, *, asks_before: bool
) -> None:
    """Threat 3: an earlier call of the batch may replace a folder by a symlink.

    A person approved what the call would have done before.
    """
    leads_to = ["/here"]

    async def link(_context: ToolContext) -> str:
        leads_to[0] = "/there"
        return "linked"

    def authorize(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        if call.name == "write" and leads_to == ["/there"]:
            return verdict
        return Ask("sure?") if asks_before else Allow()

    agent, _, _ = scripted_agent(
        calls(tool_use("link", {}, "t1"), tool_use("write", {}, "t2")),
        says("ok"),
        tools=[
            tool("link", does(link), writes=lambda _params: ["/"]),
            tool("write", returns("written"), writes=lambda _params: tuple(leads_to)),
        ],
        options=LoopConfig(authorize_tool=authorize, approval="batch"),
    )

    result = await agent.prompt("go")
    for question in agent.conversation.questions():
        result = await agent.approve(question.tool_call_id)

    assert texts(result.messages) == {"t1": "linked", "t2": answer}
    assert result.stop_reason == "end_turn"


async def test_a_tool_may_use_the_paths_that_it_declared_and_no_other() -> None:
    """A symlink may have changed since it was decided whether the call may run."""
    moved: list[str] = []

    async def copy(context: ToolContext) -> str:
        for path in ("/from", "/to", "/elsewhere"):
            try:
                context.require_decided(path)
            except ToolError:
                moved.append(path)
        return "copied"

    copying = tool("copy", does(copy), writes=lambda _params: ["/to"])
    copying = replace(copying, reads=lambda _params: ["/from"])
    agent, _, _ = scripted_agent(calls(tool_use("copy")), says("ok"), tools=[copying])

    await agent.prompt("go")

    assert moved == ["/elsewhere"]


_STRICTER = "Not run: while it waited, the user chose to be asked about such calls. Call again."


@each_row(
    ("verdict", "approved", "answer"),
    [
        (Allow(), False, "written"),
        (Deny("plan mode"), False, "plan mode"),
        (Deny("plan mode"), True, "plan mode"),
        (Ask("mode"), False, _STRICTER),
        (Ask("mode"), True, "written"),
    ],
)
async def test_call_whose_verdict_no_longer_holds_is_checked_again(
    verdict: Verdict, answer: str, *, approved: bool
) -> None:
    """The user may choose a stricter mode while an earlier call of the batch runs."""
    modes = ["yolo"]

    async def change(_context: ToolContext) -> str:
        modes.append("plan")
        return "changed"

    def holds() -> bool:
        return len(modes) == 1

    def authorize(_call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        if len(modes) == 2:
            return verdict
        return Ask("sure?", holds=holds) if approved else Allow(holds=holds)

    agent, _, _ = scripted_agent(
        calls(tool_use("change", {}, "t1"), tool_use("write", {}, "t2")),
        says("ok"),
        tools=[
            tool("change", does(change), parallel_safe=False),
            tool("write", returns("written")),
        ],
        options=LoopConfig(authorize_tool=authorize, approval="batch"),
    )

    result = await agent.prompt("go")
    for question in agent.conversation.questions():
        result = await agent.approve(question.tool_call_id)

    assert texts(result.messages) == {"t1": "changed", "t2": answer}


async def test_tool_whose_path_function_fails_gives_an_error_result() -> None:
    """S1-14: this tool does not run; the other calls do."""
    held = Held()

    def writes(params: dict[str, str]) -> list[str]:
        return [params["path"]]

    asks = calls(tool_use("write", {}, "t1"), tool_use("look", {}, "t2"))
    tools = [tool("write", held, writes=writes), tool("look", returns("fine"))]
    agent, _, events = scripted_agent(asks, says("ok"), tools=tools)
    result = await agent.prompt("go")

    check_run(events)
    assert held.started == []
    assert texts(result.messages)["t2"] == "fine"
    assert "path" in texts(result.messages)["t1"]


async def test_no_tool_starts_in_a_phase_that_forbids_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S4-15: the executor asserts its guard; the call is still answered."""
    monkeypatch.setattr(ChatStateMachine, "can_execute_tools", False)
    held = Held()
    agent, _, events = scripted_agent(calls(tool_use("held")), tools=[tool("held", held)])

    with pytest.raises(AssertionError):
        await agent.prompt("go")

    check_run(events)
    assert held.started == []


# Every effect of a tool is a result.


async def test_tool_may_return_plain_text() -> None:
    """S0-17, S3-21: a plain string is a complete result."""
    message, _ = await result_of(returns("42"))

    assert (message.text, message.is_error) == ("42", False)


async def test_tool_content_goes_to_the_model_and_details_only_to_the_event() -> None:
    """S0-17, C26: the content may include images."""
    image: dict[str, Json] = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    given = ToolResult((text_block("see"), image), details={"secret": "for the screen"})

    async def body(on_update: ToolContext) -> ToolResult:
        return given

    agent, model, events = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", does(body))]
    )
    await agent.prompt("go")

    [end] = (event for event in events if isinstance(event, ToolExecutionEnd))
    assert (end.result, end.is_error) == (given, False)
    assert "for the screen" not in str(model.sent())
    assert "aGk=" in str(model.sent())


async def test_exception_in_a_tool_becomes_an_error_result_with_its_message(
    logged: list[dict[str, object]],
) -> None:
    """S0-53, S1-13, S1-14, S2-40: the traceback is in the log, not in the result."""
    message, _ = await result_of(raises(RuntimeError("the disk is full")))

    assert (message.text, message.is_error) == ("the disk is full", True)
    [entry] = logged
    assert (entry["event"], entry["tool"], entry["tool_call_id"]) == ("tool failed", "work", "t1")
    assert str(entry["exception"]).endswith("RuntimeError: the disk is full")


async def test_key_error_of_a_tool_says_what_it_is() -> None:
    """Its own text is the key alone: the model read "'user_id'"."""
    message, _ = await result_of(raises(KeyError("user_id")))

    assert (message.text, message.is_error) == ("KeyError: 'user_id'", True)


async def test_tool_that_ends_because_the_run_is_stopped_has_not_failed(
    logged: list[dict[str, object]],
) -> None:
    """A log or a terminal that shows errors has no line about it."""
    begun = asyncio.Event()

    async def execute(_id: str, _params: object, cancel: CancelToken, _context: ToolContext) -> str:
        begun.set()
        async with cancel.scope():
            await asyncio.Event().wait()
        return ""

    agent, _, _ = scripted_agent(calls(tool_use("work")), tools=[tool("work", execute)])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert result.stop_reason == "aborted"
    assert [entry for entry in logged if entry["event"] == "tool failed"] == []


async def test_model_reads_the_errors_of_a_group_and_not_their_number() -> None:
    """A tool with a TaskGroup raises one, and a `ToolError` in it says what to do."""
    group = ExceptionGroup("g", [ToolError("Give a year."), ExceptionGroup("h", [KeyError("x")])])

    message, _ = await result_of(raises(group))

    assert (message.text, message.is_error) == ("Give a year.; KeyError: 'x'", True)


async def test_exception_without_a_message_is_reported_by_its_type() -> None:
    """S0-53: an empty result would tell the model nothing."""
    message, _ = await result_of(raises(KeyError()))

    assert message.text == "KeyError"


async def test_tool_error_is_passed_to_the_model_unchanged() -> None:
    """S1-13: the text of a ToolError is written for the model."""
    message, _ = await result_of(raises(ToolError("There is no file 'a'; there are: b")))

    assert (message.text, message.is_error) == ("There is no file 'a'; there are: b", True)


@each_row("whose", ["tool", "run"])
async def test_tool_that_exceeds_its_time_limit_is_stopped(whose: str) -> None:
    """S1-14, G5: the limit of the tool, or else that of the run."""
    held = Held()
    options = LoopConfig(tool_timeout_s=0.01 if whose == "run" else 60.0)
    own = 0.01 if whose == "tool" else None

    message, _ = await result_of(held, options=options, timeout_s=own)

    assert message.is_error
    assert "longer than 0.01 s" in message.text
    assert held.cancelled == ["t1"]


async def test_timeout_error_raised_by_a_tool_keeps_its_own_message() -> None:
    """G5: the text must not blame a limit that was not reached."""
    message, _ = await result_of(raises(TimeoutError("the server did not answer")))

    assert message.text == "the server did not answer"


async def test_aborted_raised_by_a_tool_keeps_its_message_while_the_run_goes_on() -> None:
    """A tool may have a run of its own, which ended alone."""
    message, _ = await result_of(raises(Aborted("the inner run was stopped")))

    assert (message.text, message.is_error) == ("the inner run was stopped", True)


async def test_time_limit_of_zero_means_no_limit() -> None:
    """G5: such a tool may take any time."""

    async def body(on_update: ToolContext) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "ok"

    message, _ = await result_of(does(body), options=LoopConfig(tool_timeout_s=0.0), timeout_s=0.0)

    assert message.text == "ok"


async def test_tool_that_raises_cancelled_error_gives_an_error_result() -> None:
    """S1-14: the result names no other cause."""

    async def body(on_update: ToolContext) -> str:
        raise asyncio.CancelledError

    message, _ = await result_of(does(body))

    assert message.is_error
    assert "cancelled from within" in message.text


@each_row("value", [None, 42, {"text": "x"}])
async def test_tool_result_of_the_wrong_type_is_an_error(value: object) -> None:
    """S1-14: a plugin's author may have forgotten the types."""

    async def body(on_update: ToolContext) -> str:
        return value  # type: ignore[return-value]  # the point of the test

    message, _ = await result_of(does(body))

    assert message.is_error
    assert type(value).__name__ in message.text


async def test_empty_tool_result_gives_a_valid_request() -> None:
    """S1-31: the API refuses blank text, so the request has "(no output)" instead."""
    agent, model, _ = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", returns(" "))]
    )
    await agent.prompt("go")

    assert "(no output)" in str(model.sent()[-1])


async def test_finish_result_hook_changes_the_result_before_it_is_recorded() -> None:
    """S1-16, S1-34: this hook caps results; record, event and request agree."""

    async def finish(call: ToolCall, result: ToolResult) -> ToolResult:
        return ToolResult.of(f"{call.name}: {result.text[:3]}")

    message, events = await result_of(returns("abcdef"), options=LoopConfig(finish_result=finish))

    assert message.text == "work: abc"
    [end] = (event for event in events if isinstance(event, ToolExecutionEnd))
    assert end.result.text == "work: abc"


# Input.


class Point(BaseModel):
    x: int
    label: str = "here"


async def test_tool_gets_validated_input_and_is_not_called_with_invalid_input() -> None:
    """S2-21, S3-21: input is validated before anything runs; the error names the fault's path."""
    seen: list[object] = []

    async def body(
        tool_call_id: str, params: Point, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        seen.append((tool_call_id, params, cancel.cancelled))
        return "ok"

    point = replace(tool("point", body), parameters=Point)
    asks = calls(
        tool_use("point", {"x": 1}, "t1"),
        tool_use("point", {"x": "far"}, "t2"),
        tool_use("point", ["x"], "t3"),
    )
    agent, _, events = scripted_agent(asks, says("ok"), tools=[point])
    result = await agent.prompt("go")

    check_run(events)
    assert seen == [("t1", Point(x=1), False)]
    assert texts(result.messages)["t2"].startswith("Invalid input for point: x:")
    assert "Invalid input" in texts(result.messages)["t3"]


async def test_tool_context_has_ids_user_services_and_state() -> None:
    """S0-18, S2-23, S2-38: the ids are those of the call and of the tool; the state is shared."""
    seen: list[ToolContext] = []
    state: dict[str, Json] = {"count": 1}

    async def body(on_update: ToolContext) -> str:
        seen.append(on_update)
        on_update.state["count"] = 2
        return "ok"

    options = LoopConfig(user_id="ann", services={"clock": 7}, state=state)
    await result_of(does(body), options=options)

    [context] = seen
    assert (context.tool_call_id, context.tool_name, context.user_id) == ("t1", "work", "ann")
    assert (context.services["clock"], state) == (7, {"count": 2})


# Updates and side outputs.


async def test_tool_updates_are_published_between_start_and_end(
    logged: list[dict[str, object]],
) -> None:
    """S0-14, S0-19, S3-22: updates have id and name, and are not in the history."""
    late: list[ToolContext] = []

    async def body(on_update: ToolContext) -> str:
        late.append(on_update)
        for part in ("1 of 3", "2 of 3"):
            on_update(part)
        on_update(ToolResult.of("3 of 3", details={"n": 3}))
        return "done"

    agent, model, events = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", does(body))]
    )
    agent.subscribe(lambda e: late[0]("too late") if e.type == "turn_end" else None)
    await agent.prompt("go")

    batch = [name for name in outline(events) if name.startswith("tool_execution")]
    assert batch == [
        "tool_execution_start t1",
        *["tool_execution_update t1"] * 3,
        "tool_execution_end t1",
    ]
    updates = [event for event in events if isinstance(event, ToolExecutionUpdate)]
    assert [update.partial_result.text for update in updates] == ["1 of 3", "2 of 3", "3 of 3"]
    assert {update.tool_name for update in updates} == {"work"}
    assert "of 3" not in str(model.sent())
    assert {entry["event"] for entry in logged} == {"tool update after its end"}


async def test_tool_updates_carry_the_id_of_their_call() -> None:
    """S0-14, G1: the id distinguishes the updates of concurrent calls."""
    together = asyncio.Barrier(2)

    async def body(on_update: ToolContext) -> str:
        await together.wait()
        on_update(f"from {on_update.tool_call_id}")
        return "ok"

    asks = calls(tool_use("work", {}, "t1"), tool_use("work", {}, "t2"))
    agent, _, events = scripted_agent(asks, says("ok"), tools=[tool("work", does(body))])
    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    updates = [event for event in events if isinstance(event, ToolExecutionUpdate)]
    assert sorted((u.tool_call_id, u.partial_result.text) for u in updates) == [
        ("t1", "from t1"),
        ("t2", "from t2"),
    ]


async def test_side_outputs_of_concurrent_calls_directly_follow_their_call() -> None:
    """S2-38, S2-39: in this test the last call ends first."""
    turns = {"t1": asyncio.Event(), "t2": asyncio.Event()}

    async def body(on_update: ToolContext) -> str:
        id = on_update.tool_call_id
        if id == "t1":
            await turns["t2"].wait()
        on_update.add_output(FileOutput(f"{id}-f", 1, id, "/a.png", "image/png", f"picture {id}"))
        on_update.add_output(WidgetOutput(f"{id}-w", 1, id, "chart", {}, "a chart"))
        turns[id].set()
        return "ok"

    asks = calls(tool_use("work", {}, "t1"), tool_use("work", {}, "t2"))
    agent, model, _ = scripted_agent(asks, says("ok"), tools=[tool("work", does(body))])
    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    entries = [
        output.tool_call_id if isinstance(output, ToolOutput) else output.id
        for output in agent.conversation.prompts[0].output
        if isinstance(output, ToolOutput | FileOutput | WidgetOutput)
    ]
    assert entries == ["t1", "t1-f", "t1-w", "t2", "t2-f", "t2-w"]
    assert "picture t1" in str(model.sent()[-1])
    assert "a chart" not in str(model.sent()[-1])


async def test_finished_call_records_input_result_and_times() -> None:
    """S2-11: the times are those of start and end."""
    agent, _, _ = scripted_agent(
        calls(tool_use("work", {"a": 1})), says("ok"), tools=[tool("work", returns("ok"))]
    )
    await agent.prompt("go")

    call = agent.conversation.call("t1")
    assert call.input == {"a": 1}
    assert call.started_at_ms is not None and call.ended_at_ms is not None
    assert call.at_ms <= call.started_at_ms <= call.ended_at_ms


async def test_calls_with_the_same_id_are_distinguished() -> None:
    """S1-31: some servers repeat ids, but a request must not."""
    asks = calls(tool_use("work", {}, "t1"), tool_use("work", {}, "t1"))
    agent, _, events = scripted_agent(asks, says("ok"), tools=[tool("work", returns("ok"))])
    result = await agent.prompt("go")

    check_run(events)
    assert len(texts(result.messages)) == 2
