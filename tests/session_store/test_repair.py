"""Calls left open by a program that ended at any moment are closed, and the model reads why."""

from agent_cli.contracts.timeline import Pending, Prompt, ReplyOutput, ToolOutput
from agent_cli.session_store.repair import NEVER_STARTED, repairs
from tests.fakes import tool_use


def test_repair_keeps_the_reason_of_a_rejection_the_model_has_not_read() -> None:
    """S2-33, S2-51: the program ended after the decision and before the run continued."""
    refused = ToolOutput(
        "1", 1, "r", tool_use("bash", {}, "t1"), Pending("queued", "use yarn"), decision="rejected"
    )
    approved = ToolOutput(
        "2", 1, "r", tool_use("bash", {}, "t2"), Pending("queued"), decision="approved"
    )
    end = ReplyOutput("3", 1, "r", "m", "tool_use")
    prompt = Prompt("p", "local", "m", 1, output=[refused, approved, end])

    first, second, completed = map(str, repairs([prompt]))

    assert "use yarn" in first and NEVER_STARTED not in first
    assert NEVER_STARTED in second
    assert "completed" in completed
