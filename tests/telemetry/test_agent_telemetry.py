"""Spans and metrics of runs with every possible ending."""

import asyncio
import time
from dataclasses import replace
from functools import partial

import pytest
from opentelemetry.trace import SpanContext, StatusCode, get_current_span

from agent_cli.contracts.errors import ModelError, ProviderNotFound, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, ProviderRegistry, Reply, Retrying
from agent_cli.contracts.timeline import ModelUsage, Usage, text_block
from agent_cli.contracts.tooling import Allow, Ask, Deny, ToolContext, ToolResult, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.telemetry.runs import current_run
from tests.fakes import (
    LIMIT_S,
    MODEL,
    Gate,
    Held,
    ScriptedModel,
    calls,
    does,
    raises,
    returns,
    says,
    stream_of,
    tool,
    tool_use,
)
from tests.telemetry.recording import Recording

CHAT = f"chat {MODEL.id}"
RUN = "invoke_agent agent-cli"
DECISIONS = "agent_cli.permission.decisions"


def decides(verdict: Verdict) -> LoopConfig:
    return LoopConfig(authorize_tool=lambda *_call: verdict)


def counted(recording: Recording) -> dict[str, float]:
    """Return the count of each decision."""
    points = recording.points(DECISIONS)
    return {labels["agent_cli.permission.decision"]: number for labels, number in points}


class Provides:
    """A provider on a script."""

    def __init__(self, script: ScriptedModel) -> None:
        self.stream = script


async def test_a_call_to_a_provider_of_a_registry_has_a_span() -> None:
    """As docs/library.md builds an agent; only a `stream_fn` was recorded."""
    recording = Recording()
    telemetry = recording.telemetry()
    config = telemetry.around(LoopConfig(model=MODEL, registry=ProviderRegistry()))
    assert config.registry
    config.registry.register(MODEL.api, Provides(ScriptedModel(says("hello"))))
    agent = Agent(config)
    telemetry.follow(agent)

    await agent.prompt("go")
    with pytest.raises(ProviderNotFound, match="registered: scripted"):
        agent.set_model(Model("other", api="other"))
        await agent.prompt("go")

    assert recording.names == [RUN, CHAT]


@pytest.mark.parametrize("has_result", [True, False])
async def test_attempt_belongs_to_the_span_of_its_call_but_not_the_wait_for_a_person(
    has_result: bool,
) -> None:
    """Without a result a person is asked, and the call begins after the answer."""
    recording = Recording()
    inside_ns: list[int] = []

    async def attempt(*_call: object) -> ToolResult | None:
        inside_ns.append(time.time_ns())
        return ToolResult.of("a tree") if has_result else None

    look = replace(tool("look", returns("a tree")), attempt=attempt)
    failed: list[str] = []

    def verdict(call: ToolCall, *_more: object) -> Verdict:
        return Ask("why", attempt_failed=None if failed else partial(failed.append, call.id))

    config = LoopConfig(authorize_tool=verdict)
    agent = recording.agent(
        calls(tool_use("look", id="t1")), says("done"), tools=[look], options=config
    )

    await agent.prompt("go")
    answered_ns = time.time_ns()
    if not has_result:
        await agent.approve("t1")

    [span] = [each for each in recording.spans if each.name == "execute_tool look"]
    assert span.start_time
    assert (span.start_time <= inside_ns[0]) == has_result
    assert (span.start_time >= answered_ns) == (not has_result)


async def test_prompt_that_waits_for_approvals_is_one_span() -> None:
    """The waiting time is the user's, and the answer belongs to the prompt that asked."""
    recording = Recording()
    agent = recording.agent(
        calls(tool_use("look", id="t1"), tool_use("look", id="t2")),
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=decides(Ask("why")),
    )

    await agent.prompt("go")
    before = recording.names
    assert current_run() is None
    await agent.approve("t1")
    await agent.reject("t2")

    assert before == [CHAT]
    assert sorted(recording.names) == sorted([RUN, CHAT, CHAT, *["execute_tool look"] * 2])
    top = next(span for span in recording.spans if span.name == RUN)
    below = [span for span in recording.spans if span is not top]
    assert [span.parent for span in below] == [top.get_span_context()] * len(below)
    assert counted(recording) == {"ask": 2, "approved": 1, "rejected": 1}


async def test_span_of_a_waiting_prompt_is_closed_with_the_session() -> None:
    """A user who leaves without an answer leaves no gap in the trace."""
    recording = Recording()
    telemetry = recording.telemetry()
    agent = recording.agent(
        calls(tool_use("look")),
        tools=[tool("look", returns("a tree"))],
        options=decides(Ask("why")),
        telemetry=telemetry,
    )

    await agent.prompt("go")
    telemetry.close()

    assert recording.attributes(RUN)["agent_cli.stop_reason"] == "waiting_for_approval"


