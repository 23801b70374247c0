"""The checks before a call: a tool's own functions may fail in any way without ending the run."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NoReturn

import pytest
from pydantic import BaseModel, field_validator

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import (
    INVALID_JSON,
    Allow,
    Approval,
    Ask,
    Deny,
    RequireApproval,
    Tool,
    Verdict,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.preflight import CheckedCall, recheck
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from tests.fakes import LOOK, calls, check_run, raises, says, scripted_agent, texts, tool_use
from tests.tables import each_row


class Strange(BaseModel):
    """Parameters whose validator misbehaves."""

    how: str

    @field_validator("how")
    @classmethod
    def _fail(cls, how: str) -> str:
        if how == "exit":
            sys.exit(3)
        raise LookupError("no such thing")


class AnyInput(BaseModel):
    """Parameters that all have defaults, as many tools' have."""

    path: str = "."


def leave(_params: object) -> NoReturn:
    sys.exit(4)


@pytest.mark.parametrize("how", ["exit", "raise"])
async def test_validator_that_exits_or_raises_gives_an_error_result(
    how: str, logged: list[dict[str, object]]
) -> None:
    """S1-13, S0-53: only the tool's author can fix it; the run continues."""
    strange = replace(LOOK, parameters=Strange)
    agent, _, events = scripted_agent(
        calls(tool_use("look", {"how": how})), says("ok"), tools=[strange]
    )

    result = await agent.prompt("go")

    assert texts(result.messages)["t1"].startswith("look could not check its input: ")
    assert result.stop_reason == "end_turn"
    assert [entry["event"] for entry in logged] == ["input not checked"]
    check_run(events)


@each_row("field", ["reads", "writes"])
async def test_path_function_that_exits_gives_an_error_result(field: str) -> None:
    """S0-53: a tool's functions are foreign code like its body."""
    agent, _, _ = scripted_agent(
        calls(tool_use("look")),
        says("ok"),
        tools=[replace(LOOK, **{field: leave})],  # type: ignore[arg-type]  # either of the two
    )

    result = await agent.prompt("go")

    assert texts(result.messages)["t1"] == "look cannot tell which files it would touch: 4"


@pytest.mark.parametrize("returned", [None, "/a", [Path("/a")]], ids=["none", "text", "path"])
async def test_path_function_that_returns_no_paths_gives_an_error_result(returned: object) -> None:
    """S0-53: the run ended with an AttributeError, or the text counted as one path a letter."""
    agent, _, _ = scripted_agent(
        calls(tool_use("look")),
        says("ok"),
        tools=[replace(LOOK, writes=lambda _params: returned)],  # type: ignore[arg-type,return-value]
    )

    result = await agent.prompt("go")

    assert texts(result.messages)["t1"].startswith("look cannot tell which files it would touch: ")
    assert result.stop_reason == "end_turn"


