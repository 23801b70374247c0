"""Thousands of secrets, each in a folder of its own: all are hidden, or no command runs."""

import asyncio
import sys
from pathlib import Path
from types import FrameType

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, check_input
from agent_cli.sandbox import Sandbox, SandboxPolicy
from agent_cli.sandbox.backends import landlock_confinement
from agent_cli.sandbox.confinement import SandboxFiles
from agent_cli.sandbox.probe import tried_rules
from agent_cli.sandbox.secret_files import is_secret
from agent_cli_tools import Workspace
from agent_cli_tools.bash import bash_tool
from tests.sandbox.world import only, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")


def with_secrets(root: Path, count: int) -> SandboxPolicy:
    """Return the policy of the workspace *root* with so many secrets."""
    for number in range(count):
        folder = root / f"{number:04}"
        folder.mkdir(parents=True)
        (folder / ".env").write_text("KEY=1\n")
        (folder / "code.py").touch()
    home = root.parent
    return SandboxPolicy((root,), home=home, own=(home / "own",), is_secret=is_secret)


def test_more_secrets_than_bubblewrap_can_hide_are_named(tmp_path: Path) -> None:
    """No weaker sandbox is used instead, where they could be read."""
    with world("bwrap"):  # else it does not work here
        pass
    root = tmp_path / "ws"
    policy = with_secrets(root, 3_000)
    sandbox = Sandbox(lambda: policy, mode="auto", state_dir=tmp_path / "own")
    workspace = Workspace(root)
    bash = bash_tool(workspace, sandbox)
    params = check_input(bash, {"command": "touch ran"})

    async def run() -> None:
        await bash.execute("1", params, CancelToken(), ToolContext())

    report = asyncio.run(sandbox.ready())
    with pytest.raises(ToolError) as refused:
        asyncio.run(run())
    workspace.close()
    sandbox.close()

    assert report.state == "bwrap"
    assert not (root / "ran").exists()
    sentence = str(refused.value)
    assert f"such as {root}" in sentence
    assert sentence.endswith(
        "start in a folder with fewer files that look like keys. Tell the user."
    )


def test_sandbox_is_tried_with_some_of_many_secrets_and_its_own(tmp_path: Path) -> None:
    """Each that is hidden delays the start; our own secrets are what the test tries to read."""
    policy = with_secrets(tmp_path / "ws", 300)
    for number in range(300):
        (tmp_path / f"{number}.pem").touch()
    (tmp_path / "own").mkdir()
    rules = policy.rules()

    tried = tried_rules(rules, tmp_path / "own")

    assert len(rules.hidden) > 600
    assert len(tried.hidden) <= 101
    assert tmp_path / "own" in tried.hidden


def test_file_among_the_settings_of_the_system_is_hidden_alone(tmp_path: Path) -> None:
    """With many secrets folders are hidden in place of their files, but no command works so."""
    hidden = with_secrets(tmp_path / "ws", 100).rules().hidden

    assert len(hidden) >= 100
    assert not {*map(Path, ("/etc", "/"))} & {*hidden}


def test_landlock_is_as_fast_for_many_secrets(tmp_path: Path) -> None:
    """A workspace with thousands could not be opened: each folder was compared with each secret."""
    if not only("landlock", [], tmp_path):
        pytest.skip("no Landlock here")
    own_files = SandboxFiles.create()
    counts: list[int] = []

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        counts[-1] += event == "call"

    for secrets in (100, 300):
        rules = with_secrets(tmp_path / f"{secrets}" / "ws", secrets).rules()
        counts.append(0)
        sys.setprofile(count)
        try:
            landlock_confinement(rules, own_files)
        finally:
            sys.setprofile(None)
    own_files.remove()

    few, many = counts
    assert many < 4 * few
