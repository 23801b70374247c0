"""The answers of hooks about tool calls, kept while the calls are open."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import Payloads
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns
from agent_cli.hooks.tool_calls import Authorize, CallHooks
from tests.tables import each_row


async def allow(*_call: object) -> Verdict:
    return Allow()


async def ask_after_an_attempt(*_call: object) -> Verdict:
    return Ask("its effect is not known", by_mode=True, attempt_failed=lambda: None)


async def ask_by_rule(*_call: object) -> Verdict:
    return Ask("the rule x asks")


async def ask_after_question(*_call: object) -> Verdict:
    return Ask("its effect is not known", by_mode=True)


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


def prints(
    answer: Mapping[str, Json], event: str = "PreToolUse", *, unless: str = "nothing"
) -> Hook:
    """Return a hook of *event* that answers with *answer*, if *unless* is not in its input."""
    text = json.dumps({"hookSpecificOutput": answer})
    return Hook(event=event, command=f"grep -q '{unless}' || echo '{text}'")


def hooked(
    folder: Path,
    *hooks: Hook,
    authorize: Authorize = allow,
    covers: Callable[[ToolCall, str], bool] = lambda _call, _rule: True,
) -> CallHooks:
    """Return the *hooks* of a session around what is decided by *authorize*."""
    return CallHooks(
        HookRuns(hooks, HookEnvironment(folder, os.environ)),
        Payloads(folder, session_id=str, transcript=str, mode=lambda: "ask"),
        authorize=authorize,
        finish=lambda _call, result: result,
        covers=covers,
        heard=lambda _answer: None,
        asks=lambda _call: None,
    )


CALL = ToolCall("call_0", "echo", {"text": "a"})
TO_B: Mapping[str, Json] = {"updatedInput": {"text": "bad"}}
REFUSES_B = Hook(event="PreToolUse", command="if grep -q bad; then echo no >&2; exit 2; fi")


async def test_call_that_a_hook_asks_about_is_not_attempted_before(tmp_path: Path) -> None:
    """Threat 25: the person decides, not the sandbox."""
    asks = prints({"permissionDecision": "ask"})
    calls = hooked(tmp_path, asks, authorize=ask_after_an_attempt)

    verdict = await calls.authorize(CALL, ECHO, None)

    assert isinstance(verdict, Ask)
    assert verdict.attempt_failed is None


@each_row(
    ("others", "reason"),
    [
        (allow, "a hook asks: it is Friday"),
        (ask_after_an_attempt, "a hook asks: it is Friday"),
        (ask_by_rule, "a hook asks: it is Friday; the rule x asks"),
    ],
)
async def test_question_of_a_guard_gives_its_reason(
    others: Authorize, reason: str, tmp_path: Path
) -> None:
    """Threat 25: that of the mode says nothing, but a rule asks as well."""
    asks = prints({"permissionDecision": "ask", "permissionDecisionReason": "it is Friday"})

    verdict = await hooked(tmp_path, asks, authorize=others).authorize(CALL, ECHO, None)

    assert isinstance(verdict, Ask)
    assert verdict.reason == reason


async def test_guard_hears_of_an_input_that_another_hook_changes(tmp_path: Path) -> None:
    """Threat 25: what it refuses must not run because it came from a hook."""
    change = prints(TO_B, unless="bad")
    at_question = prints({"decision": {"behavior": "allow", **TO_B}}, "PermissionRequest")
    by_mode = hooked(tmp_path, at_question, REFUSES_B, authorize=ask_after_question)

    assert await hooked(tmp_path, change).authorize(CALL, ECHO, None) == Allow(
        input={"text": "bad"}
    )
    for calls in (
        hooked(tmp_path, change, REFUSES_B),
        hooked(tmp_path, REFUSES_B, change),
        by_mode,
    ):
        refused = await calls.authorize(CALL, ECHO, None)
        assert isinstance(refused, Deny)
        assert refused.reason.endswith("no")


async def test_hook_that_changes_an_input_is_not_asked_about_its_own(tmp_path: Path) -> None:
    """It would change it again. A guard that has nothing against both inputs decides nothing."""
    change = Hook(event="PreToolUse", command=f"echo >> runs; echo '{json.dumps(_updated())}'")
    guard = Hook(event="PreToolUse", command="cat >> heard; echo >> heard")

    verdict = await hooked(tmp_path, change, guard).authorize(CALL, ECHO, None)

    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().split("\n") if line]
    assert verdict == Allow(input={"text": "bad"})
    assert [each["tool_input"]["text"] for each in heard] == ["a", "bad"]
    assert (tmp_path / "runs").read_text() == "\n"


async def test_second_showing_of_an_input_changes_it_no_more(tmp_path: Path) -> None:
    """One that returns what it gets is no changer, nor is one again by another matcher."""
    relative: Mapping[str, Json] = {"updatedInput": {"file_path": "b.md", "content": "x"}}
    change = prints(relative, unless="b.md")
    echo = _changing("tool_input", r"\{[^}]*\}", r"\1")
    write = replace(CALL, name="write", input={"path": "a.md", "content": "x"})

    verdict = await hooked(tmp_path, change, echo).authorize(write, ECHO, None)

    assert isinstance(verdict, Allow)
    assert verdict.input == {"path": "b.md", "content": "x"}


async def test_hook_that_changes_an_input_is_not_asked_by_another_matcher(tmp_path: Path) -> None:
    """Its command would change it again: two changes that differ block the call."""
    more = _changing("text", r'"[^"]*', r'{"text":\1b"}')
    both = [replace(more, condition=text) for text in ("a", "ab")]
    calls = hooked(tmp_path, *both, covers=lambda call, rule: call.input == {"text": rule})

    assert await calls.authorize(CALL, ECHO, None) == Allow(input={"text": "ab"})


async def test_text_of_a_hook_about_two_inputs_reaches_the_model_once(tmp_path: Path) -> None:
    at_question = prints({"decision": {"behavior": "allow", **TO_B}}, "PermissionRequest")
    tells = prints({"additionalContext": "see the rules"})
    calls = hooked(tmp_path, at_question, tells, authorize=ask_after_question)

    await calls.authorize(CALL, ECHO, None)
    result = await calls.finish(CALL, ToolResult.of("x"))

    assert str(result.content).count("see the rules") == 1


def _changing(field: str, value: str, into: str) -> Hook:
    """Return a hook that makes its new input of the *value* of a *field*: *into*, of sed."""
    answer = f'{{"hookSpecificOutput":{{"updatedInput":{into}}}}}'
    command = f"""sed -E 's/.*"{field}": *({value}).*/{answer}/'"""
    return Hook(event="PreToolUse", command=command)


def _updated() -> Json:
    return {"hookSpecificOutput": {**TO_B}}


def test_same_command_under_two_matchers_runs_once_for_a_call(tmp_path: Path) -> None:
    """As in Claude Code; two plugins may name different scripts by the same words."""
    edits = Hook(event="PostToolUse", matcher="Edit|Write", command="fmt", origin="a")
    all_calls = replace(edits, matcher="", origin="b", is_project=True)
    of_plugin = replace(edits, root="/plugin")
    runs = HookRuns([edits, all_calls, of_plugin], HookEnvironment(tmp_path, os.environ))

    assert runs.matching("PostToolUse", ("Edit",)) == [edits, of_plugin]
    assert runs.matching("PostToolUse", ("Bash",)) == [all_calls]
