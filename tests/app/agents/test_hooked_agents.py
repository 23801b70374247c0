"""Lifecycle hooks and agents: in the background, in a git worktree, while the parent is idle."""

import json
from pathlib import Path

from agent_cli.contracts.dialogs import Approved
from agent_cli.contracts.timeline import Json
from tests.app.agents.test_agents import Person, Program, Script, program, started
from tests.app.agents.test_background_agents import begun
from tests.hooks.test_scripts import command, hooks
from tests.messages_api import Gate, reply, tool_use
from tests.waiting import until


def heard(name: str) -> list[dict[str, Json]]:
    """Return the payloads that hooks appended to the file *name*, one a line."""
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


async def idle_after(run: Program, requests: int) -> None:
    """Wait until the session's agent has sent *requests* and is idle."""
    await until(lambda: len(run.script.bodies("go")) == requests)
    await run.app.agent.wait_for_idle()


async def test_stop_hook_runs_at_each_end_while_a_background_agent_works() -> None:
    """The run that the agent's end starts is a new one for the hook, too."""
    once = "cat >> ends; echo >> ends; test -e sent && exit 0; touch sent; echo 'go on' >&2; exit 2"
    hooks(Stop=command(once))
    gate = Gate()
    script = Script(
        go=[begun("look"), reply("Begun."), reply("Still begun."), reply("I see.")],
        look=[reply("Found.", gate=gate, hold_at=0)],
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.bodies("look")) == 1)
        assert [each.is_running for each in run.app.agents.all()] == [True]
        gate.open()
        await idle_after(run, 4)

    ends = [(each["last_assistant_message"], each["stop_hook_active"]) for each in heard("ends")]
    assert ends == [("Begun.", False), ("Still begun.", True), ("I see.", False)]


async def test_hooks_get_the_calling_agent_and_a_notification_of_its_question() -> None:
    """An agent's question waits for the user like any other, so Notification hooks run."""
    hooks(
        PreToolUse=command("cat >> calls; echo >> calls"),
        Notification=command("cat >> notes; echo >> notes", matcher="permission_prompt"),
    )
    script = Script(
        go=[started("write it", agent="general"), reply("Done.")],
        write_it=[reply(tool_use("write", {"path": "a", "content": "b"})), reply("Over.")],
    )
    async with program(script, mode="ask", person=Person(Approved())) as run:
        await run.prompt()

    of_parent, of_agent = heard("calls")
    assert "agent_id" not in of_parent
    assert (of_agent["agent_type"], of_agent["tool_name"]) == ("general", "Write")
    assert of_agent["agent_id"]
    [note] = heard("notes")
    assert note["message"] == "agent-cli needs your permission to use Write"


async def test_hooks_get_the_permission_mode_that_holds_for_the_agent() -> None:
    """The stricter of the agent's own mode and the session's, at its start, calls and end."""
    told = command("cat >> told; echo >> told")
    hooks(PreToolUse=told, PostToolUse=told, SubagentStart=told, SubagentStop=told)
    look = reply(tool_use("glob", {"pattern": "*"}))
    script = Script(
        go=[started("look"), started("write it", agent="general"), reply("Done.")],
        look=[look, reply("Found.")],
        write_it=[look, reply("Over.")],
    )
    async with program(script, mode="auto-edit") as run:
        await run.prompt()

    modes = {each.get("agent_type", ""): set[Json]() for each in heard("told")}
    for each in heard("told"):
        modes[each.get("agent_type", "")].add(each["permission_mode"])
    assert modes == {"": {"acceptEdits"}, "explore": {"plan"}, "general": {"acceptEdits"}}
