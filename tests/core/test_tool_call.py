"""One tool call: a tool cannot end the run, exceed its limit or delay an abort."""

import asyncio
import contextlib
import subprocess
import sys
from dataclasses import replace

from agent_cli.contracts.events import Notice, ToolCall, ToolExecutionEnd
from agent_cli.contracts.media_files import image_block
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.timeline import Error, FileOutput, Success, text_block
from agent_cli.contracts.tooling import (
    Allow,
    Ask,
    Execute,
    Tool,
    ToolContext,
    ToolResult,
    Verdict,
)
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.returned_values import bounded
from tests.fakes import (
    LIMIT_S,
    LOOK,
    Gate,
    calls,
    check_run,
    does,
    notices,
    raises,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
)
from tests.tables import each_row

SOON = LoopConfig(tool_timeout_s=0.01, tool_stop_timeout_s=0.01)


class Stubborn:
    """A tool's body that ignores cancellation until the test lets it end."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.ended = asyncio.Event()

    async def __call__(self, on_update: ToolContext) -> str:
        while not self.ended.is_set():
            try:
                await self.gate.pass_through()
            except asyncio.CancelledError:
                continue
            on_update("late")
            on_update.add_file_output("late.txt", "text/plain", "late")
            self.ended.set()
        return "late"


@each_row("code", [0, 3, "bye", None])
async def test_tool_that_calls_sys_exit_gives_an_error_result(code: int | str | None) -> None:
    """S0-53: `sys.exit` in a tool used to end the event loop, and the program with it."""
    agent, _, events = scripted_agent(
        calls(tool_use("leave")),
        says("ok"),
        tools=[tool("leave", raises(SystemExit(code)))],
    )

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert texts(result.messages) == {
        "t1": f"leave tried to end the program with sys.exit({code!r})."
    }
    assert result.stop_reason == "end_turn"
    check_run(events)


async def test_panic_of_a_library_is_an_error_result() -> None:
    """S1-14: what Rust's `pyo3` raises for a panic is a BaseException; it ended the run."""

    class PanicException(BaseException):
        """As `pyo3_runtime.PanicException`."""

    broken = tool("parse", raises(PanicException("index out of bounds")))
    agent, _, events = scripted_agent(calls(tool_use("parse")), says("ok"), tools=[broken])

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert texts(result.messages) == {"t1": "index out of bounds"}
    assert result.stop_reason == "end_turn"
    check_run(events)


async def test_tool_that_ignores_cancellation_is_abandoned_at_the_time_limit(
    logged: list[dict[str, object]],
) -> None:
    """S0-18, G5: the run continues and says so; later output of the tool is dropped."""
    stubborn = Stubborn()
    tools = [tool("stubborn", does(stubborn)), LOOK]
    asks = calls(tool_use("stubborn", {}, "t1"), tool_use("look", {}, "t2"))
    agent, _, events = scripted_agent(asks, says("ok"), tools=tools, options=SOON)

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert texts(result.messages)["t2"] == "a tree"
    answer = texts(result.messages)["t1"]
    assert answer.startswith("stubborn took longer than 0.01 s and was stopped.")
    assert answer.endswith(" It did not end when it was told to and may still be running.")
    left = "stubborn did not end when it was told to; it may still be running"
    assert [event for event in events if isinstance(event, Notice)] == [Notice("warning", left)]
    check_run(events)
    told, outputs = len(events), len(agent.conversation.prompts[0].output)
    stubborn.gate.open()
    await asyncio.wait_for(stubborn.ended.wait(), LIMIT_S)
    assert (len(events), len(agent.conversation.prompts[0].output)) == (told, outputs)
    assert [entry["event"] for entry in logged] == [
        "tool update after its end",
        "tool output after its end",
    ]


