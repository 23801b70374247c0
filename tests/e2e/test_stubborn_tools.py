"""Plugin tools that ignore cancellation: the program still ends."""

from pathlib import Path

import pytest

from tests.e2e.program import agent_cli, results_in, text_of
from tests.installed_plugins import install_plugin
from tests.messages_api import reply, serve_in_thread, tool_use

PLUGIN = """
import asyncio, time
from agent_cli import Tool

async def swallowing(tool_call_id, params, cancel, context):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def blocking(tool_call_id, params, cancel, context):
    await asyncio.to_thread(time.sleep, 600)

def tools(_workspace):
    return [
        Tool(
            name=run.__name__, label=run.__name__, description="Waits.", execute=run,
            parameters={"type": "object", "properties": {}}, timeout_s=0.1,
        )
        for run in (swallowing, blocking)
    ]
"""


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the plugin, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("installed")
    offers = "stubborn = stubborn:tools"
    return str(install_plugin(folder, "stubborn", PLUGIN, offers=offers, group="agent_cli.tools"))


def test_tools_that_ignore_cancellation_do_not_block_the_exit(
    installed: str, tmp_path: Path
) -> None:
    """S0-18: the run continues, the answer is printed, and the exit code is the run's."""
    calls = [tool_use(tool, {}, id=tool) for tool in ("swallowing", "blocking")]
    with serve_in_thread(reply(*calls), reply("Done.")) as api:
        run = agent_cli("-p", "go", "--permission-mode", "yolo", api=api, PYTHONPATH=installed)

    assert (run.code, run.stdout) == (0, "Done.\n"), run.stderr
    results = results_in(api.requests[1].body)
    assert len(results) == 2
    for result in results:
        assert "took longer than 0.1 s and was stopped" in text_of(result)
