"""Tools that come and go in a session, against an API that refuses what it would: a plugin's, and
those of the MCP server that a subagent brings."""

import sys
from itertools import pairwise
from json import dumps
from pathlib import Path

import pytest

from agent_cli.system import paths
from tests.e2e.program import agent_cli
from tests.e2e.test_cached_sessions import answer, losses_in
from tests.installed_plugins import install_plugin
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import ReceivedRequest, reply, serve_in_thread, tool_use
from tests.messages_api.prompt_cache import canonical
from tests.messages_api.script import Payload, Reply

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
    return str(install_plugin(folder, "tickets", PLUGIN, offers="tickets = tickets:plugin"))


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
        run = agent_cli(
            *("--permission-mode", "yolo", "--model", model),
            api=api,
            script="\n".join(lines) + "\n",
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


def test_tool_that_returns_after_a_signed_summary_is_offered_again(installed: str) -> None:
    """The summary holds that it was withdrawn, and no message does any more."""
    Path("open").touch()

    def reopen(request: ReceivedRequest) -> Reply:
        if "compaction" in request.body:
            Path("open").touch()
        return answer(request)

    talks = ["tell me more"] * 3
    lines = [f"hello {'word ' * 4_000}", CALL, CLOSE, *talks, "/compact", CALL]
    with serve_in_thread(answer=reopen) as api:
        run = agent_cli(
            *("--permission-mode", "yolo", "--model", "claude-sonnet-5-5"),
            api=api,
            script="\n".join(lines) + "\n",
            PYTHONPATH=installed,
        )

    assert (run.code, api.refusals) == (0, []), run.stderr
    messages = api.requests[-1].body["messages"]
    (removal,) = messages[0]["content"][0]["tool_changes"]
    assert removal["tool"] == {"type": "tool_reference", "name": "ticket"}
    again = [
        block["type"]
        for message in messages
        if message["role"] == "system"
        for block in message["content"]
        if block.get("tool") == removal["tool"]
    ]
    assert again == ["tool_addition"]


def _listing(*names: str) -> str:
    return dumps([{"name": name, "inputSchema": {"type": "object"}} for name in names])


def _restart_with(*names: str) -> list[Payload]:
    """Let the server end and list other tools when it is there again; then call one of them."""
    answered = {"result": {"content": [{"type": "text", "text": "answered"}]}}
    return [
        tool_use("bash", {"command": f"echo '{_listing(*names)}' > tools.json"}),
        tool_use("mcp__own__reply", {"reply": "die"}),
        tool_use("mcp__own__reply", {"reply": answered}),
        tool_use(f"mcp__own__{names[-1]}", {"line": ""}),
    ]


AGENTS_CALLS = [*_restart_with("reply", "late"), *_restart_with("reply", "raw")]


def _as_subagent(request: ReceivedRequest) -> Reply:
    """Make the calls of the subagent one after the other, and start it in the session."""
    messages = request.body["messages"]
    if "Use your server" not in str(messages[0]):
        return answer(request)
    made = sum(message["role"] == "assistant" for message in messages)
    return reply(*AGENTS_CALLS[made : made + 1]) if made < len(AGENTS_CALLS) else reply("Done.")


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-sonnet-5"])
def test_server_that_comes_and_goes_while_a_subagent_runs_rewrites_nothing(
    model: str, is_shared: bool
) -> None:
    """It ends twice: one tool goes, another comes, the first returns; all bytes stay.

    The server is the subagent's own, or the session's, whose agent waits meanwhile.
    """
    Path("tools.json").write_text(_listing("reply", "raw"))
    raw = ["-I", "-S", RAW_SERVER, dumps({"tools_file": str(Path("tools.json").absolute())})]
    server = {"own": {"command": sys.executable, "args": raw}}
    Path("servers.json").write_text(dumps({"mcpServers": server if is_shared else {}}))
    servers = dumps(["own" if is_shared else server])
    folder = paths.config_dir() / "agents"
    folder.mkdir(parents=True)
    (folder / "helped.md").write_text(
        f"---\nname: helped\ndescription: d\nmcpServers: {servers}\n---\nDo it."
    )
    asked = {
        "subagent_type": "helped",
        "description": "x",
        "prompt": f"Use your server. {'word ' * 4_000}",
    }
    lines = [f"hello {'word ' * 4_000}", f"CALL agent {dumps(asked)}", "go on"]
    with serve_in_thread(answer=_as_subagent) as api:
        run = agent_cli(
            *("--permission-mode", "yolo", "--model", model, "--mcp-config", "servers.json"),
            api=api,
            script="\n".join(lines) + "\n",
        )

    assert (run.code, api.refusals) == (0, []), run.stderr
    for is_of_subagent in (False, True):
        sent = [
            each
            for each in api.requests
            if ("Use your server" in str(each.body["messages"][0])) == is_of_subagent
        ]
        assert [*losses_in(sent)] == []
        for before, after in pairwise(sent):
            assert canonical(after.body["tools"]) == canonical(before.body["tools"])
            begin = canonical(before.body["messages"])[:-1]
            assert canonical(after.body["messages"]).startswith(begin)
    results = str(sent[-1].body["messages"])
    assert len(sent) == len(AGENTS_CALLS) + 1
    assert results.count("ended during the call") == 2
    assert "does not exist" not in results
    assert results.count("answered") >= 4
