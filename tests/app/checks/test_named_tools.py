"""Required tools: the names alone; tests/app/mcp/test_mcp.py shows whole runs."""

import pytest

from agent_cli.app.checks.named_tools import require
from agent_cli.contracts.errors import AgentCliError
from tests.tables import each_row

OFFERED = ("read", "mcp__good__raw", "mcp__raw__raw")
ABSENT = {
    "mcp__raw__reply": "tool reply is withheld: it changed since it was approved",
    "bash": "the rule deny bash (permissions) forbids it",
}
APPROVE = "; agent-cli mcp approve raw shows what changed"


def test_offered_tools_and_servers_with_all_their_tools_are_there() -> None:
    require(["read", "mcp__raw__raw", "mcp__good"], OFFERED, absent=ABSENT, servers=["raw", "good"])


@each_row(
    ("name", "why"),
    [
        ("mcp__raw__reply", ABSENT["mcp__raw__reply"] + APPROVE),
        ("mcp__raw", ABSENT["mcp__raw__reply"] + APPROVE),
        ("bash", ABSENT["bash"]),
        ("mcp__silent", "MCP server 'silent' offers no tool"),
        ("mcp__good__nothing", "there is no such tool or MCP server"),
        ("mcp__elsewhere", "there is no such tool or MCP server"),
        ("rea", "there is no such tool or MCP server"),
    ],
)
def test_first_missing_tool_is_named_with_the_reason(name: str, why: str) -> None:
    """A misspelt name counts as missing, also behind a name that is there."""
    with pytest.raises(AgentCliError) as raised:
        require(["read", name], OFFERED, absent=ABSENT, servers=["raw", "good", "silent"])

    assert str(raised.value) == f"tool {name} is required, and not there: {why}"
