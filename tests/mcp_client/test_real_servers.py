"""The official servers, as published. These tests run after these commands have installed them:

    npm install --prefix .venv/mcp-servers @modelcontextprotocol/server-everything \\
        @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory
    python -m venv .venv/mcp-servers/python
    .venv/mcp-servers/python/bin/pip install mcp-server-git mcp-server-time
"""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.servers import SamplingRequest, ServerPhase
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.host import Elicitation, ElicitationAnswer, Host, Sampled

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call

Until = Callable[[Callable[[], object]], Awaitable[None]]
ROOT = Path(__file__).parents[2]
INSTALLED = Path(os.environ.get("MCP_SERVERS_DIR", ROOT / ".venv" / "mcp-servers"))
LIMIT_S = 60
pytestmark = pytest.mark.slow


def node_server(name: str, *arguments: str, **env: str) -> ServerConfig:
    """Return a server from npm; skip the test if it is not installed."""
    script = INSTALLED / f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
    if not script.exists() or not shutil.which("node"):
        pytest.skip(f"{script} is not installed")
    return ServerConfig(name=name, command="node", args=(str(script), *arguments), env=env)


def python_server(name: str, *arguments: str) -> ServerConfig:
    """Return a server from the Python index; skip the test if it is not installed."""
    program = INSTALLED / "python" / "bin" / f"mcp-server-{name}"
    if not program.exists():
        pytest.skip(f"{program} is not installed")
    # Newest revision: the one these servers are made for.
    return ServerConfig(name=name, command=str(program), args=arguments, protocol="auto")


async def test_features_of_the_everything_server_work(call: "Call", until: Until) -> None:
    """It has tools, progress, sampling, elicitation, prompts, resources and completion."""
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("accept", {"name": "Ada"})

    async def sample(_request: SamplingRequest) -> Sampled:
        return Sampled("a reply", "some-model")

    host = Host(elicit=answer, sample=sample, roots=lambda: [Path.cwd()])
    async with McpServers(os.environ, host=host) as servers:
        servers.start([node_server("everything")])
        assert await servers.wait_started(LIMIT_S)
        # It registers more tools once it knows our capabilities.
        await until(
            lambda: (
                "mcp__everything__trigger-elicitation-request"
                in {tool.name for tool in servers.tools()}
            )
        )
        await until(servers.prompts)
        await until(servers.resources)
        updates: list[str] = []
        echo = await call(servers, "mcp__everything__echo", {"message": "hi"})
        await call(
            servers,
            "mcp__everything__trigger-long-running-operation",
            {"duration": 1, "steps": 2},
            updates=updates,
        )
        image = await call(servers, "mcp__everything__get-tiny-image")
        sampled = await call(
            servers, "mcp__everything__trigger-sampling-request", {"prompt": "x", "maxTokens": 9}
        )
        await call(servers, "mcp__everything__trigger-elicitation-request")
        requests = servers.requests("everything")
        prompt = await requests.get_prompt("simple-prompt", {})
        resource = next(each for each in servers.resources() if not each.is_template)
        contents = await requests.read_resource(resource.uri)

    assert "hi" in echo.text
    assert updates == ["1 of 2", "2 of 2"]
    assert "image" in [block["type"] for block in image.content]
    assert "a reply" in sampled.text
    assert len(asked) == 1
    assert prompt
    assert contents


async def test_filesystem_server_works_inside_our_directories_only(
    call: "Call", tmp_path: Path
) -> None:
    """It replaces its own list of directories by ours."""
    (tmp_path / "a.txt").write_text("inside")
    host = Host(roots=lambda: [tmp_path])
    async with McpServers(os.environ, host=host) as servers:
        servers.start([node_server("filesystem", str(tmp_path))])
        assert await servers.wait_started(LIMIT_S)
        tools = {tool.name: tool for tool in servers.tools()}
        inside = await call(
            servers, "mcp__filesystem__read_text_file", {"path": str(tmp_path / "a.txt")}
        )
        outside = await call(servers, "mcp__filesystem__read_text_file", {"path": "/etc/hostname"})

    assert (inside.text, inside.is_error) == ("inside", False)
    assert outside.is_error
    assert not tools["mcp__filesystem__read_text_file"].changes
    assert tools["mcp__filesystem__write_file"].changes


async def test_memory_server_is_restarted_after_kill_9_during_a_call(
    call: "Call", until: Until, tmp_path: Path
) -> None:
    """The model reads an error; the next call works, with a new process."""
    config = node_server("memory", MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl"))
    async with McpServers(os.environ) as servers:
        servers.start([config])
        assert await servers.wait_started(LIMIT_S)
        [process] = processes_of(str(config.args[0]))
        os.kill(process, signal.SIGSTOP)
        calling = asyncio.ensure_future(call(servers, "mcp__memory__read_graph"))
        await asyncio.sleep(0)
        os.kill(process, signal.SIGKILL)
        killed = await calling
        await until(lambda: servers.states()[0].phase is ServerPhase.READY)
        again = await call(servers, "mcp__memory__read_graph")

    assert killed.is_error or killed.text == again.text
    assert not again.is_error
    assert processes_of(str(config.args[0])) == []


def processes_of(script: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if words[0].endswith(b"node") and script.encode() in words:
            found.append(int(path.parent.name))
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").touch()
    return tmp_path


async def test_git_and_time_servers_work_with_the_newest_revision(
    call: "Call", repository: Path
) -> None:
    """They run concurrently, as in a session."""
    async with McpServers(os.environ) as servers:
        servers.start([python_server("git"), python_server("time")])
        assert await servers.wait_started(LIMIT_S)
        assert {state.phase for state in servers.states()} == {ServerPhase.READY}
        status = await call(servers, "mcp__git__git_status", {"repo_path": str(repository)})
        now = await call(servers, "mcp__time__get_current_time", {"timezone": "UTC"})
        wrong = await call(servers, "mcp__time__get_current_time", {"timezone": "Nowhere"})

    assert "new.txt" in status.text
    assert "UTC" in now.text
    assert wrong.is_error
