"""A call may be attempted without effects before a person is asked about it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ApprovalRequested, Event, ToolCall, ToolExecutionEnd
from agent_cli.contracts.options import ApprovalOrder
from agent_cli.contracts.side_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.contracts.tooling import Ask, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.attempts import STOPPED_TRYING
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import answered, calls, check_run, does, says, scripted_agent, tool, tool_use
from tests.tables import each_row


@dataclass
class Shell:
    """Two tools: calls of `shell` are attempted first, those of `edit` ask at once."""

    writes: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()
    hangs: frozenset[str] = frozenset()
    ran: list[str] = field(default_factory=list[str])
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    failed: set[str] = field(default_factory=set[str])

    def tools(self) -> list[Tool]:
        async def body(context: ToolContext) -> str:
            self.ran.append(f"run {context.tool_call_id}")
            return "changed"

        async def attempt(
            call_id: str, _params: object, _cancel: object, _context: object
        ) -> ToolResult | None:
            self.ran.append(f"attempt {call_id}")
            if call_id in self.waits:
                await self.may_end.wait()
            self.may_end.set()
            if call_id in self.hangs:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ToolError("Its output until then:\nline 1") from None
            return None if call_id in self.writes else ToolResult.of("looked")

        run = does(body)
        return [replace(tool("shell", run), attempt=attempt), tool("edit", run)]

    def authorize(self, call: ToolCall, _tool: object, _params: object) -> Verdict:
        if call.name == "edit":
            return Ask("it changes a file")
        failed = None if call.id in self.failed else partial(self.failed.add, call.id)
        return Ask("its effect is not known", attempt_failed=failed)

    def options(self, approval: ApprovalOrder = "batch") -> LoopConfig:
        return LoopConfig(authorize_tool=self.authorize, approval=approval)


def asked(events: Sequence[Event]) -> list[str]:
    return [event.call.id for event in events if isinstance(event, ApprovalRequested)]


async def test_call_whose_attempt_has_a_result_asks_nobody_and_does_not_run() -> None:
    shell = Shell()
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2")),
        says("done"),
        tools=shell.tools(),
        options=shell.options(),
    )

    result = await agent.prompt("go")

    check_run(events)
    assert (result.stop_reason, shell.ran) == ("end_turn", ["attempt t1", "attempt t2"])
    tried = [event.tool_call_id for event in events if isinstance(event, ToolAttemptStart)]
    assert (asked(events), tried) == ([], ["t1", "t2"])


@each_row("approval", ["batch", "defer"])
async def test_call_whose_attempt_has_no_result_asks_once_and_runs_after_the_answer(
    approval: ApprovalOrder,
) -> None:
    shell = Shell(writes=frozenset({"t1"}))
    agent, _, events = scripted_agent(
        calls(tool_use("shell")), says("done"), tools=shell.tools(), options=shell.options(approval)
    )

    waiting = await agent.prompt("go")
    assert (waiting.stop_reason, shell.ran, asked(events)) == (
        "waiting_for_approval",
        ["attempt t1"],
        ["t1"],
    )
    await agent.approve("t1")

    assert shell.ran == ["attempt t1", "run t1"]
    assert asked(events) == ["t1"]


@each_row("approval", ["batch", "defer"])
async def test_attempt_waits_for_the_calls_before_it(approval: ApprovalOrder) -> None:
    """Threat 25: it would see the files as they were before a change that the reply asks for."""
    shell = Shell()
    agent, _, events = scripted_agent(
        calls(tool_use("edit"), tool_use("shell", id="t2")),
        says("done"),
        tools=shell.tools(),
        options=shell.options(approval),
    )

    await agent.prompt("go")
    assert (shell.ran, asked(events)) == ([], ["t1"])
    await agent.approve("t1")

    assert shell.ran == ["run t1", "attempt t2"]
    assert asked(events) == ["t1"]


async def test_attempts_of_one_reply_run_side_by_side_and_end_in_call_order() -> None:
    """They change nothing; the first waits here until the second has begun."""
    shell = Shell(waits=frozenset({"t1"}))
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2")),
        says("done"),
        tools=shell.tools(),
        options=shell.options(),
    )

    async with asyncio.timeout(10):
        await agent.prompt("go")

    check_run(events)
    assert (shell.ran, asked(events)) == (["attempt t1", "attempt t2"], [])
    assert answered(events) == ["t1", "t2"]


async def test_attempts_run_one_after_another_where_tools_do() -> None:
    shell = Shell()
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2")),
        says("done"),
        tools=shell.tools(),
        options=replace(shell.options(), tool_execution="sequential"),
    )

    await agent.prompt("go")

    starts = (ToolAttemptStart, ToolExecutionEnd)
    told = [event.tool_call_id for event in events if isinstance(event, starts)]
    assert told == ["t1", "t1", "t2", "t2"]


@each_row("hangs", [frozenset[str](), frozenset({"t2"})])
@each_row("approval", ["batch", "defer"])
async def test_attempt_beside_one_without_a_result_does_not_count(
    approval: ApprovalOrder, hangs: frozenset[str]
) -> None:
    """Threat 25: the second saw the files before the change that the first asks for."""
    first = frozenset({"t1"})
    shell = Shell(writes=first, waits=first, hangs=hangs)
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2")),
        says("done"),
        tools=shell.tools(),
        options=shell.options(approval),
    )

    async with asyncio.timeout(10):
        await agent.prompt("go")
    assert (shell.ran, asked(events)) == (["attempt t1", "attempt t2"], ["t1"])
    shell.hangs = frozenset()
    await agent.approve("t1")

    assert shell.ran == ["attempt t1", "attempt t2", "run t1", "attempt t2"]
    assert (asked(events), answered(events)) == (["t1"], ["t1", "t2"])


async def test_call_behind_attempts_waits_for_them() -> None:
    """It may change what they look at."""
    shell = Shell()
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2"), tool_use("edit", id="t3")),
        says("done"),
        tools=shell.tools(),
        options=shell.options(),
    )

    await agent.prompt("go")
    assert (shell.ran, asked(events)) == (["attempt t1", "attempt t2"], ["t3"])
    await agent.approve("t3")

    assert shell.ran == ["attempt t1", "attempt t2", "run t3"]


async def test_nothing_is_attempted_once_a_stricter_mode_is_chosen() -> None:
    """Threat 25: plan mode may begin while an earlier call of the reply runs."""
    shell = Shell()

    def authorize(call: ToolCall, _tool: object, _params: object) -> Verdict:
        asked = shell.authorize(call, _tool, _params)
        assert isinstance(asked, Ask)
        return replace(asked, holds=lambda: False)

    agent, _, events = scripted_agent(
        calls(tool_use("shell")), tools=shell.tools(), options=LoopConfig(authorize_tool=authorize)
    )

    await agent.prompt("go")

    assert (shell.ran, asked(events)) == ([], ["t1"])


@each_row("is_enough", [True, False])
async def test_output_of_an_attempt_is_shown_while_it_runs(is_enough: bool) -> None:
    """Before the call's start, so it has an event of its own: a person may still be asked."""
    shell = Shell()
    partial = ToolResult.of("half")

    async def attempt(
        _id: str, _params: object, _cancel: object, context: ToolContext
    ) -> ToolResult | None:
        context(partial)
        return ToolResult.of("looked") if is_enough else None

    first, _ = shell.tools()
    agent, _, events = scripted_agent(
        calls(tool_use("shell")),
        says("done"),
        tools=[replace(first, attempt=attempt)],
        options=shell.options(),
    )

    await agent.prompt("go")

    check_run(events)
    told = [event for event in events if isinstance(event, ToolAttemptUpdate)]
    assert told == [ToolAttemptUpdate("t1", "shell", partial)]
    assert asked(events) == ([] if is_enough else ["t1"])


