"""A pending approval is the state of a result: the run ends, and the decision resumes it."""

import asyncio
from dataclasses import replace
from typing import Literal

import pytest

from agent_cli.contracts.errors import ConversationError, LimitReached, NothingToContinue
from agent_cli.contracts.events import (
    ApprovalRequested,
    Notice,
    PromptOutput,
    PromptStateChanged,
    ToolCall,
    ToolExecutionStart,
)
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Error, Json, Pending, Success, ToolOutput, text_block
from agent_cli.contracts.tooling import Allow, Approval, Ask, Deny, RequireApproval, Tool, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.turn import Turn
from tests.fakes import (
    LIMIT_S,
    MODEL,
    Held,
    ScriptedModel,
    answered,
    calls,
    check_run,
    does,
    listening,
    outline,
    returns,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
)
from tests.tables import each_row


def asking(name: str = "danger", rule: RequireApproval | None = None) -> tuple[Tool, list[str]]:
    """Return a tool that asks first, and the list of calls that ran."""
    ran: list[str] = []

    async def body(on_update: object) -> str:
        ran.append(getattr(on_update, "tool_call_id"))  # noqa: B009 - a ToolContext
        return "boom"

    rule = rule or Approval(required=True, reason="it may hurt")
    return replace(tool(name, does(body)), require_approval=rule), ran


async def test_call_that_needs_approval_ends_the_run_before_it_executes() -> None:
    """S2-27, S2-28, S2-29, S2-31, S2-47: recorded, then published; the program stays free."""
    danger, ran = asking()
    agent, _, events = scripted_agent(calls(tool_use("danger", {"a": 1})), tools=[danger])

    result = await agent.prompt("go")

    assert (result.stop_reason, ran) == ("waiting_for_approval", [])
    check_run(events)
    [request] = (event for event in events if isinstance(event, ApprovalRequested))
    assert request.call == ToolCall("t1", "danger", {"a": 1}, "it may hurt")
    kinds = [event.type for event in events]
    assert kinds.index("app.prompt_state") < kinds.index("app.approval_requested")
    assert agent.conversation.prompts[-1].state == "waiting_for_approval"
    [call] = agent.conversation.questions()
    assert call.result == Pending("approval", "it may hurt")
    assert "tool_execution_start t1" not in outline(events)


async def test_approval_runs_the_call_with_its_original_input() -> None:
    """S2-32, S2-12, S2-51: the call runs once, and the run continues from there."""
    danger, ran = asking()
    agent, model, events = scripted_agent(
        calls(tool_use("danger", {"a": 1})), says("done"), tools=[danger]
    )
    await agent.prompt("go")
    before = [output.id for output in agent.conversation.prompts[0].output]
    events.clear()

    result = await agent.approve("t1")

    check_run(events)
    assert (result.stop_reason, ran) == ("end_turn", ["t1"])
    call = agent.conversation.call("t1")
    assert (call.input, call.decision) == ({"a": 1}, "approved")
    assert isinstance(call.result, Success)
    assert call.asked_reason == "it may hurt"
    assert 0 < (call.asked_at_ms or 0) <= (call.decided_at_ms or -1) <= (call.started_at_ms or -1)
    assert [output.id for output in agent.conversation.prompts[0].output][: len(before)] == before
    assert outline(events)[:6] == [
        "agent_start",
        "turn_start",
        "tool_execution_start t1",
        "tool_execution_end t1",
        "message_start toolResult t1",
        "message_end toolResult t1",
    ]
    assert [e.state for e in events if isinstance(e, PromptStateChanged)] == ["running"]
    assert len(model.requests) == 2


