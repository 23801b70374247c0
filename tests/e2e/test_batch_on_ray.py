"""`agent-cli batch --engine ray`: a local cluster, and one that loses a node."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import IO

import pytest

from agent_cli.system.supervisor import supervised
from tests.e2e.batches import lines, results, write_tasks
from tests.e2e.program import KEY, agent_cli, finished, processes_with, started_for
from tests.messages_api import Gate, ReceivedRequest, error, reply, serve_in_thread
from tests.messages_api.script import Answer
from tests.system.test_worktrees import git
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="ray is not installed: pip install 'ray>=2.60,<3'"
    ),
]
RUNS_S, CAMPAIGN_S = 400.0, 1_500.0
OUTAGE_S = 60.0
TASKS, CPUS = 200, 2
ON_RAY = ("batch", "tasks.jsonl", "--engine", "ray", "--max-cost", "1")


def write_named(*names: str, ref: str = "") -> None:
    """Write a task for each of *names*, in a folder of its own; with *ref* all in a repository."""
    more = {"ref": ref} if ref else {}
    for name in names:
        Path(name).mkdir()
        (Path(name) / "file.txt").write_text(name)
    if ref:
        here = Path.cwd()
        git(here, "init", "-q", "-b", ref)
        git(here, "add", "-A")
        git(here, "commit", "-qm", "all")
    write_tasks(*({"id": name, "prompt": f"go {name}", "cwd": name, **more} for name in names))


def workers() -> list[str]:
    return processes_with(f"--output-dir {Path('tasks.batch/tasks').absolute()}")


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder for Ray's files; the paths of its sockets must be short."""
    made = Path(tempfile.mkdtemp(prefix="nodes-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@contextmanager
def two_nodes(folder: Path) -> Generator[tuple[str, IO[str], IO[str]]]:
    """Start a cluster; yield its address, and its input and output."""
    with (
        (folder / "nodes.log").open("w") as log,
        subprocess.Popen(
            supervised((sys.executable, "-m", "tests.e2e.ray_nodes", str(folder), str(CPUS))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, (folder / "nodes.log").read_text()
        yield address, process.stdin, process.stdout


def test_local_ray_cluster_ends_with_the_batch() -> None:
    """Ctrl-C leaves no process, and the same command continues the batch."""
    write_named("a", "b", "c")
    gate = Gate()

    def answer(request: ReceivedRequest) -> Answer:
        is_held = "go b" in json.dumps(request.body["messages"])
        return reply("Done.", gate=gate) if is_held else reply("Done.")

    with serve_in_thread(answer=answer) as api:
        with started_for(RUNS_S, *ON_RAY, "--jobs", "1", "--budget", "2", api=api) as process:
            assert gate.reached.wait(RUNS_S)
            process.send_signal(signal.SIGINT)
            run = finished(process)
        assert (run.code, workers(), processes_with("/tmp/ray-")) == (130, [], [])
        assert {*results()} == {"a"}
        gate.open()
        again = agent_cli(*ON_RAY, "--jobs", "2", "--budget", "2", api=api)

    assert run.stderr == "agent-cli: stopped with 2 tasks left: run the same command to continue\n"
    assert (again.code, again.stderr, len(again.stdout.splitlines())) == (0, "", 3)
    assert {id: each["attempts"] for id, each in results().items()} == {"a": 1, "b": 2, "c": 1}
    assert processes_with("/tmp/ray-") == []


def test_two_hundred_tasks_have_one_result_each_though_a_node_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a Ctrl-C; the budget holds, and Ray's files contain no key."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    write_named(*(f"t{number}" for number in range(TASKS)))
    budget_usd = 40.0

    with (
        two_nodes(folder) as (address, orders, answers),
        serve_in_thread(answer=lambda _request: reply("Done.")) as api,
    ):
        command = (*ON_RAY, "--ray-address", address, "--budget", str(budget_usd))
        with started_for(CAMPAIGN_S, *command, api=api) as process:
            wait_until(lambda: len(results()) >= TASKS // 4, "results", limit_s=CAMPAIGN_S)
            process.send_signal(signal.SIGINT)
            stopped = finished(process)
        assert (stopped.code, workers()) == (130, [])
        before = len(lines("attempts.jsonl"))
        with started_for(CAMPAIGN_S, *command, api=api) as process:
            wait_until(lambda: len(results()) >= TASKS // 2, "results", limit_s=CAMPAIGN_S)
            print("lose a node", file=orders, flush=True)
            assert answers.readline() == "lost\n"
            run = finished(process)
        told = [path for path in folder.rglob("*") if path.is_file() and KEY in _text(path)]

    found, attempts = results(), lines("attempts.jsonl")
    assert (run.code, run.stderr, len(found)) == (0, "", TASKS)
    assert {each["status"] for each in found.values()} == {"done"}
    assert sum(each["attempts"] for each in found.values()) == len(attempts) > TASKS
    lost = len(attempts) - TASKS
    assert lost * 1.0 + sum(each["cost_usd"] for each in found.values()) <= budget_usd
    print(f"{lost} runs were repeated, {before} were started before Ctrl-C")
    assert (workers(), told) == ([], [])


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


@pytest.mark.parametrize("copies", [False, True], ids=["shared files", "copied files"])
def test_batch_survives_an_outage_a_lost_node_and_a_killed_driver(
    copies: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 200 tasks have one result; during the outage the agents ask once a second at most.

    Without a shared file system the repository, the results and the pause travel through Ray.
    """
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    write_named(*(f"t{number}" for number in range(TASKS)), ref="main" if copies else "")
    outage = Event()
    refused_at: list[float] = []
    monkeypatch.setenv("TMPDIR", str(folder))  # of the nodes

    def working() -> list[str]:
        return [*workers(), *processes_with(f"--output-dir {folder}/")]

    def answer(_request: ReceivedRequest) -> Answer:
        if not outage.is_set():
            return reply("Done.")
        refused_at.append(time.monotonic())
        return error(529, "overloaded_error", "busy")

    with (
        two_nodes(folder) as (address, orders, answers),
        serve_in_thread(answer=answer) as api,
    ):
        more = ("--ray-copy",) if copies else ()
        command = (*ON_RAY, "--ray-address", address, "--budget", "100", "--wait", "600", *more)
        with started_for(CAMPAIGN_S, *command, api=api) as process:
            wait_until(lambda: len(results()) >= TASKS // 4, "results", limit_s=CAMPAIGN_S)
            began = time.monotonic()
            outage.set()
            Event().wait(OUTAGE_S)
            outage.clear()
            wait_until(lambda: len(results()) >= TASKS // 2, "results", limit_s=CAMPAIGN_S)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        wait_until(lambda: working() == [], "the runs to end", limit_s=RUNS_S)
        with started_for(CAMPAIGN_S, *command, api=api) as process:
            wait_until(lambda: len(results()) >= TASKS * 3 // 4, "results", limit_s=CAMPAIGN_S)
            print("lose a node", file=orders, flush=True)
            assert answers.readline() == "lost\n"
            run = finished(process)

    found, attempts = results(), lines("attempts.jsonl")
    during = [at - began for at in refused_at]
    print(f"{len(attempts) - TASKS} runs repeated; requests refused at {during}")
    assert (run.code, run.stderr, len(found)) == (0, "", TASKS)
    assert {each["status"] for each in found.values()} == {"done"}
    # Those that were under way when it began come on top.
    assert len(during) <= OUTAGE_S + 2 * CPUS
    lost = len(attempts) - TASKS
    assert lost * 1.0 + sum(each["cost_usd"] for each in found.values()) <= 100
    assert working() == []
    patches = [each for each in found.values() if "patch" in each]
    assert patches == []
