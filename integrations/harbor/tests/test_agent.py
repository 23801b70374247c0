"""The agent against Harbor's own base classes, in an environment that executes locally.

The program is the one of the repository's `.venv`, or of AGENT_CLI_BIN; its model is the test
server of the repository. Both run in processes of their own.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_cli_harbor import AgentCli
from environment import LocalEnvironment
from harbor.agents.installed.base import NonZeroAgentExitCodeError
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import MCPServerConfig
from harbor.models.trajectories import Trajectory

REPOSITORY = Path(__file__).parents[3]
BIN = Path(os.environ.get("AGENT_CLI_BIN", REPOSITORY / ".venv" / "bin"))
KEY = "sk-ant-canary-harbor"


@contextmanager
def serving(tmp_path: Path, *replies: Any) -> Iterator[str]:
    """Yield the address of a server that answers *replies* in order."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"reply": each} for each in replies]))
    command = [str(BIN / "python"), "-m", "tests.messages_api", str(script)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stdin
        yield server.stdout.readline().strip()
        server.stdin.close()


def agent_for(tmp_path: Path, address: str = "http://127.0.0.1:9", **more: Any) -> AgentCli:
    logs = tmp_path / "logs"
    logs.mkdir()
    return AgentCli(
        logs,
        model_name="anthropic/claude-sonnet-5-5",
        environment_logs_dir=logs,
        extra_env={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address},
        **more,
    )


@pytest.fixture
def environment(tmp_path: Path) -> LocalEnvironment:
    made = LocalEnvironment(tmp_path / "environment", {})
    made.stub("agent-cli", f'exec {shlex.quote(str(BIN / "agent-cli"))} "$@"')
    return made


def use(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}


async def test_a_run_leaves_its_files_usage_and_a_trajectory(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    """What the agent wrote is there, and Harbor's own model takes the trajectory."""
    hello = [use("write", path="hello.txt", content="Hello, world!\n")]
    with serving(tmp_path, hello, ["It says 'hello'."]) as address:
        agent = agent_for(tmp_path, address, max_rounds=5, effort="low")
        context = AgentContext()
        await agent.run("Write 'Hello' to \"hello.txt\"\n$HOME `ls`", environment, context)
    agent.populate_context_post_run(context)

    assert (environment.work / "hello.txt").read_text() == "Hello, world!\n"
    trajectory = Trajectory.model_validate_json((agent.logs_dir / "trajectory.json").read_text())
    assert trajectory.steps[0].message == "Write 'Hello' to \"hello.txt\"\n$HOME `ls`"
    said = [step.source for step in trajectory.steps if step.source != "system"]
    assert said == ["user", "agent", "agent"]
    totals = trajectory.final_metrics
    assert totals is not None
    assert context.n_input_tokens == totals.total_prompt_tokens
    assert context.n_output_tokens == totals.total_completion_tokens
    assert context.cost_usd == totals.total_cost_usd
    assert (context.metadata or {})["stop_reason"] == "end_turn"
    assert KEY not in " ".join(command for _, command in environment.commands)
    assert "hello" in (agent.logs_dir / "agent-cli" / "changes.diff").read_text()


async def test_a_limit_is_no_failure_and_its_trajectory_is_there(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    """What was done until then is verified like any other result."""
    with serving(tmp_path, [use("bash", command="echo x")], ["Done."]) as address:
        agent = agent_for(tmp_path, address, max_rounds=1)
        context = AgentContext()
        await agent.run("Go on for ever", environment, context)
    agent.populate_context_post_run(context)

    assert (context.metadata or {})["exit_code"] == 4
    Trajectory.model_validate_json((agent.logs_dir / "trajectory.json").read_text())


async def test_a_run_that_cannot_ask_the_model_is_an_error(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    """Harbor reads the output for the kind of error, and may try again."""
    environment._variables = {"AGENT_CLI_RETRY__MAX": "0"}
    agent = agent_for(tmp_path)
    context = AgentContext()

    with pytest.raises(NonZeroAgentExitCodeError):
        await agent.run("Hello", environment, context)
    agent.populate_context_post_run(context)

    assert (context.metadata or {})["stop_reason"] == "error"


async def test_a_run_that_was_killed_leaves_an_empty_context(tmp_path: Path) -> None:
    context = AgentContext()

    agent_for(tmp_path).populate_context_post_run(context)

    assert context.is_empty()


async def test_the_installation_is_uvs(tmp_path: Path, environment: LocalEnvironment) -> None:
    """A pinned version is installed, and found out again afterwards."""
    environment.stub("uv", 'echo "$@" > "$HOME/uv.txt"')
    agent = agent_for(tmp_path, version="0.1.0", package="agent-cli-repl")

    await agent.install(environment)
    printed = await environment.exec(agent.get_version_command())

    assert (environment.home / "uv.txt").read_text() == (
        "tool install --force agent-cli-repl==0.1.0\n"
    )
    packages = (environment.home / "packages.txt").read_text()
    assert "apt-get install -y ca-certificates" in packages
    assert agent.parse_version(printed.stdout or "").count(".") == 2
    assert agent.version() == "0.1.0"


async def test_skills_and_servers_of_a_task_reach_the_program(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    skills = tmp_path / "skills" / "greet"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("---\nname: greet\ndescription: Greet.\n---\nSay hello.\n")
    environment.stub("agent-cli", 'printf "%s\\n" "$@" > "$HOME/words.txt"')
    agent = agent_for(
        tmp_path,
        skills_dir=str(skills.parent),
        mcp_servers=[
            MCPServerConfig(name="a", transport="stdio", command="serve", args=["it's"]),
            MCPServerConfig(name="b", transport="http", url="http://127.0.0.1/mcp"),
        ],
    )

    await agent.run("Hello", environment, AgentContext())

    words = (environment.home / "words.txt").read_text().splitlines()
    assert words[words.index("--mcp-config") + 1] == str(agent.logs_dir / "mcp.json")
    assert words[words.index("--model") + 1] == "claude-sonnet-5-5"
    assert json.loads((agent.logs_dir / "mcp.json").read_text()) == {
        "mcpServers": {
            "a": {"command": "serve", "args": ["it's"]},
            "b": {"type": "http", "url": "http://127.0.0.1/mcp"},
        }
    }
    assert (environment.home / ".agents" / "skills" / "greet" / "SKILL.md").exists()


async def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unknown option 'efort'"):
        agent_for(tmp_path, efort="low")
