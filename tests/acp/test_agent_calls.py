"""Permission requests of subagents, forwarded to an editor."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from agent_cli.acp.approvals import AgentCalls, PermissionRequests, QuestionClosed
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.events import ToolCall
from agent_cli.core.declining import STOPPED

CALLS = (ToolCall("c1", "bash", {}, "it runs a command"), ToolCall("c2", "write", {}))


class Requests:
    """Answers as scripted, and records the reasons shown to the user."""

    def __init__(self, answer: list[Decision] | Exception) -> None:
        self._answer = answer
        self.reasons: list[str] = []

    async def decide(self, calls: Sequence[ToolCall]) -> list[Decision]:
        self.reasons = [call.reason for call in calls]
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "decisions"),
    [
        ([Approved(), Rejected("not that")], [Approved(), Rejected("not that")]),
        (QuestionClosed(), [Rejected(STOPPED, stop=True)] * 2),
    ],
)
async def test_permission_request_of_a_subagent_names_the_agent(
    answer: list[Decision] | Exception, decisions: list[Decision]
) -> None:
    requests = Requests(answer)
    calls = AgentCalls(cast("PermissionRequests", requests), asyncio.Lock())

    assert await calls.decide_calls(CALLS, "agent explore (look)") == decisions
    assert requests.reasons[0] == "agent explore (look): it runs a command"
