"""A workspace with the built-in tools."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli_tools import Workspace
from agent_cli_tools.session_resources import SessionResources
from tests.tools.calling import Tools


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Tools]:
    root = tmp_path / "ws"
    root.mkdir()
    workspace = Workspace(root, shared=SessionResources(spill_dir=tmp_path / "out"))
    yield Tools(workspace)
    workspace.close()
