"""The answers of hooks about tool calls, kept while the calls are open."""

import os
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import Payloads
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns
from agent_cli.hooks.tool_calls import CallHooks


async def allow(*_call: object) -> Verdict:
    return Allow()


async def ask_after_an_attempt(*_call: object) -> Verdict:
    return Ask("its effect is not known", by_mode=True, attempt_failed=lambda: None)


async def _echo(
    _id: str, params: dict[str, Json], _cancel: CancelToken, _context: ToolContext
) -> ToolResult:
    return ToolResult.of(str(params["text"]))


ECHO = Tool(name="echo", label="Echo", description="", parameters={"type": "object"}, execute=_echo)


async def test_guard_is_asked_once_about_a_call_and_its_answer_is_then_forgotten(
    tmp_path: Path,
) -> None:
    """A session of many calls would otherwise keep the input of each."""
    asked = tmp_path / "asked"
    calls = CallHooks(
        HookRuns(
            [Hook(event="PreToolUse", command=f"echo >> {asked}")],
            HookEnvironment(tmp_path, os.environ),
        ),
        Payloads(tmp_path, session_id=str, transcript=str, mode=lambda: "ask"),
        authorize=allow,
        finish=lambda _call, result: result,
        covers=lambda _call, _rule: True,
        heard=lambda _answer: None,
        asks=lambda _call: None,
    )
    call = ToolCall("call_0", "echo", {"text": "a"})
    turn = Turn(
        LoopConfig(),
        Conversation(),
        lambda _event: None,
        CancelToken(),
        ChatStateMachine(),
        overflow=False,
    )

    for times in (1, 2):
        for _check in ("before the user is asked", "before it runs"):
            assert await calls.authorize(call, ECHO, None) == Allow()
        assert asked.read_text() == "\n" * times
        await calls(turn)


async def test_call_that_a_hook_asks_about_is_not_attempted_before(tmp_path: Path) -> None:
    """Threat 25: the person decides, not the sandbox."""
    decision = '{"hookSpecificOutput": {"permissionDecision": "ask"}}'
    calls = CallHooks(
        HookRuns(
            [Hook(event="PreToolUse", command=f"echo '{decision}'")],
            HookEnvironment(tmp_path, os.environ),
        ),
        Payloads(tmp_path, session_id=str, transcript=str, mode=lambda: "ask"),
        authorize=ask_after_an_attempt,
        finish=lambda _call, result: result,
        covers=lambda _call, _rule: True,
        heard=lambda _answer: None,
        asks=lambda _call: None,
    )

    verdict = await calls.authorize(ToolCall("call_0", "echo", {"text": "a"}), ECHO, None)

    assert isinstance(verdict, Ask)
    assert verdict.attempt_failed is None


def test_same_command_under_two_matchers_runs_once_for_a_call(tmp_path: Path) -> None:
    """As in Claude Code; two plugins may name different scripts by the same words."""
    edits = Hook(event="PostToolUse", matcher="Edit|Write", command="fmt", origin="a")
    all_calls = replace(edits, matcher="", origin="b", is_project=True)
    of_plugin = replace(edits, root="/plugin")
    runs = HookRuns([edits, all_calls, of_plugin], HookEnvironment(tmp_path, os.environ))

    assert runs.matching("PostToolUse", ("Edit",)) == [edits, of_plugin]
    assert runs.matching("PostToolUse", ("Bash",)) == [all_calls]