async def test_run_stopped_during_an_attempt_leaves_no_call_open() -> None:
    shell = Shell()

    async def attempt(
        _id: str, _params: object, _cancel: object, _context: object
    ) -> ToolResult | None:
        agent.abort()
        await asyncio.Event().wait()
        return None

    first, _ = shell.tools()
    agent, _, events = scripted_agent(
        calls(tool_use("shell")),
        tools=[replace(first, attempt=attempt)],
        options=shell.options(),
    )

    result = await agent.prompt("go")

    check_run(events)
    assert (result.stop_reason, agent.conversation.open_calls()) == ("aborted", [])


async def test_stopped_attempt_ends_with_what_it_had_printed() -> None:
    """It stood on the screen; "stopped before its turn" was all the model had read."""
    shell = Shell()

    async def attempt(
        _id: str, _params: object, cancel: CancelToken, _context: object
    ) -> ToolResult | None:
        async with cancel.scope():
            try:
                agent.abort()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ToolError("Its output until then:\nline 1") from None
        return None

    first, _ = shell.tools()
    agent, _, events = scripted_agent(
        calls(tool_use("shell"), tool_use("shell", id="t2")),
        tools=[replace(first, attempt=attempt)],
        options=shell.options(),
    )

    result = await agent.prompt("go")

    check_run(events)
    first_end, second_end = [each for each in events if isinstance(each, ToolExecutionEnd)]
    assert result.stop_reason == "aborted"
    assert first_end.result.text == f"{STOPPED_TRYING} Its output until then:\nline 1"
    assert second_end.result.text.startswith("Not run:")


async def test_attempt_whose_task_is_cancelled_ends_with_what_it_had_printed() -> None:
    """The cancellation goes on: the task of a library's caller must end."""
    shell = Shell()

    async def attempt(
        _id: str, _params: object, _cancel: object, _context: object
    ) -> ToolResult | None:
        task.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ToolError("line 1") from None
        return None

    first, _ = shell.tools()
    agent, _, events = scripted_agent(
        calls(tool_use("shell")),
        tools=[replace(first, attempt=attempt)],
        options=shell.options(),
    )
    task = asyncio.ensure_future(agent.prompt("go"))

    with pytest.raises(asyncio.CancelledError):
        await task

    ended = [each for each in events if isinstance(each, ToolExecutionEnd)]
    assert [each.result.text for each in ended] == [f"{STOPPED_TRYING} line 1"]
