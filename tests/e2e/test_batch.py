"""`agent-cli batch`: many runs, of which some are killed, and one result for each."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent_cli.batch.folder import BatchFolder
from agent_cli.contracts.wording import dollars, in_microdollars
from tests.e2e.batches import lines, results, write_tasks
from tests.e2e.program import agent_cli, finished, processes_with, started_for
from tests.hooks.test_scripts import command, hooks
from tests.messages_api import (
    Gate,
    ReceivedRequest,
    error,
    reply,
    serve_in_thread,
)
from tests.messages_api import tool_use as use
from tests.messages_api.script import Answer
from tests.waiting import wait_until

YOLO = ("--permission-mode", "yolo")
# Each run is a new interpreter.
RUNS_S, CAMPAIGN_S = 240.0, 1_500.0


def workers(*, first_only: bool = False) -> list[int]:
    """Return the process ids of the runs, the last started last; *first_only* leaves out repeats.

    Ids begin anew where they end, so that a child may have a lower one than its parent; both may
    have started in the same tick.
    """
    here = str(Path("tasks.batch/tasks").absolute())
    found = processes_with(f"--output-dir {here}")
    wanted = [line for line in found if not first_only or line.rstrip().endswith("/1")]
    ids = [int(line.split(":")[0]) for line in wanted]
    return sorted(ids, key=lambda id: _birth(id, ids))


def _birth(id: int, others: Sequence[int]) -> tuple[int, bool, int]:
    """Return when a process started, in ticks since the start of the system; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{id}/stat").read_text()
    except OSError:
        return 0, False, id
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]), int(fields[1]) in others, id


@pytest.fixture
def repository() -> Path:
    folder = Path("repository").absolute()
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("one\n")
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, timeout=60)
    return folder


def writing(request: ReceivedRequest) -> Answer:
    """Answer as a model that writes a file, and then reports it."""
    if request.body["messages"][-1]["content"][-1]["type"] == "tool_result":
        return reply("Written.")
    return reply(use("write", {"path": "new.txt", "content": "new\n"}))


def test_invalid_batch_is_refused_before_any_run_starts() -> None:
    write_tasks({"id": "a", "prompt": "go"}, {"id": "a", "prompt": "go", "cwd": "nowhere"})

    with serve_in_thread() as api:
        run = agent_cli("batch", "tasks.jsonl", api=api)
        continued = agent_cli("-c", "batch", "tasks.jsonl", api=api)

    assert (run.code, run.stdout, api.requests) == (2, "", [])
    assert run.stderr.endswith("tasks.jsonl:2: id 'a' is used twice: give each task its own id\n")
    assert (continued.code, continued.stdout) == (2, "")
    assert "--continue cannot be used with batch" in continued.stderr
    assert not Path("tasks.batch").exists()


def test_batch_with_results_alone_says_how_to_run_those_again_that_are_not_done() -> None:
    write_tasks(*({"id": id, "prompt": "go"} for id in "ab"))
    with BatchFolder(Path("tasks.batch")) as folder:
        folder.add_result({"id": "a", "status": "approval"})
        folder.add_result({"id": "b", "status": "done"})

    with serve_in_thread() as api:
        run = agent_cli("batch", "tasks.jsonl", api=api)

    assert (run.code, api.requests) == (1, [])
    assert run.stdout.startswith("2 of 2 tasks, 1 not done, ")
    assert run.stderr == (
        "agent-cli: 1 task not done, RESULTS.jsonl says why: the same command with --retry-failed"
        " tries again\n"
    )


@pytest.mark.slow
def test_batch_with_a_rejected_key_goes_on_once_the_key_is_right() -> None:
    """No task gets a final result, and not every task tries the key."""
    write_tasks(*({"id": f"t{number}", "prompt": "go"} for number in range(6)))
    options = ("batch", "tasks.jsonl", "--permission-mode", "plan")

    with serve_in_thread(*[error(401, "authentication_error", "invalid x-api-key")] * 6) as api:
        rejected = agent_cli(*options, api=api)
    between = Path("tasks.batch/RESULTS.jsonl").exists()
    with serve_in_thread(*[reply("Done.")] * 6) as api:
        run = agent_cli(*options, "--jobs", "3", api=api)

    assert (rejected.code, between) == (75, False)
    assert "the last 3 runs all failed (auth: " in rejected.stderr
    assert "6 tasks left" in rejected.stderr
    assert run.code == 0
    assert {each["status"] for each in results().values()} == {"done"}


@pytest.mark.slow
def test_agents_of_a_batch_wait_for_an_outage_together() -> None:
    """Twelve seconds in which the API is overloaded cost a few requests, and no task."""
    write_tasks(*({"id": f"t{number}", "prompt": "go"} for number in range(8)))
    begun = 0.0
    refused = 0

    def answer(_request: ReceivedRequest) -> Answer:
        nonlocal begun, refused
        begun = begun or time.monotonic()
        if time.monotonic() - begun > 12:
            return reply("Done.")
        refused += 1
        return error(529, "overloaded_error", "busy")

    with serve_in_thread(answer=answer) as api:
        run = agent_cli(
            *("batch", "tasks.jsonl", "--permission-mode", "plan", "--jobs", "4"), api=api
        )

    assert run.code == 0
    assert {each["status"] for each in results().values()} == {"done"}
    assert refused <= 12