async def test_nobody_is_asked_about_a_call_whose_paths_are_unknown() -> None:
    """S0-53: a person's answer, or a judge's, would be for nothing."""
    asked: list[str] = []

    def ask(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        asked.append(call.id)
        return Ask("it may hurt")

    agent, _, _ = scripted_agent(
        calls(tool_use("look")),
        says("ok"),
        tools=[replace(LOOK, writes=leave)],
        options=LoopConfig(authorize_tool=ask),
    )

    result = await agent.prompt("go")

    assert (asked, result.stop_reason) == ([], "end_turn")


async def test_permission_check_that_exits_asks_for_approval() -> None:
    """S2-22: a check that fails must not allow the call."""
    agent, _, _ = scripted_agent(
        calls(tool_use("look")), tools=[replace(LOOK, require_approval=leave)]
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "waiting_for_approval"
    assert agent.conversation.questions()[0].asked_reason == "the permission check failed: 4"


async def test_permission_check_that_is_cancelled_from_within_asks_for_approval() -> None:
    """S2-22: `prompt()` raised CancelledError, although nobody had cancelled it."""

    async def closed(*_given: object) -> Verdict:
        raise asyncio.CancelledError

    agent, _, events = scripted_agent(
        calls(tool_use("look")), tools=[LOOK], options=LoopConfig(authorize_tool=closed)
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "waiting_for_approval"
    reason = "the permission check failed: it was cancelled from within"
    assert agent.conversation.questions()[0].asked_reason == reason
    check_run(events)


async def test_rule_that_returns_no_approval_asks_for_approval() -> None:
    """S2-22: `True` for `Approval(True)` ended the run with an AttributeError."""
    yes: RequireApproval = lambda _params: True  # type: ignore[assignment]  # noqa: E731
    agent, _, _ = scripted_agent(
        calls(tool_use("look")), tools=[replace(LOOK, require_approval=yes)]
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "waiting_for_approval"
    reason = "the permission check failed: what require_approval returns must be Approval, not bool"
    assert agent.conversation.questions()[0].asked_reason == reason


@pytest.mark.parametrize("parameters", [AnyInput, {"type": "object"}], ids=["model", "schema"])
@each_row(
    ("written", "fault"),
    [
        ('{"command": "ls', "Unterminated string starting at character 13 of 15"),
        ("[1]", "it is another kind of value, or cannot be sent as UTF-8 text"),
        (f'{{"a": {"9" * 5000}}}', "a number or the nesting is beyond all limits"),
    ],
)
async def test_input_that_is_no_json_object_is_refused_before_anything_sees_it(
    parameters: type[BaseModel] | dict[str, Json], written: str, fault: str
) -> None:
    """S1-13: a schema that allows any key would let the tool run with its defaults."""
    seen: list[object] = []

    def note(*given: object) -> Allow:
        seen.append(given)
        return Allow()

    anything = replace(LOOK, parameters=parameters, execute=raises(AssertionError()))
    agent, _, _ = scripted_agent(
        calls(tool_use("look", {INVALID_JSON: written})),
        says("ok"),
        tools=[anything],
        options=LoopConfig(authorize_tool=note),
    )

    result = await agent.prompt("go")

    assert texts(result.messages)["t1"] == (
        f"Not run: the input of look is not a JSON object ({fault}). Call again with the whole"
        " input."
    )
    assert seen == []


def policy(verdict: Verdict) -> Callable[[ToolCall, Tool, object], Verdict]:
    return lambda _call, _tool, _params: verdict


@each_row(
    ("verdict", "approval", "answer"),
    [
        (Deny("never"), Approval(required=True, reason="it may hurt"), "never"),
        (Allow(), Approval(required=False, reason="unused"), "a tree"),
    ],
)
async def test_denied_call_asks_nobody_and_call_without_required_approval_runs(
    verdict: Verdict, approval: Approval, answer: str
) -> None:
    """S2-22, C19: the tool's own rule is not evaluated if the policy denies."""
    agent, _, _ = scripted_agent(
        calls(tool_use("look")),
        says("ok"),
        tools=[replace(LOOK, require_approval=approval)],
        options=LoopConfig(authorize_tool=policy(verdict)),
    )

    result = await agent.prompt("go")

    assert texts(result.messages) == {"t1": answer}


async def test_error_about_an_unknown_tool_lists_the_available_tools() -> None:
    """S0-52, S1-12: the names are sorted, or "none"."""
    asks = calls(tool_use("lok"))
    agent, _, _ = scripted_agent(asks, says("ok"), tools=[replace(LOOK, name="b"), LOOK])
    bare, _, _ = scripted_agent(asks, says("ok"))

    with_tools, without = await agent.prompt("go"), await bare.prompt("go")

    assert texts(with_tools.messages)["t1"] == "The tool 'lok' does not exist; there are: b, look."
    assert texts(without.messages)["t1"] == "The tool 'lok' does not exist; there are: none."


async def test_checked_call_without_conditions_is_not_checked_again() -> None:
    """A verdict without `holds` counts until the call runs, however long it waits."""
    checks: list[str] = []

    def note(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        checks.append(call.id)
        return Allow()

    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look")))
    options = LoopConfig(authorize_tool=note, tools=(LOOK,))
    turn = Turn(options, conversation, print, CancelToken(), ChatStateMachine(), False)
    item = CheckedCall(conversation.call("t1"), LOOK, {})

    assert await recheck(turn, item) is item

    assert checks == []


async def test_events_are_handled_between_the_checks_of_calls() -> None:
    """S0-53: some schemas take 0.15 s to check; ten calls of such tools stopped the keyboard."""
    seen: list[str] = []
    ticking = asyncio.create_task(_tick(seen))

    def note(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        seen.append(call.id)
        return Allow()

    uses = [tool_use("look", id=each) for each in ("a", "b", "c")]
    options = LoopConfig(authorize_tool=note)
    agent, _, _ = scripted_agent(calls(*uses), says("ok"), tools=[LOOK], options=options)

    await agent.prompt("go")

    ticking.cancel()
    checking = seen[seen.index("a") : seen.index("c") + 1]
    assert [each for each, _ in groupby(checking)] == ["a", "tick", "b", "tick", "c"]


async def _tick(seen: list[str]) -> None:
    while True:
        seen.append("tick")
        await asyncio.sleep(1e-6)  # above zero, so that the loop takes it for an event
