"""The page about one agent's work, for people."""

from agent_cli.contracts.agents import AgentInfo, AgentWork
from agent_cli.contracts.timeline import (
    Json,
)
from agent_cli.contracts.tooling import Tool
from agent_cli.core.declining import AGENT_STOPPED
from agent_cli.repl.agent_work import agent_work
from agent_cli.repl.approval.refusals import failure
from agent_cli.repl.live.results import outcome_of
from tests.fakes import calls, says, scripted_agent, tool_use


async def test_work_of_an_agent_has_a_heading_its_task_and_a_row_for_each_call() -> None:
    """No `you>`, no JSON; a call at work is said to be at work."""
    seen: list[str] = []

    async def look(_id: str, _params: object, _cancel: object, _update: object) -> str:
        seen.append(agent_work(page()))
        return "done"

    tool = Tool(
        name="look",
        label="Look",
        description="",
        parameters={"type": "object"},
        execute=look,
        summary=lambda params: params["at"],
    )
    agent, _, _ = scripted_agent(
        calls(tool_use("look", {"at": "a.py"}), tool_use("gone", {"b": 1}, "t2"), text="I look."),
        says("Found it."),
        tools=[tool],
    )
    info = AgentInfo(1, "agent explore (find it)", "thinking · 2 s", True)

    def page() -> AgentWork:
        return AgentWork(info, "find it\nand tell", agent.conversation.prompts, agent.state.tools)

    nothing = agent_work(page())
    await agent.prompt("find it\nand tell")
    end = agent_work(page()).split("\n")

    begin = ["agent explore (find it) · thinking · 2 s", "its task:", "  find it", "  and tell"]
    assert nothing.split("\n") == [*begin, "", "it has done nothing yet"]
    assert seen[0].split("\n")[:7] == [*begin, "", "I look.", "… Look a.py · at work"]
    assert end[5] == "I look."
    assert end[6].startswith("✓ Look a.py · ")
    assert end[7].startswith("✗ gone ")
    assert end[8:] == ["Found it."]


def test_agents_end_is_told_with_rounds_and_cost_and_a_stopped_one_did_not_fail() -> None:
    """Who stopped it knows that."""
    details: Json = {"agent": "plan", "agent_id": "c1", "rounds": 3, "cost_microdollars": 12_300}

    assert outcome_of(details) == "3 rounds · $0.0123"
    assert failure(AGENT_STOPPED, 4.0) == ("stopped after 4.0 s", "you stopped it")