async def test_approval_with_an_edited_input_runs_the_edit_and_tells_the_model() -> None:
    """The model's input is kept as received; the result names the input that ran instead."""
    given: list[Json] = []

    async def body(context: object) -> str:
        return "done"

    def authorize(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        given.append(call.input)
        return Ask("it may hurt")

    danger = tool("danger", does(body))
    agent, model, events = scripted_agent(
        calls(tool_use("danger", {"a": 1})),
        says("ok"),
        tools=[danger],
        options=LoopConfig(authorize_tool=authorize),
    )
    await agent.prompt("go")

    result = await agent.approve("t1", edited={"a": 2})

    assert result.stop_reason == "end_turn"
    assert given == [{"a": 1}, {"a": 2}]
    call = agent.conversation.call("t1")
    assert (call.input, call.block["input"]) == ({"a": 2}, {"a": 1})
    [started] = (event for event in events if isinstance(event, ToolExecutionStart))
    assert started.args == {"a": 2}
    reply, answer = model.requests[-1].messages[-2:]
    assert reply.content == ({"type": "tool_use", "id": "t1", "name": "danger", "input": {"a": 1}},)
    note = '[The user edited this call\'s input before it ran. Used instead: {"a": 2}]'
    assert answer.content == (text_block(note), text_block("done"))


async def test_input_changed_by_a_policy_is_the_one_shown_and_run() -> None:
    """The person decides about the changed input, and approval does not restore the old one."""
    seen: list[Json] = []

    def authorize(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        seen.append(call.input)
        return Ask("it may hurt", input={"a": 2})

    agent, model, events = scripted_agent(
        calls(tool_use("danger", {"a": 1})),
        says("ok"),
        tools=[tool("danger", returns("done"))],
        options=LoopConfig(authorize_tool=authorize),
    )
    await agent.prompt("go")
    [shown] = (event.call for event in events if isinstance(event, ApprovalRequested))

    result = await agent.approve("t1")

    assert (shown.input, seen) == ({"a": 2}, [{"a": 1}, {"a": 2}])
    assert result.stop_reason == "end_turn"
    [started] = (event for event in events if isinstance(event, ToolExecutionStart))
    assert started.args == {"a": 2}
    assert 'Used instead: {"a": 2}' in texts(model.requests[-1].messages)["t1"]


async def test_call_whose_input_changes_after_approval_does_not_run() -> None:
    """Nobody approved the new input."""
    numbers = iter((1, 2))

    def authorize(_call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        return Ask("it may hurt", input={"a": next(numbers)})

    agent, _, _ = scripted_agent(
        calls(tool_use("danger", {"a": 0})),
        says("ok"),
        tools=[tool("danger", returns("done"))],
        options=LoopConfig(authorize_tool=authorize),
    )
    await agent.prompt("go")

    result = await agent.approve("t1")

    assert "Not run: its input was to be changed" in texts(result.messages)["t1"]
    assert agent.conversation.call("t1").started_at_ms is None


async def test_input_changed_by_a_policy_is_validated_again() -> None:
    """A policy must not hand a tool an input that its schema rejects."""
    wanted: dict[str, Json] = {"type": "object", "required": ["a"]}
    agent, _, _ = scripted_agent(
        calls(tool_use("look", {"a": 1})),
        says("ok"),
        tools=[replace(tool("look", returns("done")), parameters=wanted)],
        options=LoopConfig(authorize_tool=lambda *_call: Allow({"b": 1})),
    )

    result = await agent.prompt("go")

    assert "Invalid input for look" in texts(result.messages)["t1"]


async def test_deny_rule_wins_over_an_edited_input() -> None:
    """Editing an input must not get around a rule that denies it."""
    danger, ran = asking()

    def authorize(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        return Deny("never a 2") if call.input == {"a": 2} else Allow()

    agent, _, _ = scripted_agent(
        calls(tool_use("danger", {"a": 1})),
        says("ok"),
        tools=[danger],
        options=LoopConfig(authorize_tool=authorize),
    )
    await agent.prompt("go")

    result = await agent.approve("t1", edited={"a": 2})

    assert ran == []
    assert texts(result.messages)["t1"].endswith("never a 2")


async def test_second_approval_of_a_call_does_nothing() -> None:
    """S2-32: a second approval causes neither a run nor an event."""
    danger, ran = asking()
    agent, _, events = scripted_agent(calls(tool_use("danger")), says("done"), tools=[danger])
    await agent.prompt("go")
    await agent.approve("t1")
    events.clear()

    result = await agent.approve("t1")

    assert (ran, events, result.iterations, result.stop_reason) == (["t1"], [], 0, "")


@each_row("reason", [None, "not on a Friday"])
async def test_rejection_reason_becomes_the_result_of_the_call(reason: str | None) -> None:
    """S2-33: the model reads it; without a reason it reads a default text."""
    danger, ran = asking()
    agent, model, _ = scripted_agent(calls(tool_use("danger")), says("sorry"), tools=[danger])
    await agent.prompt("go")

    result = await (agent.reject("t1", reason) if reason else agent.reject("t1"))

    assert ran == []
    assert texts(result.messages)["t1"] == (reason or "The user declined this call.")
    call = agent.conversation.call("t1")
    assert isinstance(call.result, Error)
    assert call.decision == "rejected"
    assert "is_error" in str(model.sent()[-1])


async def test_pending_approval_defers_the_calls_after_it() -> None:
    """S2-30, S2-35, C4: safe calls before it run first; results are in call order."""
    danger, ran = asking()
    held = Held()
    for id in ("t1", "t3"):
        held.gate(id).open()
    asks = calls(
        tool_use("safe", {}, "t1"), tool_use("danger", {}, "t2"), tool_use("safe", {"n": 3}, "t3")
    )
    agent, _, events = scripted_agent(
        asks,
        says("done"),
        tools=[danger, tool("safe", held)],
        options=LoopConfig(approval="defer"),
    )

    await agent.prompt("go")

    assert (held.started, ran) == (["t1"], [])
    deferred = agent.conversation.call("t3")
    assert (deferred.result, deferred.input) == (Pending("deferred"), {"n": 3})
    assert "message_start toolResult t1" not in outline(events)
    events.clear()

    await agent.approve("t2")

    assert (held.started, ran) == (["t1", "t3"], ["t2"])
    told = [name for name in outline(events) if name.startswith("message_start toolResult")]
    assert told == [f"message_start toolResult t{n}" for n in (1, 2, 3)]


async def test_deferred_call_may_need_its_own_approval() -> None:
    """S2-34: two dangerous calls need two decisions, in order."""
    danger, ran = asking()
    asks = calls(tool_use("danger", {}, "t1"), tool_use("danger", {}, "t2"))
    agent, _, _ = scripted_agent(
        asks, says("done"), tools=[danger], options=LoopConfig(approval="defer")
    )

    await agent.prompt("go")
    assert [call.tool_call_id for call in agent.conversation.questions()] == ["t1"]
    second = await agent.approve("t1")
    assert (second.stop_reason, ran) == ("waiting_for_approval", ["t1"])
    assert [call.tool_call_id for call in agent.conversation.questions()] == ["t2"]
    last = await agent.reject("t2")

    assert (last.stop_reason, ran) == ("end_turn", ["t1"])


async def test_batch_approval_asks_every_question_before_any_call_runs() -> None:
    """C4, S2-29: each question is published, and nothing runs before the last decision."""
    danger, ran = asking()
    safe = tool("safe", returns("ok"))
    asks = calls(
        tool_use("safe", {}, "t1"), tool_use("danger", {}, "t2"), tool_use("danger", {}, "t3")
    )
    agent, _, events = scripted_agent(
        asks, says("done"), tools=[danger, safe], options=LoopConfig(approval="batch")
    )

    await agent.prompt("go")
    assert [call.tool_call_id for call in agent.conversation.questions()] == ["t2", "t3"]
    asked = [event.call.id for event in events if isinstance(event, ApprovalRequested)]
    assert asked == ["t2", "t3"]
    assert "tool_execution_start t1" not in outline(events)
    first = await agent.reject("t3", "no")
    assert (first.stop_reason, ran) == ("waiting_for_approval", [])
    last = await agent.approve("t2")

    assert (last.stop_reason, ran) == ("end_turn", ["t2"])
    assert texts(last.messages) == {"t1": "ok", "t2": "boom", "t3": "no"}


async def test_rejection_reason_survives_a_later_pause() -> None:
    """S2-33, S2-51: decided in one mode, then paused again under another policy."""
    danger, ran = asking()
    look = tool("look", returns("a tree"))
    uses = [tool_use(name, {}, f"t{n}") for n, name in enumerate(["danger", "danger", "look"])]
    agent, model, _ = scripted_agent(
        calls(*uses), says("ok"), tools=[danger, look], options=LoopConfig(approval="batch")
    )
    await agent.prompt("go")
    await agent.reject("t0", "use yarn")
    other = Agent(
        LoopConfig(
            model=MODEL,
            stream_fn=model,
            tools=[danger, look],
            approval="batch",
            authorize_tool=lambda call, _tool, _params: (
                Ask("all of them") if call.name == "look" else Allow()
            ),
        ),
        conversation=agent.conversation,
    )

    paused = await other.approve("t1")
    assert paused.stop_reason == "waiting_for_approval"
    assert (ran, [call.tool_call_id for call in other.conversation.questions()]) == ([], ["t2"])
    decided = [(c.decision, c.result) for c in other.conversation.open_calls()[:2]]
    assert decided == [("rejected", Pending("queued", "use yarn")), ("approved", Pending("queued"))]
    result = await other.approve("t2")

    assert texts(result.messages) == {"t0": "use yarn", "t1": "boom", "t2": "a tree"}
    assert ran == ["t1"]


async def test_approving_a_call_of_a_removed_tool_gives_an_error_result() -> None:
    """S2-36: the result says that the tool is no longer available."""
    danger, _ = asking()
    agent, _, _ = scripted_agent(calls(tool_use("danger")), says("ok"), tools=[danger])
    await agent.prompt("go")
    agent.set_tools([])

    result = await agent.approve("t1")

    assert texts(result.messages)["t1"] == (
        "The tool 'danger' is no longer available; there are: none."
    )


async def test_permission_check_that_raises_asks_for_approval() -> None:
    """S2-22: fail closed, for the tool's own rule and for the policy."""

    def broken(params: object) -> Approval:
        raise RuntimeError("no rules")

    def policy(call: ToolCall, tool: Tool, params: object) -> Verdict:
        raise RuntimeError("no rules")

    by_rule, ran = asking(rule=broken)
    agent, _, _ = scripted_agent(calls(tool_use("danger")), tools=[by_rule])
    assert (await agent.prompt("go")).stop_reason == "waiting_for_approval"
    by_policy, _, _ = scripted_agent(
        calls(tool_use("safe")),
        tools=[tool("safe", returns("ok"))],
        options=LoopConfig(authorize_tool=policy),
    )
    assert (await by_policy.prompt("go")).stop_reason == "waiting_for_approval"
    assert ran == []


@each_row("form", ["plain", "function", "coroutine"])
@each_row("path", ["/safe", "/etc"])
async def test_require_approval_may_depend_on_the_input(
    form: Literal["plain", "function", "coroutine"], path: str
) -> None:
    """S2-22, S2-23: a constant, a function of the input, or a coroutine function of it."""

    def function(params: dict[str, Json]) -> Approval:
        return Approval(required=params["path"] == "/etc", reason="system")

    async def coroutine(params: dict[str, Json]) -> Approval:
        return function(params)

    rules: dict[str, RequireApproval] = {
        "plain": Approval(required=path == "/etc", reason="system"),
        "function": function,
        "coroutine": coroutine,
    }
    danger, ran = asking(rule=rules[form])
    agent, _, _ = scripted_agent(
        calls(tool_use("danger", {"path": path})), says("ok"), tools=[danger]
    )

    result = await agent.prompt("go")

    assert ran == ([] if path == "/etc" else ["t1"])
    assert (result.stop_reason == "waiting_for_approval") == (path == "/etc")


@each_row(
    ("why", "shown"),
    [
        ("no rule allows it", "it may hurt (no rule allows it)"),
        ("it may hurt", "it may hurt"),
    ],
)
async def test_question_shows_the_reasons_of_the_tool_and_of_the_policy(
    why: str, shown: str
) -> None:
    """S2-22, S2-29: neither reason hides the other, and equal reasons are shown once."""
    danger, _ = asking()
    options = LoopConfig(authorize_tool=lambda _call, _tool, _params: Ask(why))
    agent, _, events = scripted_agent(calls(tool_use("danger")), tools=[danger], options=options)

    await agent.prompt("go")

    [request] = (event for event in events if isinstance(event, ApprovalRequested))
    assert request.call.reason == shown


async def test_invalid_input_is_refused_before_the_user_is_asked() -> None:
    """S2-21: neither the policy nor the user sees the call."""
    seen: list[object] = []

    def policy(call: ToolCall, tool: Tool, params: object) -> Verdict:
        seen.append(call)
        return Ask("sure?")

    danger, ran = asking()
    agent, _, _ = scripted_agent(
        calls(tool_use("danger", "not an object")),
        says("ok"),
        tools=[danger],
        options=LoopConfig(authorize_tool=policy),
    )

    result = await agent.prompt("go")

    assert (result.stop_reason, seen, ran) == ("end_turn", [], [])


@each_row("verdict", [Allow(), Deny("never on Sundays"), Ask("sure?")])
async def test_policy_can_allow_deny_or_ask(verdict: Verdict) -> None:
    """C19: run the call, refuse it with a reason, or ask the user."""
    held = Held()
    held.gate("t1").open()

    async def policy(call: ToolCall, tool: Tool, params: object) -> Verdict:
        return verdict

    agent, _, _ = scripted_agent(
        calls(tool_use("held")),
        says("ok"),
        tools=[tool("held", held)],
        options=LoopConfig(authorize_tool=policy),
    )
    result = await agent.prompt("go")

    assert held.started == (["t1"] if verdict == Allow() else [])
    assert (result.stop_reason == "waiting_for_approval") == isinstance(verdict, Ask)
    assert isinstance(verdict, Ask) or len(texts(result.messages)) == 1


async def test_prompts_and_messages_are_refused_while_a_decision_is_pending() -> None:
    """G15, S2-37: prompts, triggers, appended messages and continue; none has a partial effect.

    Nor does a message that is queued meanwhile go out before the decision.
    """
    danger, _ = asking()
    agent, model, _ = scripted_agent(calls(tool_use("danger")), says("ok"), tools=[danger])
    await agent.prompt("go")
    agent.steer("left")
    before = agent.state.messages

    for refused in (agent.prompt("too"), agent.trigger(), agent.continue_()):
        with pytest.raises(ConversationError, match="t1") as caught:
            await refused
        assert not isinstance(caught.value, NothingToContinue)
    for message in (
        UserMessage.of("too"),
        AssistantMessage((text_block("old"),)),
        CustomMessage("note", 1),
    ):
        with pytest.raises(ConversationError, match="t1"):
            agent.append_message(message)

    assert (agent.state.messages, len(model.requests)) == (before, 1)
    assert (await agent.approve("t1")).stop_reason == "end_turn"


async def test_continued_run_can_wait_for_approval() -> None:
    """S2-37, S0-63: the prompt it continues may have failed."""
    danger, ran = asking()
    agent, _, events = scripted_agent(
        RuntimeError(), calls(tool_use("danger")), says("ok"), tools=[danger]
    )
    with pytest.raises(RuntimeError):
        await agent.prompt("go")

    result = await agent.continue_()

    assert result.stop_reason == "waiting_for_approval"
    await agent.approve("t1")
    assert ran == ["t1"]
    check_run(events[-next(i for i, e in enumerate(events[::-1]) if e.type == "agent_start") - 1 :])


async def test_decision_can_be_made_by_another_process() -> None:
    """S2-31, C14: the record alone holds everything a decision needs."""
    danger, ran = asking()
    first, _, _ = scripted_agent(calls(tool_use("danger", {"a": 1})), tools=[danger])
    await first.prompt("go")

    model = ScriptedModel(says("done"))
    options = LoopConfig(model=MODEL, stream_fn=model, tools=[danger])
    second, events = listening(Agent(options, conversation=first.conversation))
    result = await second.approve("t1")

    check_run(events)
    assert (result.stop_reason, ran) == ("end_turn", ["t1"])


async def test_deny_rule_wins_over_an_earlier_approval() -> None:
    """C19, S2-36: the rules in effect when the call would run decide, even after a long wait."""
    danger, ran = asking()
    first, _, _ = scripted_agent(calls(tool_use("danger")), tools=[danger])
    await first.prompt("go")

    options = LoopConfig(
        model=MODEL,
        stream_fn=ScriptedModel(says("done")),
        tools=[danger],
        authorize_tool=lambda _call, _tool, _params: Deny("not any more"),
    )
    result = await Agent(options, conversation=first.conversation).approve("t1")

    assert (ran, texts(result.messages)) == ([], {"t1": "not any more"})


async def test_approving_an_unknown_call_id_is_an_error() -> None:
    """S2-32: a wrong id is a mistake of the caller."""
    agent, _, _ = scripted_agent()

    with pytest.raises(ConversationError, match="t9"):
        await agent.approve("t9")


async def test_every_state_change_of_a_call_is_published() -> None:
    """S2-12, S2-24: one event for the entry, and one for each replacement of it."""
    danger, _ = asking()
    agent, _, events = scripted_agent(calls(tool_use("danger")), says("ok"), tools=[danger])
    await agent.prompt("go")
    await agent.approve("t1")

    steps = [
        (event.index, event.replaced, event.output)
        for event in events
        if isinstance(event, PromptOutput) and isinstance(event.output, ToolOutput)
    ]
    assert {index for index, _, _ in steps} == {0}
    assert [replaced for _, replaced, _ in steps] == [False, True, True, True, True]
    why = [o.result.why for _, _, o in steps if isinstance(o.result, Pending)]
    assert why == ["queued", "approval", "queued", "queued"]


async def test_abort_during_an_approved_call_leaves_a_valid_history() -> None:
    """S0-64: the approved call gets a result like any other."""
    held = Held()
    danger = replace(tool("danger", held), require_approval=Approval(required=True))
    agent, _, events = scripted_agent(calls(tool_use("danger")), says("ok"), tools=[danger])
    await agent.prompt("go")
    events.clear()
    running = asyncio.ensure_future(agent.approve("t1"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    check_run(events)
    [answer] = (m for m in result.messages if isinstance(m, ToolResultMessage))
    assert (result.stop_reason, answer.is_error) == ("aborted", True)
    assert (await agent.prompt("again")).stop_reason == "end_turn"


async def test_rejection_followed_by_an_abort_keeps_its_reason_for_the_model() -> None:
    """Ctrl-C at a question rejects and stops; the next prompt must not call the result lost."""
    danger, ran = asking()
    agent, _, _ = scripted_agent(calls(tool_use("danger")), tools=[danger])
    await agent.prompt("go")
    agent.subscribe(lambda event: agent.abort() if event.type == "agent_start" else None)

    await agent.reject("t1", "stopped here")
    agent.conversation.begin(UserMessage.of("more"))

    assert ran == []
    [answer] = agent.conversation.call("t1").result.content  # type: ignore[union-attr]  # an Error
    assert answer["text"] == "stopped here"


@each_row("decision", ["approve", "reject"])
async def test_abort_right_after_a_decision_leaves_no_call_open(decision: str) -> None:
    """S0-51, S2-33: each call has its answer, rejections included, and nothing is repaired."""
    agent, _, events = scripted_agent(
        calls(tool_use("danger", {}, "t1"), tool_use("danger", {}, "t2")),
        says("ok"),
        tools=[asking()[0]],
        options=LoopConfig(approval="batch"),
    )
    await agent.prompt("go")
    await agent.reject("t1", "not this one")
    stop = agent.subscribe(lambda event: agent.abort() if event.type == "agent_start" else None)
    before = len(events)

    deciding = agent.approve("t2") if decision == "approve" else agent.reject("t2", "nor this")
    result = await deciding
    stop()

    said = "Not run: the run was stopped before its turn."
    assert result.stop_reason == "aborted"
    assert texts(agent.state.messages) == {
        "t1": "not this one",
        "t2": said if decision == "approve" else "nor this",
    }
    start = next(i for i in range(before, len(events)) if events[i].type == "agent_start")
    check_run(events[start:])
    assert answered(events) == ["t1", "t2"]
    told = len(events)
    await agent.prompt("again")
    assert not any(isinstance(event, Notice) for event in events[told:])


async def test_limit_that_ends_the_run_after_an_approval_answers_the_call() -> None:
    """S0-51, S1-31: any limit may end a run before its calls."""
    limits: list[LimitReached] = []

    def prepare(_turn: Turn) -> None:
        for limit in limits:
            raise limit

    agent, _, events = scripted_agent(
        calls(tool_use("danger")),
        tools=[asking()[0]],
        options=LoopConfig(prepare=[prepare], steering="cancel_running"),
    )
    await agent.prompt("go")
    limits.append(LimitReached("enough", limit="max_cost"))

    result = await agent.approve("t1")

    start = max(i for i, event in enumerate(events) if event.type == "agent_start")
    check_run(events[start:])
    assert result.error == "enough"
    assert texts(agent.state.messages) == {"t1": "Not run: the run was stopped before its turn."}


async def test_rejection_reason_is_kept_when_an_earlier_call_is_aborted() -> None:
    """S2-33: sequential calls, with an abort during the first."""
    held = Held()
    slow = replace(tool("slow", held), require_approval=Approval(required=True))
    agent, _, _ = scripted_agent(
        calls(tool_use("slow", {}, "t1"), tool_use("danger", {}, "t2")),
        tools=[slow, asking()[0]],
        options=LoopConfig(approval="batch", tool_execution="sequential"),
    )
    await agent.prompt("go")
    await agent.reject("t2", "not this one")
    running = asyncio.ensure_future(agent.approve("t1"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.abort()
    await asyncio.wait_for(running, LIMIT_S)

    assert texts(agent.state.messages)["t2"] == "not this one"


async def test_bug_before_an_approved_call_starts_leaves_no_call_without_a_result() -> None:
    """S0-42: the next prompt would carry it out, or be refused by the API."""
    danger, ran = asking()
    faults: list[Exception] = []

    def prepare(_turn: Turn) -> None:
        if faults:
            raise faults.pop()

    model = ScriptedModel(calls(tool_use("danger", {}, "t1")), says("hello"))
    config = LoopConfig(model=MODEL, stream_fn=model, tools=[danger], prepare=(prepare,))
    agent, events = listening(Agent(config))
    await agent.prompt("go")
    faults.append(ValueError("a broken plugin"))
    with pytest.raises(ValueError, match="a broken plugin"):
        await agent.approve("t1")

    [result] = agent.conversation.results_of_last_reply()
    assert (result.is_error, ran, agent.conversation.open_calls()) == (True, [], [])
    assert (await agent.prompt("and?")).stop_reason == "end_turn"
    assert [event.type for event in events].count("agent_start") == 3
