"""Agents as a person at a terminal sees them."""

import pytest

from tests.e2e.program import AGENT_CLI, environment
from tests.e2e.test_agents import YOLO
from tests.messages_api import FakeMessagesApi, Gate, ReceivedRequest, Reply, reply, serve_in_thread
from tests.messages_api import tool_use as call
from tests.repl.terminal import Terminal

CTRL_O = "\x0f"


def in_terminal(api: FakeMessagesApi) -> Terminal:
    return Terminal(AGENT_CLI, *YOLO, **environment(api, {}))


@pytest.mark.parametrize("columns", [80, 32])
def test_one_agent_is_looked_at_and_stopped_while_another_works_on(columns: int) -> None:
    """The model reads that one was stopped; the rest goes on."""
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        first = str(messages[0])
        if "count one" in first or "count two" in first:
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("All done.")
        tasks = [{"description": each, "prompt": each} for each in ("count one", "count two")]
        return reply(*(call("agent", {**task, "subagent_type": "explore"}) for task in tasks))

    with serve_in_thread(answer=answer) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.resize(columns)
        terminal.send("go\r")
        api.wait_for_requests(3)
        terminal.send("/agents 2\r")
        terminal.until("count two")
        terminal.send("/agents stop 1\r")
        terminal.until("being")
        terminal.until("✗ Agent")
        gate.open(100)
        terminal.until("All done.")
        terminal.until_prompt()
        results = str(api.requests[-1].body["messages"][-1])

    assert "The user stopped this agent" in results
    assert "Counted." in results


def test_ctrl_o_opens_the_transcript_of_the_agent_at_work() -> None:
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count the eggs" in str(messages[0]):
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("All done.")
        return reply(call("agent", {"description": "count", "prompt": "count the eggs"}))

    with serve_in_thread(answer=answer) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        api.wait_for_requests(2)
        terminal.send(CTRL_O)
        terminal.until("count the eggs")
        gate.open(100)
        terminal.until("All done.")
        terminal.until_prompt()
