"""What hooks of compactions read, in the whole program against a test server."""

from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from tests.app.agents.test_agents import Script, program, started, task_of
from tests.app.agents.test_hooked_agents import heard
from tests.e2e.program import asks_for_summary
from tests.hooks.test_scripts import command, hooks
from tests.messages_api import ReceivedRequest, reply, tool_use
from tests.messages_api.script import Answer
from tests.waiting import until

FULL = {"input_tokens": 30_000, "output_tokens": 9}
LONG = "word " * 2_000


class Summarized(Script):
    """Summarises every conversation, and keeps the request for it; then the work is done."""

    request = ""

    def __call__(self, request: ReceivedRequest) -> Answer:
        task = task_of(request)
        if task.startswith("[Summary"):
            return reply("Found.")
        if not asks_for_summary(request.body):
            return super().__call__(request)
        self.request = str(request.body.get("compaction") or request.body["messages"][-1])
        return reply("A summary.")


def note_compactions() -> None:
    hooks(
        PreCompact=command("cat >> before; echo >> before; echo keep the names"),
        PostCompact=command("cat >> after; echo >> after"),
    )


def is_written(name: str) -> bool:
    """Return whether a hook has written a whole line to the file *name*."""
    path = Path(name)
    return path.exists() and path.read_text().endswith("\n")


def triggers(*names: str) -> list[tuple[Json, Json]]:
    """Return trigger and instructions from each payload in the files *names*."""
    payloads = [each for name in names for each in heard(name)]
    return [(each["trigger"], each["custom_instructions"]) for each in payloads]


async def test_compaction_without_a_focus_is_manual_for_its_hooks() -> None:
    """The user asked for it, whatever they wrote behind the command."""
    note_compactions()
    script = Summarized(go=[reply(LONG, chunk_chars=len(LONG))] * 5)
    async with program(script) as run:
        for _ in range(5):
            await run.prompt()
        await run.app.compact("")
        await until(lambda: is_written("after"))

    assert triggers("before", "after") == [("manual", "")] * 2
    assert "keep the names" in script.request


async def test_compaction_of_an_agent_is_automatic_for_its_hooks_and_names_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the agent's window is full; the session's agent waits for it."""
    monkeypatch.setenv("AGENT_CLI_COMPACTION__THRESHOLD_TOKENS", "20000")
    note_compactions()
    calls = [
        reply(LONG, tool_use("glob", {"pattern": "*"}), chunk_chars=len(LONG)) for _ in range(4)
    ]
    full = reply(tool_use("glob", {"pattern": "*"}), usage=FULL)
    script = Summarized(
        go=[started("look", agent="explore"), reply("Thanks.")],
        look=[*calls, full],
    )
    async with program(script) as run:
        await run.prompt()
        await until(lambda: is_written("after"))

    assert triggers("before", "after") == [("auto", "")] * 2
    named = [(each["agent_type"], each["permission_mode"]) for each in heard("before")]
    assert named == [("explore", "plan")]
