"""Access outside the workspace, with the real tools and the real policy."""

from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, check_input
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.facts import WorkspaceDirectories
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.sandbox import Sandbox, SandboxPolicy
from agent_cli.sandbox.secret_files import is_secret
from agent_cli_tools import Workspace, builtin_tools
from tests.fakes import calls, says, scripted_agent, tool_use


@pytest.mark.parametrize("approved", [True, False])
async def test_file_outside_the_workspace_is_read_only_after_approval(
    approved: bool, tmp_path: Path
) -> None:
    """An approval holds for one call: the next one asks again."""
    root, other = tmp_path / "project", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (other / "notes.txt").write_text("CANARY outside")
    workspace = Workspace(root)
    permissions = Permissions(Reach(root=root), access=workspace)
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


async def test_added_directory_is_open_to_tools_sandbox_and_permissions(
    tmp_path: Path,
) -> None:
    """--add-dir at the start does the same; a path that is no directory changes nothing."""
    root, other = tmp_path / "project", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (other / ".env").write_text("KEY=x")
    workspace = Workspace(root)
    reach = Reach(root=root)
    permissions = Permissions(reach, mode="auto-edit", access=workspace)
    policy = SandboxPolicy([root], home=tmp_path / "home", own=(), is_secret=is_secret)
    sandbox = Sandbox(lambda: policy, mode="auto", state_dir=tmp_path / "state")

    opens = (workspace.open_dir, sandbox.open_dir, permissions.open_dir)
    directories = WorkspaceDirectories(workspace.root, opens=opens)
    [write] = [tool for tool in builtin_tools(workspace) if tool.name == "write"]
    call = ToolCall("t1", "write", {"path": "../other/x", "content": "x"})
    params = check_input(write, call.input)

    with pytest.raises(UsageError, match="nothing is not a directory"):
        directories.add("nothing")
    before = permissions.decide(call, write, params).verdict
    added = directories.add("../other")
    after = permissions.decide(call, write, params).verdict
    sandbox.close()

    assert added == other
    assert directories.all == (root, other)
    assert (type(before), type(after)) == (Ask, Allow)
    rules = policy.rules()
    assert other in rules.writable
    assert other / ".env" in rules.hidden
