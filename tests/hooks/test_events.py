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

LOOKS = tool_use("glob", {"pattern": "*.txt"})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")


async def read_by_model(*hooks: Hook, allow: tuple[str, ...] = ()) -> str:
    """Return what the model reads of a call that only reads."""
    with serve_in_thread(reply(LOOKS), reply("ok")) as api:
        options = SessionOptions(
            environment={"ANTHROPIC_BASE_URL": api.base_url}, hooks=hooks, allow=allow
        )
        await query("go", options)
        return text_of(results_in(api.requests[1].body)[0])


def replying(answer: HookReply) -> HookFunction:
    async def function(_event: HookEvent) -> HookReply:
        return answer

    return function


def guard(function: object, matcher: str = "glob", event: str = "PreToolUse") -> Hook:
    return Hook(event=event, matcher=matcher, function=function)  # type: ignore[arg-type]  # any


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (None, "no files match"),
        (Allow(), "no files match"),
        (Deny("Not here."), "declined this call: Not here."),
        (Ask("Sure?"), "nobody can be asked"),
        ("Look in docs.", "[A hook of the user's says: Look in docs.]"),
        (Allow(input={"pattern": "*.md"}), "*.md"),
    ],
)
async def test_reply_of_a_function_is_a_verdict_or_a_text(answer: HookReply, read: str) -> None:
    assert read in await read_by_model(guard(replying(answer)))


async def raises(_event: HookEvent) -> None:
    raise OSError("no such table")


async def is_cancelled(_event: HookEvent) -> None:
    raise asyncio.CancelledError


async def hangs(_event: HookEvent) -> None:
    await asyncio.Event().wait()


def is_plain(_event: HookEvent) -> None:
    """Return at once, which no hook does."""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (raises, "it raised OSError (no such table)"),
        (is_cancelled, "it raised AgentCliError (it was cancelled from within)"),
        (is_plain, "it must be an async def"),
        (replying({"decision": "deny"}), "it returned dict; return Allow, Deny, Ask"),  # type: ignore[arg-type]  # as other SDKs do
        (hangs, "it took longer than 0.05 s"),
    ],
)
async def test_guard_that_fails_blocks_and_a_hook_that_watches_does_not(
    function: object, why: str
) -> None:
    """Leaving it out would remove the protection."""
    blocks = guard(function)
    if function is hangs:
        blocks = Hook(event="PreToolUse", function=hangs, timeout_s=0.05)

    assert why in await read_by_model(blocks)
    if function in (raises, is_cancelled):
        assert "declined" not in await read_by_model(guard(function, event="PostToolUse"))


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