async def test_denied_tool_call_is_counted_and_its_span_failed() -> None:
    recording = Recording()
    agent = recording.agent(
        calls(tool_use("look")),
        says("then not"),
        tools=[tool("look", returns("never"))],
        options=decides(Deny("no")),
    )

    await agent.prompt("go")

    assert counted(recording) == {"deny": 1}
    assert recording.attributes("execute_tool look")["error.type"] == "tool_error"


async def test_span_of_a_failed_tool_has_the_error_type_and_no_message() -> None:
    """The message may quote a file; only the kind of the error is sent."""
    recording = Recording()
    agent = recording.agent(
        calls(tool_use("look")),
        says("sorry"),
        tools=[tool("look", raises(ToolError("canary: /home/me/secret")))],
    )

    await agent.prompt("go")

    (span,) = [span for span in recording.spans if span.name == "execute_tool look"]
    assert span.status.status_code is StatusCode.ERROR
    assert "canary" not in "".join(each.to_json() for each in recording.spans)
    ((labels, _),) = recording.points("gen_ai.execute_tool.duration")
    assert labels == {"gen_ai.tool.name": "look", "error.type": "tool_error"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelError("canary", kind="overloaded_error", status=529), "overloaded_error"),
        (ModelError("canary", status=502), "502"),
        (ModelError("canary"), "ModelError"),
    ],
)
async def test_failed_model_call_fails_the_span_of_its_run(error: ModelError, kind: str) -> None:
    recording = Recording()
    agent = recording.agent(error)

    await agent.prompt("go")

    assert [recording.attributes(name)["error.type"] for name in (RUN, CHAT)] == [kind, kind]
    assert {span.status.status_code for span in recording.spans} == {StatusCode.ERROR}
    assert "canary" not in "".join(span.to_json() for span in recording.spans)
    ((labels, _),) = recording.points("gen_ai.client.operation.duration")
    assert labels["error.type"] == kind


async def test_aborted_run_is_not_recorded_as_a_failure() -> None:
    """The user stopped it on purpose; an alert would be false."""
    recording, held = Recording(), Held()
    agent = recording.agent(calls(tool_use("wait")), tools=[tool("wait", held)])

    async with asyncio.timeout(LIMIT_S):
        running = asyncio.ensure_future(agent.prompt("go"))
        await held.gate("t1").reached.wait()
        agent.abort()
        await running

    assert recording.attributes(RUN)["agent_cli.stop_reason"] == "aborted"
    (top,) = [span for span in recording.spans if span.name == RUN]
    assert top.status.status_code is StatusCode.UNSET
    assert sorted(recording.names) == [CHAT, "execute_tool wait", RUN]


async def test_aborted_model_call_is_recorded_as_cancelled() -> None:
    recording, gate = Recording(), Gate()
    agent = recording.agent([*stream_of(says("never"))[:1], gate])

    async with asyncio.timeout(LIMIT_S):
        running = asyncio.ensure_future(agent.prompt("go"))
        await gate.reached.wait()
        agent.abort()
        await running

    assert recording.attributes(CHAT)["error.type"] == "cancelled"
    assert {span.status.status_code for span in recording.spans} == {StatusCode.UNSET}


async def test_retries_are_events_of_their_model_call_span() -> None:
    recording = Recording()
    again = Retrying(1, 3, 0.5, "canary")
    agent = recording.agent([again, *stream_of(says("hi"))])

    await agent.prompt("go")

    (chat,) = [span for span in recording.spans if span.name == CHAT]
    assert [event.name for event in chat.events] == ["agent_cli.retry"]
    assert recording.attributes(CHAT)["http.request.resend_count"] == 1
    assert "canary" not in chat.to_json()


async def test_parallel_tool_calls_have_their_own_spans() -> None:
    """A tool's spans are below its own call, however many run."""
    recording, seen = Recording(), dict[str, SpanContext]()
    gate = asyncio.Barrier(2)

    async def look(context: ToolContext) -> str:
        await gate.wait()
        seen[context.tool_call_id] = get_current_span().get_span_context()
        return "seen"

    agent = recording.agent(
        calls(tool_use("look", id="t1"), tool_use("look", id="t2")),
        says("done"),
        tools=[tool("look", does(look))],
    )

    async with asyncio.timeout(LIMIT_S):
        await agent.prompt("go")

    ids = {
        dict(span.attributes or {})["gen_ai.tool.call.id"]: span.get_span_context()
        for span in recording.spans
        if span.name == "execute_tool look"
    }
    assert seen == ids
    assert seen["t1"] != seen["t2"]


