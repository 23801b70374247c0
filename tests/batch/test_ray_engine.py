"""Runs on a Ray cluster; a fake package replaces Ray in the real child process."""

import _thread
import asyncio
import json
import shutil
import socket
import threading
from pathlib import Path

import pytest

from agent_cli.batch import NotStarted, TaskRun, ray_engine
from agent_cli.batch.ray_engine import LOCAL, RayEngine, ray_address, sent_variables
from agent_cli.batch.ray_worker import node_environment, run_on_node
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.version import __version__
from tests.batch import fake_ray
from tests.messages_api import Gate, reply, serve_in_thread

RUN_S = 60.0


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of the engine, whose process finds the fake package."""
    package = tmp_path / "packages" / "ray"
    package.mkdir(parents=True)
    shutil.copyfile(fake_ray.__file__, package / "__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return tmp_path / "ray.log"


def work(path: Path, name: str) -> TaskRun:
    output_dir = path / "tasks" / name / "1"
    output_dir.mkdir(parents=True, exist_ok=True)
    return TaskRun(("-p=go",), path, output_dir)


async def test_ray_task_outcomes_map_to_finished_lost_and_not_started_runs(
    tmp_path: Path, log: Path
) -> None:
    """A lost run has a reason and no result; a run that no node can start ends the batch."""
    async with asyncio.timeout(RUN_S), RayEngine(LOCAL, log) as engine:
        await asyncio.gather(*(engine.run(work(tmp_path, name)) for name in ("done", "crashed")))
        for name, sentence in (
            ("refused", "the Ray node a cannot see /tasks"),
            ("alien", "a Ray node cannot run tasks: No module named 'agent_cli'; install"),
        ):
            with pytest.raises(NotStarted, match=sentence):
                await engine.run(work(tmp_path, name))

        held = asyncio.ensure_future(engine.run(work(tmp_path, "held")))
        begun = work(tmp_path, "begun")
        (begun.output_dir / "stderr.log").write_text("")
        cancelled = asyncio.ensure_future(engine.run(begun))
        await asyncio.sleep(0)
        engine.stop()
        with pytest.raises(NotStarted, match="cancelled before it began"):
            await held
        await cancelled
        # A worktree or a bundle was still being made for it.
        with pytest.raises(NotStarted, match="stopped before it began"):
            await engine.run(work(tmp_path, "late"))

    assert engine.jobs == 30
    told = (tmp_path / "tasks/crashed/1/stderr.log").read_text()
    assert told == "Ray lost the run: The worker died\n"
    assert not (tmp_path / "tasks/done/1/stderr.log").exists()
    assert log.read_text() == "Ray greets on stdout\nRay says goodbye on stdout\n"


async def test_lost_connection_to_ray_ends_the_batch(tmp_path: Path, log: Path) -> None:
    """Ray's native code ends its process when the head of the cluster is lost."""
    async with asyncio.timeout(RUN_S), RayEngine(LOCAL, log) as engine:
        held = asyncio.ensure_future(engine.run(work(tmp_path, "held")))
        await asyncio.sleep(0)
        for name, kind in (("fatal", AgentCliError), ("later", NotStarted)):
            with pytest.raises(AgentCliError, match="connection to Ray was lost") as ended:
                await engine.run(work(tmp_path, name))
            assert type(ended.value) is kind
        with pytest.raises(AgentCliError, match="connection to Ray was lost"):
            await held


async def test_unreachable_ray_cluster_is_a_usage_error(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray waits without a limit for an address that does not answer."""
    with pytest.raises(UsageError, match=r"\(auto\) cannot be used: Could not find any running"):
        async with asyncio.timeout(RUN_S), RayEngine("auto", log):
            pass
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"reached at {address} .Connection refused.: check"):
            async with RayEngine(address, log):
                pass
    monkeypatch.setenv("FAKE_RAY_HANGS", "1")
    with pytest.raises(UsageError, match=r"\(local\) did not answer within 0.1 s: check"):
        async with asyncio.timeout(RUN_S), RayEngine(LOCAL, log, limit_s=0.1):
            pass


async def test_stop_ends_a_hanging_connection_attempt_to_ray(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RAY_HANGS", "1")
    engine = RayEngine(LOCAL, log)
    asyncio.get_running_loop().call_later(0.05, engine.stop)

    async with asyncio.timeout(RUN_S), engine:
        pass


def test_unusable_ray_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "is_installed", lambda _name: False)
    with pytest.raises(UsageError, match=r"one more package: pip install 'agent-cli-repl\[ray\]'"):
        ray_address(None)
    monkeypatch.setattr(ray_engine, "is_installed", lambda _name: True)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert [ray_address(each) for each in (None, "auto", "a:1")] == ["local", "auto", "a:1"]
    monkeypatch.setenv("RAY_ADDRESS", "[::1]:6379")
    assert (ray_address(None), ray_address("a:1")) == ("[::1]:6379", "a:1")
    for wrong in ("ray://a:10001", "http://a:8265", "a", "a:b", ":1", "a:99999"):
        with pytest.raises(UsageError, match="run the batch on a machine of the cluster"):
            ray_address(wrong)


def test_ray_task_gets_our_credentials_and_no_other_variables() -> None:
    ours = {"ANTHROPIC_API_KEY": "k", "AGENT_CLI_MODEL": "m", "HOME": "/a", "GITHUB_TOKEN": "t"}
    node = {
        "HOME": "/b",
        "ANTHROPIC_API_KEY": "old",
        "RAY_AUTH_TOKEN": "x",
        "PYTHONBREAKPOINT": "y",
    }

    sent = sent_variables(ours)

    assert sent == {"ANTHROPIC_API_KEY": "k", "AGENT_CLI_MODEL": "m"}
    assert node_environment(node, sent) == {"HOME": "/b", **sent}


def test_ray_node_reports_a_missing_folder_or_another_version(tmp_path: Path) -> None:
    order = {
        "options": [],
        "cwd": str(tmp_path),
        "output_dir": str(tmp_path / "elsewhere"),
        "variables": {},
        "version": __version__,
    }

    assert f"cannot see {tmp_path / 'elsewhere'}: the folders" in run_on_node(order)
    assert "install the same version" in run_on_node({**order, "version": "0"})


def test_interrupt_by_ray_aborts_the_run_with_a_result(tmp_path: Path) -> None:
    """This is how Ray cancels a task; a blocking read would not notice."""
    gate = Gate()
    run = work(tmp_path, "a")

    def cancel() -> None:
        assert gate.reached.wait(RUN_S)
        _thread.interrupt_main()

    with serve_in_thread(reply("x", gate=gate)) as api:
        thread = threading.Thread(target=cancel)
        thread.start()
        fault = run_on_node(
            {
                "options": [*run.options],
                "cwd": str(run.cwd),
                "output_dir": str(run.output_dir),
                "variables": {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "k"},
                "version": __version__,
            }
        )
        thread.join()

    result = json.loads((run.output_dir / "result.json").read_text())
    assert (fault, result["stop_reason"]) == ("", "aborted")
