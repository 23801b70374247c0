"""Hooks that are Python functions, in the whole program against a test server."""

import asyncio

import pytest

from agent_cli import (
    Allow,
    Ask,
    Deny,
    Hook,
    HookEvent,
    HookFunction,
    HookReply,
    Json,
    RunFailed,
    SessionOptions,
    SettingsError,
    query,
)
from agent_cli.hooks.events import EVENTS
from tests.e2e.program import results_in, text_of
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

LOOKS = tool_use("glob", {"pattern": "*.txt"})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")


async def read_of(calls: list[Payload], *hooks: Hook) -> list[str]:
    """Return what the model reads of *calls* that only read."""
    with serve_in_thread(reply(*calls), reply("ok")) as api:
        options = SessionOptions(environment={"ANTHROPIC_BASE_URL": api.base_url}, hooks=hooks)
        await query("go", options)
        return [text_of(result) for result in results_in(api.requests[1].body)]


async def read_by_model(*hooks: Hook) -> str:
    """Return what the model reads of a call that only reads."""
    [text] = await read_of([LOOKS], *hooks)
    return text


def replying(answer: HookReply) -> HookFunction:
    async def function(_event: HookEvent) -> HookReply:
        return answer

    return function


def guard(function: object, matcher: str = "glob", event: str = "PreToolUse") -> Hook:
    return Hook(event=event, matcher=matcher, function=function)  # type: ignore[arg-type]  # any


async def test_reply_of_a_function_is_a_verdict_or_a_text() -> None:
    """Each pattern has an answer of its own."""
    cases: dict[str, tuple[HookReply, str]] = {
        "none": (None, "no files match"),
        "allow": (Allow(), "no files match"),
        "deny": (Deny("Not here."), "declined this call: Not here."),
        "ask": (Ask("Sure?"), "nobody can be asked"),
        "text": ("Look in docs.", "[A hook of the user's says: Look in docs.]"),
        "input": (Allow(input={"pattern": "*.md"}), "*.md"),
    }

    async def answers(event: HookEvent) -> HookReply:
        return cases[str(event.input["pattern"])][0]

    calls = [tool_use("glob", {"pattern": pattern}) for pattern in cases]
    read = dict(zip(cases, await read_of(calls, guard(answers)), strict=True))

    assert {name: text for name, text in read.items() if cases[name][1] not in text} == {}


async def raises(_event: HookEvent) -> None:
    raise OSError("no such table")


async def is_cancelled(_event: HookEvent) -> None:
    raise asyncio.CancelledError


async def hangs(_event: HookEvent) -> None:
    await asyncio.Event().wait()


def is_plain(_event: HookEvent) -> None:
    """Return at once, which no hook does."""


async def test_guard_that_fails_blocks_and_a_hook_that_watches_does_not() -> None:
    """Leaving it out would remove the protection."""
    calls = {
        "glob": LOOKS,
        "grep": tool_use("grep", {"pattern": "x"}),
        "read": tool_use("read", {"path": "a"}),
        "bash": tool_use("bash", {"command": "ls"}),
        "todo": tool_use("todo", {"todos": [{"content": "x", "status": "pending"}]}),
    }
    guards: dict[str, tuple[object, str]] = {
        "glob": (raises, "it raised OSError (no such table)"),
        "grep": (is_cancelled, "it raised AgentCliError (it was cancelled from within)"),
        "read": (is_plain, "it must be an async def"),
        # As other SDKs do.
        "todo": (replying({"decision": "deny"}), "it returned dict; return Allow, Deny, Ask"),  # type: ignore[arg-type]
    }
    blocks = [guard(function, matcher) for matcher, (function, _) in guards.items()]
    late = Hook(event="PreToolUse", matcher="bash", function=hangs, timeout_s=0.05)
    reasons = {matcher: why for matcher, (_, why) in guards.items()}
    reasons["bash"] = "it took longer than 0.05 s"

    read = dict(zip(calls, await read_of([*calls.values()], *blocks, late), strict=True))
    watched = await read_of(
        [calls["glob"], calls["grep"]],
        guard(raises, "glob", event="PostToolUse"),
        guard(is_cancelled, "grep", event="PostToolUse"),
    )

    assert {name: text for name, text in read.items() if reasons[name] not in text} == {}
    assert [text for text in watched if "declined" in text] == []


async def test_event_holds_the_call_in_the_tools_own_names_and_the_whole_payload() -> None:
    """A matcher may use either name; other calls are not asked about."""
    seen: list[tuple[str, str, Json]] = []

    async def look(event: HookEvent) -> None:
        seen.append((event.name, event.tool, dict(event.input)))
        assert event.payload["tool_name"] == "Glob"

    await read_by_model(guard(look), guard(look, "Glob", "PostToolUse"), guard(look, "bash"))

    found: Json = {"pattern": "*.txt"}
    assert seen == [("PreToolUse", "glob", found), ("PostToolUse", "glob", found)]


async def test_stop_guard_that_raises_ends_the_run_with_its_sentence() -> None:
    """The model cannot mend it, so it is not sent back."""
    with serve_in_thread(reply("ok"), reply("again")) as api:
        options = SessionOptions(
            environment={"ANTHROPIC_BASE_URL": api.base_url}, hooks=[guard(raises, "", "Stop")]
        )
        with pytest.raises(RunFailed, match="the Stop hook raises cannot be used: it raised"):
            await query("go", options)

    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("hook", "sentence"),
    [
        (Hook(event="BeforeTool", function=raises), f"one of {', '.join(EVENTS)}"),
        (Hook(event="Stop", function=raises, matcher="("), "not a valid regular expression"),
        (Hook(event="Stop"), "give a function, a command or a url"),
        (Hook(event="Stop", function=raises, command="true"), "give a function"),
    ],
)
async def test_hook_that_cannot_be_used_is_refused_before_anything_is_sent(
    hook: Hook, sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        await query("go", SessionOptions(hooks=[hook]))

    assert sentence in str(refused.value)
