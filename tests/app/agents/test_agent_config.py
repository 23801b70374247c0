"""One builder for the session's agent and its subagents: who gets what."""

import json

from agent_cli.app.agents.config import CONTRIBUTIONS
from tests.app.agents.test_agents import Script, program, started
from tests.messages_api import ReceivedRequest, reply, tool_use
from tests.messages_api.script import Answer

TASK = "change the basket"


def test_each_contributor_declares_for_whom_it_is() -> None:
    """Whoever adds one decides it here; the order is that of the calls."""
    assert {each.name: each.roles for each in CONTRIBUTIONS} == {
        "directories": ("session", "subagent"),
        "facts": ("session", "subagent"),
        "output style": ("session",),
        "plugins": ("session", "subagent"),
        "agents of plugins": ("session",),
        "servers": ("session", "subagent"),
        "plan mode": ("session", "subagent"),
        "undone changes": ("session", "subagent"),
        "changes of hooks": ("session", "subagent"),
        "pins": ("session",),
        "jobs": ("session", "subagent"),
        "denied tools": ("session", "subagent"),
        "goal": ("session",),
        "model fallback": ("session", "subagent"),
        "old results": ("session",),
        "effort": ("session", "subagent"),
        "budget": ("session", "subagent"),
        "compaction": ("session", "subagent"),
        "trimming": ("session", "subagent"),
        "prefix watch": ("session", "subagent"),
    }
    names = [each.name for each in CONTRIBUTIONS]
    assert names[-1] == "prefix watch"
    assert names.index("facts") > max(map(names.index, ("directories", "plugins", "servers")))


async def test_subagent_is_told_of_plan_mode_and_of_the_date() -> None:
    """It has no tool to present a plan with, so nothing it reads names that."""
    written = tool_use("write", {"path": "a.txt", "content": "a"})
    asked: list[ReceivedRequest] = []
    session = [started(TASK, agent="general"), reply("Thanks.")]

    class Planned(Script):
        def __call__(self, request: ReceivedRequest) -> Answer:
            if TASK not in json.dumps(request.body["messages"][0]):
                return session.pop(0)
            asked.append(request)
            return reply(written) if len(asked) == 1 else reply("I would write a.txt.")

    async with program(Planned(), mode="plan") as run:
        result = await run.prompt()

    first, second = (json.dumps(request.body) for request in asked)
    assert "Today is " in json.dumps(asked[0].body["system"])
    assert "plan mode is on" in first
    assert "describe in your reply what you would change" in first
    assert "Plan mode: only reading is allowed" in second
    assert "present_plan" not in first + second
    assert run.answers(result) == ["I would write a.txt."]