async def test_tool_context_tells_whether_the_user_approved_the_call() -> None:
    """S2-33: a sandbox may be wider after an approval, and never without one."""
    known: list[tuple[str, bool]] = []

    async def note(context: ToolContext) -> str:
        known.append((context.tool_call_id, context.is_approved))
        return "noted"

    def ask_about_second(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        return Ask("a yes is needed") if call.id == "t2" else Allow()

    agent, _, _ = scripted_agent(
        calls(tool_use("note", {}, "t1"), tool_use("note", {}, "t2")),
        says("ok"),
        tools=[tool("note", does(note))],
        options=LoopConfig(authorize_tool=ask_about_second),
    )
    await agent.prompt("go")
    await agent.approve("t2")

    assert known == [("t1", False), ("t2", True)]


async def test_tool_that_ignores_cancellation_does_not_delay_an_abort() -> None:
    """S0-18, S0-64: the run ends, the next one works, and the model reads of the running tool."""
    stubborn = Stubborn()
    options = LoopConfig(tool_stop_timeout_s=0.01)
    agent, model, events = scripted_agent(
        calls(tool_use("stubborn")),
        says("ok"),
        tools=[tool("stubborn", does(stubborn))],
        options=options,
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(stubborn.gate.reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert result.stop_reason == "aborted"
    assert texts(result.messages)["t1"].endswith("may still be running.")
    assert len(notices(events)) == 1
    check_run(events)
    assert (await agent.prompt("again")).stop_reason == "end_turn"
    assert "may still be running" in str(model.sent())
    stubborn.gate.open()
    await asyncio.wait_for(stubborn.ended.wait(), LIMIT_S)


async def test_stopped_tool_may_clean_up_within_the_stop_timeout() -> None:
    """S0-18: such a clean-up causes no warning."""
    cleaned: list[str] = []

    async def body(on_update: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(on_update.tool_call_id)
        return "never"

    options = LoopConfig(tool_timeout_s=0.01, tool_stop_timeout_s=LIMIT_S)
    agent, _, events = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", does(body))], options=options
    )

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert cleaned == ["t1"]
    assert "still be running" not in texts(result.messages)["t1"]
    assert notices(events) == []


async def test_result_returned_after_the_time_limit_is_discarded() -> None:
    """G5: the limit was exceeded; the model must not read of a success."""

    async def body(on_update: ToolContext) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "all went well"

    options = LoopConfig(tool_timeout_s=0.01)
    agent, _, _ = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", does(body))], options=options
    )

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    [message] = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    assert message.is_error
    assert message.text.startswith("work took longer than 0.01 s")


async def test_result_that_a_tool_returns_instead_of_stopping_is_discarded() -> None:
    """S4-17: it swallowed its cancellation; what it says after that is not what was asked for."""
    gate = Gate()

    async def body(_context: ToolContext) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await gate.pass_through()
        return "all went well"

    agent, _, _ = scripted_agent(calls(tool_use("work")), tools=[tool("work", does(body))])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert "all went well" not in texts(result.messages)["t1"]
    assert isinstance(agent.conversation.call("t1").result, Error)


async def test_exception_of_a_cancelled_tool_is_logged(logged: list[dict[str, object]]) -> None:
    """No task awaits it any more, and the garbage collector must not be what reports it."""

    async def body(on_update: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise GeneratorExit("the clean-up failed")

    agent, _, _ = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", does(body))], options=SOON
    )

    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    [entry] = logged
    assert entry["event"] == "work failed after it was cancelled"
    assert str(entry["exception"]).endswith("GeneratorExit: the clean-up failed")


async def test_tool_execution_end_carries_the_result_the_model_reads() -> None:
    """S0-15: this holds for an abandoned call, too."""
    stubborn = Stubborn()
    agent, _, events = scripted_agent(
        calls(tool_use("stubborn")),
        says("ok"),
        tools=[tool("stubborn", does(stubborn))],
        options=SOON,
    )

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    [end] = [event for event in events if isinstance(event, ToolExecutionEnd)]
    assert (end.result.text, end.is_error) == (texts(result.messages)["t1"], True)
    stubborn.gate.open()
    await asyncio.wait_for(stubborn.ended.wait(), LIMIT_S)


async def test_side_outputs_of_a_running_call_are_kept() -> None:
    """S2-39: only those added after its end are dropped."""

    async def body(on_update: ToolContext) -> ToolResult:
        on_update.add_file_output("plot.png", "image/png", "a plot")
        return ToolResult.of("ok")

    agent, _, _ = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[replace(tool("work", does(body)))]
    )

    await agent.prompt("go")

    outputs = agent.conversation.prompts[0].output
    assert [output.path for output in outputs if isinstance(output, FileOutput)] == ["plot.png"]


HOST = """
import asyncio
from agent_cli import Agent, LoopConfig, UserMessage
from agent_cli.contracts.tooling import Tool
from tests.fakes import MODEL, ScriptedModel, calls, says, tool, tool_use
{configure}

async def body(tool_call_id, params, cancel, on_update):
    secret = "hunter2" * 3
    raise ValueError("the disk is full")

model = ScriptedModel(calls(tool_use("work")), says("ok"))
agent = Agent(LoopConfig(model=MODEL, stream_fn=model, tools=[tool("work", body)]))
ends = []
agent.subscribe(lambda event: ends.append(event) if event.type == "tool_execution_end" else None)
result = asyncio.run(agent.prompt("go"))
assert result.stop_reason == "end_turn" and len(ends) == 1, result
"""


def test_tool_that_raises_prints_nothing_in_an_unconfigured_host_program() -> None:
    """A library is silent until its host configures logging."""
    run = _host(configure="")

    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_exception_in_a_tool_logs_one_entry_without_local_variables() -> None:
    """Locals hold keys and file contents; structlog's own default prints all of them."""
    run = _host(configure="import logging; logging.basicConfig(format='ENTRY %(message)s')")

    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    assert run.stderr.count("ENTRY") == 1
    assert "the disk is full" in run.stderr
    assert "hunter2hunter2" not in run.stderr


def _host(*, configure: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HOST.format(configure=configure)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@each_row("how", ["abort", "steer"])
async def test_finished_call_keeps_its_result_when_finish_result_is_interrupted(how: str) -> None:
    """S0-64, C3: the hook is slow; the model must not be told to repeat the call."""
    gate = Gate()

    async def finish(_call: ToolCall, result: ToolResult) -> ToolResult:
        await gate.pass_through()
        return result

    options = LoopConfig(finish_result=finish, steering="cancel_running")
    image = image_block(b"hi", "image/png")
    returned = ToolResult((text_block("x" * 50_000), image), {"exit": 0})
    agent, _, events = scripted_agent(
        calls(tool_use("work")), says("ok"), tools=[tool("work", gives(returned))], options=options
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    if how == "abort":
        agent.abort()
    else:
        agent.steer(UserMessage.of("wait"))
    result = await asyncio.wait_for(running, LIMIT_S)

    check_run(events)
    assert result.stop_reason == ("aborted" if how == "abort" else "end_turn")
    kept = agent.conversation.call("t1").result
    assert isinstance(kept, Success)
    assert (kept.details, kept.content[1]) == ({"exit": 0}, image)
    assert str(kept.content[0]["text"]) == bounded("x" * 50_000)


def gives(result: ToolResult) -> Execute:
    async def body(_context: ToolContext) -> ToolResult:
        return result

    return does(body)
