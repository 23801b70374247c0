"""Tools of a plugin that come and go in a session, against an API that refuses what it would."""

from pathlib import Path

import pytest

from tests.e2e.program import new_agent_cli
from tests.e2e.test_cached_sessions import answer, losses_in
from tests.messages_api import serve_in_thread

PLUGIN = """
from pathlib import Path
from agent_cli import Plugin, Tool

async def ticket(tool_call_id, params, cancel, context):
    return "ticket 7"

def prepare(ctx):
    if Path("open").exists():
        ctx.add_tool(Tool(
            name="ticket", label="Ticket", description="Reads it.", execute=ticket,
            parameters={"type": "object", "properties": {}},
        ))

plugin = Plugin(name="tickets", prepare=prepare)
"""
OPEN, CLOSE = 'CALL bash {"command": "touch open"}', 'CALL bash {"command": "rm open"}'
CALL = "CALL ticket {}"


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the plugin, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "tickets.py").write_text(PLUGIN)
    about = folder / "tickets-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tickets\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[agent_cli.plugins]\ntickets = tickets:plugin\n")
    return str(folder)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-sonnet-5"])
def test_tool_that_comes_and_goes_rewrites_nothing(
    model: str, installed: str, is_there: bool
) -> None:
    """Declared from the first request or added later, in the system's role or as text."""
    if is_there:
        Path("open").touch()
    begin = f"hello {'word ' * 4_000}"
    lines = [begin, OPEN, CALL, CLOSE, CALL, OPEN, CALL, "/compact", CALL]
    with serve_in_thread(answer=answer) as api:
        run = new_agent_cli(
            *("--permission-mode", "yolo", "--model", model, "--prompts-from", "-"),
            api=api,
            stdin="\n".join(lines) + "\n",
            PYTHONPATH=installed,
        )

    assert (run.code, api.refusals) == (0, []), run.stderr
    assert "not read from the cache" not in run.stdout + run.stderr
    assert [*losses_in(api.requests)] == []
    results = [
        str(block["content"])
        for request in api.requests
        for block in request.body["messages"][-1]["content"]
        if block["type"] == "tool_result"
    ]
    called = ["ticket 7" in each for each in results if "exit" not in each]
    assert called[:3] == [True, False, True]
    assert called[-1]