def test_killed_batch_run_is_repeated_in_a_clean_worktree(repository: Path) -> None:
    """The changes are a patch and a kept worktree; the folder itself stays unchanged."""
    write_tasks({"id": "a", "prompt": "go", "cwd": "repository/sub", "ref": "HEAD"})
    gate = Gate()
    script = [reply(use("write", {"path": "lost.txt", "content": "x"})), reply("x", gate=gate)]

    def answer(request: ReceivedRequest) -> Answer:
        return script.pop(0) if script else writing(request)

    with (
        serve_in_thread(answer=answer) as api,
        started_for(
            RUNS_S, "batch", "tasks.jsonl", *YOLO, "--budget", "2", "--max-cost", "1", api=api
        ) as process,
    ):
        assert gate.reached.wait(RUNS_S)
        for worker in workers():  # one that it starts looks like it until its exec
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        run = finished(process)

    (result,) = results().values()
    assert (run.code, run.stderr) == (0, "")
    cost = dollars(in_microdollars(result["cost_usd"]))
    assert run.stdout.startswith(f"a: done, {cost}\n1 of 1 task, $")
    assert (result["status"], result["attempts"], result["text"]) == ("done", 2, "Written.")
    tree = Path(result["worktree"])
    assert (tree / "sub" / "new.txt").read_text() == "new\n"
    assert [*tree.rglob("lost.txt"), *repository.rglob("new.txt")] == []
    patch = Path(result["patch"])
    subprocess.run(["git", "apply", str(patch)], cwd=repository, check=True, timeout=60)
    assert (repository / "sub" / "new.txt").read_text() == "new\n"
    assert sorted(path.name for path in tree.parent.iterdir()) == ["a.2"]
    assert not any(each.stat().st_mode & 0o077 for each in (tree.parent, patch.parent, patch))
    assert workers() == []


@pytest.mark.slow
def test_batch_interrupted_while_its_last_run_closes_is_done() -> None:
    """The run has answered, so that nothing is left to repeat."""
    write_tasks({"id": "a", "prompt": "go"})
    hooks(SessionEnd=command("touch closing; until test -e go; do sleep 0.05; done"))
    with (
        serve_in_thread(reply("Done.")) as api,
        started_for(RUNS_S, "batch", "tasks.jsonl", api=api) as process,
    ):
        wait_until(Path("closing").exists, "the run closes", limit_s=RUNS_S)
        process.send_signal(signal.SIGINT)
        Path("go").touch()
        run = finished(process)

    (result,) = results().values()
    assert (run.code, run.stderr) == (0, "")
    assert (result["status"], result["exit_code"]) == ("done", 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_batch_continues_where_it_was_stopped(number: signal.Signals) -> None:
    """Its runs end with the batch, and finished ones are not repeated."""
    write_tasks(*({"id": id, "prompt": f"go {id}", "cwd": id} for id in "abc"))
    for id in "abc":
        Path(id).mkdir()
    gate = Gate()

    def answer(request: ReceivedRequest) -> Answer:
        is_held = "go b" in json.dumps(request.body["messages"])
        return reply("Done.", gate=gate) if is_held else reply("Done.")

    with serve_in_thread(answer=answer) as api:
        with started_for(RUNS_S, "batch", "tasks.jsonl", api=api) as process:
            assert gate.reached.wait(RUNS_S)
            process.send_signal(number)
            run = finished(process)
        wait_until(lambda: workers() == [], "its runs end", limit_s=RUNS_S)
        assert {*results()} == {"a"}
        gate.open()
        again = agent_cli("batch", "tasks.jsonl", "--jobs", "2", api=api)

    assert (again.code, again.stderr, len(again.stdout.splitlines())) == (0, "", 3)
    assert {id: each["attempts"] for id, each in results().items()} == {"a": 1, "b": 2, "c": 1}
    if number == signal.SIGINT:
        assert run.code == 130
        assert run.stderr == (
            "agent-cli: stopped with 2 tasks left: run the same command to continue\n"
        )


TASKS, KILLS = 200, 20


@pytest.mark.slow
def test_two_hundred_tasks_have_one_result_each_while_runs_and_batches_are_killed() -> None:
    """Twenty runs and two batches get SIGKILL at random; the budget still holds."""
    chance = random.Random(18)
    for number in range(TASKS):
        Path(f"t{number}").mkdir()
    write_tasks(*({"id": f"t{n}", "prompt": f"go t{n}", "cwd": f"t{n}"} for n in range(TASKS)))
    budget_usd = 40.0
    command = ("batch", "tasks.jsonl", "--jobs", "3", "--max-cost", "1")

    with serve_in_thread(answer=lambda _request: reply("Done.")) as api:
        for ends_at in (60, 130, TASKS):
            with (
                started_for(CAMPAIGN_S, *command, "--budget", str(budget_usd), api=api) as process,
                _killing(chance, KILLS // 3 + 1) as killed,
            ):
                if ends_at < TASKS:
                    wait_until(lambda: len(results()) >= ends_at, "results", limit_s=CAMPAIGN_S)  # noqa: B023
                    process.send_signal(signal.SIGKILL)
                run = finished(process)
            assert killed

    found = results()
    attempts = lines("attempts.jsonl")
    assert (run.code, len(found)) == (0, TASKS)
    assert {each["status"] for each in found.values()} == {"done"}
    assert len(attempts) >= TASKS + KILLS
    assert sum(each["attempts"] for each in found.values()) == len(attempts)
    # A lost run counts as if its whole limit had been spent.
    lost = len(attempts) - TASKS
    assert lost * 1.0 + sum(each["cost_usd"] for each in found.values()) <= budget_usd
    assert len(api.requests) >= TASKS


@contextmanager
def _killing(chance: random.Random, number: int) -> Generator[list[int]]:
    """Kill *number* runs at random while the body runs, at most one of each task."""
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while len(killed) < number and not done.wait(chance.uniform(0.5, 3)):
            if running := [pid for pid in workers(first_only=True) if pid not in killed]:
                with suppress(ProcessLookupError):
                    os.kill(victim := chance.choice(running), signal.SIGKILL)
                    killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()