async def test_run_span_is_a_child_of_the_callers_span() -> None:
    """A library user's span has both prompts below it, and no context leaks."""
    recording = Recording()
    agent = recording.agent(says("one"), says("two"))
    tracer = recording.tracer_provider.get_tracer("theirs")

    with tracer.start_as_current_span("request") as theirs:
        await agent.prompt("go")
        assert get_current_span() is theirs
    await agent.prompt("again")

    first, second = [span for span in recording.spans if span.name == RUN]
    assert first.parent == theirs.get_span_context()
    assert second.parent is None


async def test_usage_and_cost_are_counted() -> None:
    """The metric agrees with the spans; a model without a price has no known cost."""
    recording = Recording()
    usage = Usage(10, 5, cache_read_tokens=70, cache_write_5m_tokens=20, thinking_tokens=4)
    telemetry = recording.telemetry(price=lambda _model, used: used.output_tokens * 1_000_000)
    agent = recording.agent(says("hi", usage=usage), telemetry=telemetry)

    await agent.prompt("go")

    chat = recording.attributes(CHAT)
    assert chat["gen_ai.usage.input_tokens"] == 100
    assert chat["gen_ai.usage.cache_read.input_tokens"] == 70
    assert chat["gen_ai.usage.cache_creation.input_tokens"] == 20
    assert chat["gen_ai.usage.reasoning.output_tokens"] == 4
    tokens = recording.points("gen_ai.client.token.usage")
    assert {labels["gen_ai.token.type"]: number for labels, number in tokens} == {
        "input": 100,
        "output": 5,
    }
    assert [number for _, number in recording.points("agent_cli.cost.usd")] == [5.0]


async def test_each_model_has_its_own_usage_and_cost_where_one_declined() -> None:
    """The labels name the model that used the tokens, and its price is asked for."""
    recording = Recording()
    prices = {"first": 1_000_000, "second": 2_000_000}
    telemetry = recording.telemetry(price=lambda name, used: prices[name] * used.output_tokens)
    reply = Reply("m", "second", (text_block("hi"),), "end_turn", Usage(10, 5), declined="first")
    reply = replace(reply, beside=(ModelUsage("first", Usage(20, 3)),))
    agent = recording.agent(reply, telemetry=telemetry)

    await agent.prompt("go")

    model = "gen_ai.response.model"
    tokens = recording.points("gen_ai.client.token.usage")
    costs = recording.points("agent_cli.cost.usd")
    assert {(labels[model], number) for labels, number in tokens} == {
        *(("first", 20), ("first", 3)),
        *(("second", 10), ("second", 5)),
    }
    assert {labels[model]: number for labels, number in costs} == {"first": 3.0, "second": 10.0}


async def test_tool_name_made_up_by_the_model_becomes_a_sendable_span_name() -> None:
    """A lone surrogate, or a megabyte: one such span would lose its whole batch."""
    recording = Recording()
    name = "x\ud800" + "y" * 10_000
    agent = recording.agent(calls(tool_use(name)), says("oh"))

    await agent.prompt("go")

    (span,) = [span for span in recording.spans if span.name.startswith("execute_tool")]
    assert len(span.name.encode()) < 300


async def test_model_call_outside_a_run_is_recorded() -> None:
    """`/compact` calls the model between two prompts."""
    recording = Recording()
    stream = recording.telemetry().stream(ScriptedModel(says("summary")))
    asked = ModelRequest(model=MODEL, messages=(UserMessage.of("go"),))

    async for _event in stream(asked):
        pass

    assert recording.names == [CHAT]
    assert recording.attributes(CHAT)["gen_ai.response.finish_reasons"] == ("end_turn",)


async def test_no_decision_is_counted_without_a_permission_policy() -> None:
    recording = Recording()
    agent = recording.agent(
        calls(tool_use("look")), says("done"), tools=[tool("look", returns("a tree"))]
    )

    await agent.prompt("go")

    assert counted(recording) == {}


async def test_allowed_tool_call_is_counted_once() -> None:
    recording = Recording()
    agent = recording.agent(
        calls(tool_use("look")),
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=decides(Allow()),
    )

    await agent.prompt("go")

    assert counted(recording) == {"allow": 1}


def test_agent_is_no_longer_recorded_after_unfollowing() -> None:
    recording = Recording()
    agent = Agent(LoopConfig(model=MODEL, stream_fn=ScriptedModel(says("hi"))))

    recording.telemetry().follow(agent)()
    asyncio.run(agent.prompt("go"))

    assert recording.names == []
