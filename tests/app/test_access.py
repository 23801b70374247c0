"""Reaching outside the workspace, with the real tools and the real policy."""

from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Place
from agent_cli_tools import Workspace, builtin_tools
from tests.fakes import calls, says, scripted_agent, tool_use


@pytest.mark.parametrize("approved", [True, False])
async def test_a_file_outside_is_read_when_a_person_allows_it(
    approved: bool, tmp_path: Path
) -> None:
    """Once means once: the next call asks again, and a file that was refused stays closed."""
    root, other = tmp_path / "project", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (other / "notes.txt").write_text("CANARY outside")
    workspace = Workspace(root)
    permissions = Permissions(Place(root=root), access=workspace)
    read: Json = {"path": "../other/notes.txt"}
    agent, model, _ = scripted_agent(
        calls(tool_use("read", read, "t1")),
        calls(tool_use("read", read, "t2")),
        says("done"),
        tools=builtin_tools(workspace),
        options=LoopConfig(authorize_tool=permissions),
    )

    await agent.prompt("look")
    [question] = agent.conversation.questions()
    if approved:
        await agent.approve(question.tool_call_id)
    else:
        await agent.reject(question.tool_call_id)

    assert ("CANARY outside" in str(model.sent())) is approved
    assert [each.tool_call_id for each in agent.conversation.questions()] == ["t2"]
