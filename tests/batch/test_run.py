"""The order in which runs start, and one result for each task whatever happens to the runs."""

import errno
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.batch import NotStarted, TaskRun
from agent_cli.batch.folder import Attempt, BatchFolder, state_folder
from agent_cli.batch.run import Batch, BatchOptions, Budget, Outage
from agent_cli.batch.tasks import Task
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.wording import in_microdollars, in_usd
from agent_cli.system import paths
from agent_cli.system.git import GitError
from tests.batch.engines import DONE, ScriptedEngine
from tests.full_disks import full_disk

Leave = Callable[[str, TaskRun], dict[str, Any] | None]
MANY = BatchOptions(jobs=8)


def tasks_in(*folders: Path, **more: Any) -> list[Task]:
    return [
        Task(f"t{number}", "go", folder, None, (), more.get("max_cost_usd"), "as it was")
        for number, folder in enumerate(folders)
    ]


async def run(
    path: Path,
    tasks: list[Task],
    leave: Leave,
    *,
    options: BatchOptions = MANY,
    budget: Budget | None = None,
) -> tuple[Batch, ScriptedEngine]:
    engine = ScriptedEngine(leave)
    with BatchFolder(path) as folder:
        batch = Batch(tasks, folder, engine, budget or Budget(0), options, lambda _result: None)
        await batch.run()
    return batch, engine


def results(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "RESULTS.jsonl").read_text().splitlines()]
    found = {line["id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


async def test_runs_are_parallel_but_never_in_the_same_or_nested_folders(tmp_path: Path) -> None:
    """Two agents in one tree, or in nested ones, would undo each other's work."""
    a, b = tmp_path / "a", tmp_path / "b"
    tasks = tasks_in(a, a, a / "sub", b, tmp_path / "c", tmp_path)

    _, engine = await run(tmp_path / "out", tasks, lambda _id, _work: DONE)

    assert len(results(tmp_path / "out")) == 6
    assert engine.most == 3
    for one, other in engine.overlaps:
        assert not one.is_relative_to(other)
        assert not other.is_relative_to(one)


async def test_read_only_runs_share_a_folder(tmp_path: Path) -> None:
    options = BatchOptions(jobs=3, shares_folders=True)

    _, engine = await run(
        tmp_path / "out", tasks_in(*[tmp_path] * 5), lambda _id, _work: DONE, options=options
    )

    assert engine.most == 3


async def test_lost_run_is_repeated_up_to_a_limit(tmp_path: Path) -> None:
    """So is a run aborted by a signal; a task that never finishes still has a result."""
    aborted = {**DONE, "stop_reason": "aborted", "exit_code": 143}
    at_question = {**DONE, "stop_reason": "waiting_for_approval", "exit_code": 143}
    left: dict[str, list[dict[str, Any] | None]] = {
        "t0": [None, aborted, DONE],
        "t1": [None, None, None],
        "t2": [DONE],
        "t3": [at_question, DONE],
    }

    await run(
        tmp_path / "out",
        tasks_in(*(tmp_path / name for name in "abcd")),
        lambda id, _work: left[id].pop(0),
    )

    found = results(tmp_path / "out")
    assert {id: (each["status"], each["attempts"]) for id, each in found.items()} == {
        "t0": ("done", 3),
        "t1": ("lost", 3),
        "t2": ("done", 1),
        "t3": ("done", 2),
    }


async def test_last_line_of_stderr_is_the_error_of_a_failed_run(tmp_path: Path) -> None:
    def leave(_id: str, work: TaskRun) -> dict[str, Any]:
        (work.output_dir / "stderr.log").write_text("read a.txt\nagent-cli: no such model\n\n")
        return {**DONE, "exit_code": 1, "stop_reason": "error"}

    await run(tmp_path / "out", tasks_in(tmp_path), leave)

    result = results(tmp_path / "out")["t0"]
    assert (result["status"], result["error"]) == ("failed", "agent-cli: no such model")


def cost_limit(work: TaskRun) -> int:
    (option,) = (each for each in work.options if each.startswith("--max-cost="))
    return in_microdollars(float(option.partition("=")[2]))


@given(
    costs=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=8),
    cap=st.sampled_from([0, 50_000, 300_000]),
    limit=st.integers(10_000, 2_000_000),
    jobs=st.integers(1, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_budget_holds_across_lost_runs_and_resumed_batches(
    tmp_path_factory: pytest.TempPathFactory,
    costs: list[tuple[float, bool]],
    cap: int,
    limit: int,
    jobs: int,
) -> None:
    """Runs spend up to their own limit; a lost one may have spent all of it."""
    path = tmp_path_factory.mktemp("batch")
    plan = {f"t{number}": [*cost] for number, cost in enumerate(costs)}
    spent = 0

    def leave(id: str, work: TaskRun) -> dict[str, Any] | None:
        nonlocal spent
        share, is_lost = plan[id]
        plan[id][1] = False
        cost = cost_limit(work) if is_lost else int(cost_limit(work) * share)
        spent += cost
        return None if is_lost else {**DONE, "cost_usd": in_usd(cost)}

    tasks = tasks_in(*(path / str(number) for number in range(len(costs))))
    options = BatchOptions(jobs=jobs, cap=cap)
    await run(path / "out", tasks, leave, options=options, budget=Budget(limit))
    batch, _ = await run(path / "out", tasks, leave, options=options, budget=Budget(limit))

    assert spent <= limit
    done = {*results(path / "out")} if (path / "out" / "RESULTS.jsonl").exists() else set()
    assert done | {task.id for task in batch.state.pending} == {task.id for task in tasks}
    assert done.isdisjoint({task.id for task in batch.state.pending})


async def test_task_waits_for_budget_reserved_by_running_tasks(tmp_path: Path) -> None:
    tasks = tasks_in(*(tmp_path / str(number) for number in range(3)))
    options = BatchOptions(jobs=3, cap=1_000_000)

    batch, engine = await run(
        tmp_path / "out",
        tasks,
        lambda _id, _work: DONE,
        options=options,
        budget=Budget(1_030_000),
    )

    assert (engine.most, batch.state.pending) == (1, [])
    assert {cost_limit(work) for work in engine.started} == {1_000_000}


async def test_batch_stopped_by_a_signal_can_be_resumed(tmp_path: Path) -> None:
    """Interrupted runs are repeated; finished ones are not."""
    tasks = tasks_in(*(tmp_path / str(number) for number in range(4)))

    def interrupted(id: str, _work: TaskRun) -> dict[str, Any]:
        if id == "t1":
            os.kill(os.getpid(), signal.SIGINT)
            return {**DONE, "stop_reason": "aborted", "exit_code": 130}
        return DONE

    first, engine = await run(tmp_path / "out", tasks, interrupted, options=BatchOptions(jobs=1))
    second, again = await run(tmp_path / "out", tasks, lambda _id, _work: DONE)

    assert (first.state.stopped, engine.stopped.is_set()) == (signal.SIGINT, True)
    assert len(engine.started) == 2
    assert second.state.pending == []
    assert Counter(work.output_dir.parent.name for work in again.started) == {
        "t1": 1,
        "t2": 1,
        "t3": 1,
    }
    assert len(results(tmp_path / "out")) == 4


@pytest.mark.parametrize("rest", [b"", b'{"id": "t0", "sta', b'{"id": "t0", "status": "done"}'])
async def test_result_missing_from_the_results_file_is_recovered(
    tmp_path: Path, rest: bytes
) -> None:
    """The batch was killed before the line was complete; the run is not paid for twice."""
    out = tmp_path / "out"
    await run(out, tasks_in(tmp_path), lambda _id, _work: DONE)
    (out / "RESULTS.jsonl").write_bytes(rest)

    _, engine = await run(out, tasks_in(tmp_path), lambda _id, _work: None)

    assert engine.started == []
    assert results(out)["t0"]["text"] == "Done."


async def test_run_lost_by_an_earlier_batch_is_charged_in_full(tmp_path: Path) -> None:
    """The cost of a run killed with its batch is unknown, so its whole limit counts."""
    out = tmp_path / "out"
    with BatchFolder(out) as folder:
        folder.begin(Attempt("t0", 1, "as it was", reserved=400_000), "go")
    budget = Budget(500_000)
    options = BatchOptions(cap=400_000)

    batch, engine = await run(
        out, tasks_in(tmp_path), lambda _id, _work: DONE, options=options, budget=budget
    )

    assert (budget.spent, engine.started, len(batch.state.pending)) == (400_000, [], 1)


@pytest.mark.parametrize("fault", [NotStarted("no process"), GitError("no worktree")])
async def test_a_run_that_was_not_started_is_not_charged(tmp_path: Path, fault: Exception) -> None:
    """The whole budget remains for the resumed batch."""
    out, budget, tasks = tmp_path / "out", Budget(1_000_000), tasks_in(tmp_path)

    def leave(_id: str, _work: TaskRun) -> dict[str, Any]:
        raise fault

    options = BatchOptions(attempts_max=1)
    with suppress(NotStarted):
        await run(out, tasks, leave, options=options, budget=budget)
    again = Budget(1_000_000)
    await run(out, tasks, lambda _id, _work: DONE, budget=again)

    spent = 0 if isinstance(fault, GitError) else 10_000
    assert (budget.spent, again.spent) == (0, spent)
    assert results(out)["t0"]["status"] == ("done" if spent else "lost")


async def test_unwritable_output_folder_ends_the_batch_with_an_error(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"

    def leave(_id: str, _work: TaskRun) -> dict[str, Any]:
        (out / "RESULTS.jsonl").unlink(missing_ok=True)
        (out / "RESULTS.jsonl").mkdir()
        return DONE

    with pytest.raises(AgentCliError, match=r"RESULTS.jsonl cannot be written: Is a directory"):
        await run(out, tasks_in(tmp_path), leave)


async def test_runs_are_asked_to_end_once_if_no_result_can_be_shown(tmp_path: Path) -> None:
    """As behind `| head -1`: the results are kept, and the same command goes on."""
    out, tasks, shown = tmp_path / "out", tasks_in(*(tmp_path / name for name in "abcd")), 0
    engine = ScriptedEngine(lambda _id, _work: DONE)

    def show(_result: dict[str, Any]) -> None:
        nonlocal shown
        shown += 1
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with BatchFolder(out) as folder:
        batch = Batch(tasks, folder, engine, Budget(0), BatchOptions(jobs=2), show)
        with pytest.raises(BrokenPipeError):
            await batch.run()

    assert (shown, engine.stops, len(batch.state.pending)) == (2, 1, 2)
    assert {*results(out)} == {"t0", "t1"}


def test_partial_line_on_a_full_disk_does_not_damage_the_next_line(tmp_path: Path) -> None:
    """Later results are written, and the batch can be resumed."""
    with BatchFolder(tmp_path) as folder:
        # Larger than the files that others write meanwhile.
        folder.add_result({"id": "a", "text": "x" * 5_000_000})
        with (
            full_disk(tmp_path / "RESULTS.jsonl", free=5),
            pytest.raises(AgentCliError, match=r"RESULTS.jsonl cannot be written"),
        ):
            folder.add_result({"id": "b", "text": "y"})
        folder.add_result({"id": "c"})

    with BatchFolder(tmp_path) as folder:
        assert [*folder.results] == ["a", "c"]


def test_run_whose_prompt_cannot_be_written_is_not_recorded(tmp_path: Path) -> None:
    """It has not started, so there is nothing to pay for."""
    attempt = Attempt("t0", 1, "as it was", reserved=400_000)
    (tmp_path / "tasks").write_text("in the way")

    with BatchFolder(tmp_path) as folder:
        with pytest.raises(AgentCliError, match=r"prompt.md cannot be written"):
            folder.begin(attempt, "go")
        assert folder.attempts == []

    with BatchFolder(tmp_path) as folder:
        assert folder.attempts == []


async def test_run_files_of_an_older_batch_do_not_count_as_a_result(tmp_path: Path) -> None:
    """The user removed the lists to start over, and the new run is lost."""
    out = tmp_path / "out"
    await run(out, tasks_in(tmp_path), lambda _id, _work: DONE)
    for name in ("RESULTS.jsonl", "state"):
        (out / name).unlink()

    await run(
        out, tasks_in(tmp_path), lambda _id, _work: None, options=BatchOptions(attempts_max=1)
    )

    assert results(out)["t0"]["status"] == "lost"


def test_only_one_batch_at_a_time_uses_an_output_folder(tmp_path: Path) -> None:
    with BatchFolder(tmp_path / "out") as folder:
        copy = os.dup(folder._lock)  # as a process has one that is just being started
        with pytest.raises(UsageError, match="another batch works in"):
            BatchFolder(tmp_path / "out")
    with BatchFolder(tmp_path / "out"):
        pass
    os.close(copy)


async def test_changed_task_is_refused_when_a_batch_is_resumed(tmp_path: Path) -> None:
    """Its result would be that of another prompt."""
    out = tmp_path / "out"
    await run(out, tasks_in(tmp_path), lambda _id, _work: DONE)
    other = Task("t0", "other", tmp_path, None, (), None, "another")

    with BatchFolder(out) as folder, pytest.raises(UsageError, match="task 't0' was changed"):
        folder.check([other])


_OTHER = "attempts.jsonl is of another version"


def _line(**changed: object) -> str:
    return json.dumps({"id": "t0", "number": 1, "fingerprint": "x"} | changed) + "\n"


async def test_state_that_a_repository_brings_is_not_read(tmp_path: Path) -> None:
    """Threat 24: its numbers become names of folders that are deleted, its costs use the budget."""
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.mkdir()
    out.mkdir()
    (out / "attempts.jsonl").write_text(_line(number="1/../../../../victim", reserved=10**9))
    (out / "state").write_text("../../../../tmp")

    batch, _ = await run(out, tasks_in(tmp_path), lambda _id, _work: DONE)

    assert victim.is_dir()
    assert not batch.state.pending
    assert (state_folder(out) or tmp_path).is_relative_to(paths.state_dir())


async def test_named_pipe_in_the_place_of_a_file_is_never_waited_for(tmp_path: Path) -> None:
    """It ended with "cannot be used: None", or stood still."""
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / "state")
    os.mkfifo(out / "RESULTS.jsonl")
    with pytest.raises(UsageError, match=r"RESULTS\.jsonl cannot be used: it is a named pipe"):
        BatchFolder(out)

    (out / "RESULTS.jsonl").unlink()
    with BatchFolder(out) as folder:
        attempt = Attempt("t0", 1, "x")
        folder.begin(attempt, "x")
        os.mkfifo(folder.files_of(attempt) / "result.json")
        os.mkfifo(out / "RESULTS.jsonl")
        assert folder.outcome_of(attempt) is None
        with pytest.raises(AgentCliError, match="cannot be written"):
            folder.add_result({"id": "t0"})


_PLANTED = {"id": "t0", "status": "done", "attempts": 1}


def test_results_that_a_repository_brings_do_not_count(tmp_path: Path) -> None:
    """Threat 24: a task was taken for done, and the batch ended with success."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "RESULTS.jsonl").write_text(json.dumps(_PLANTED) + "\n")

    for _ in range(2):  # the first attempt leaves nothing that the second one would trust
        with pytest.raises(UsageError, match="was not written by a batch of yours"):
            BatchFolder(out)
    assert (out / "RESULTS.jsonl").read_text() == json.dumps(_PLANTED) + "\n"


@pytest.mark.parametrize("name", ["", "tasks", "tasks/t0", "worktrees", "lock", "RESULTS.jsonl"])
async def test_batch_writes_nowhere_through_a_link(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 24: of the repository that brings the folder, or made by the agent of a task."""
    here, victim = tmp_path / "here", tmp_path / "victim"
    here.mkdir()
    victim.mkdir()
    monkeypatch.chdir(here)
    link = here / "out" / name
    if name:
        link.parent.mkdir(parents=True)
        link.symlink_to(victim if "." not in name and name != "lock" else victim / "made")
    else:
        (here / "out").symlink_to(victim)

    try:
        await run(here / "out", tasks_in(here), lambda _id, _work: DONE)
    except AgentCliError as error:
        assert "link" in str(error) or "symbolic" in str(error)
    else:
        assert name == "worktrees"  # no task has one

    assert [*victim.iterdir()] == []


def test_files_of_a_batch_are_its_users_alone(tmp_path: Path) -> None:
    """Threat 9: prompts and answers may hold anything."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    for out in (tmp_path / "out", shared):
        with BatchFolder(out) as folder:
            folder.begin(Attempt("t0", 1, "x"), "go")
            folder.add_result({"id": "a"})

    open_to_others = [file for file in tmp_path.rglob("*") if file.stat().st_mode & 0o077]
    assert open_to_others == [shared]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("RESULTS.jsonl", "nonsense\n", "RESULTS.jsonl line 1 is not a line of a batch"),
        ("attempts.jsonl", '{"id": "a", "later": 1}\n', _OTHER),
        (
            "attempts.jsonl",
            _line(number="1/../../../victim"),
            _OTHER,
        ),
        ("attempts.jsonl", _line(number=0), _OTHER),
        ("attempts.jsonl", _line(id="../victim"), _OTHER),
        ("attempts.jsonl", _line(commit="--exec=x"), _OTHER),
    ],
)
def test_output_folder_with_foreign_files_is_refused(
    tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    with BatchFolder(tmp_path):
        pass
    state = state_folder(tmp_path)
    assert state
    (state if name == "attempts.jsonl" else tmp_path).joinpath(name).write_text(content)

    for _ in range(2):
        with pytest.raises(UsageError, match=sentence):
            BatchFolder(tmp_path)


def test_output_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(UsageError, match="out is a file: choose another --output-dir"):
        BatchFolder(tmp_path / "out")


def failed(trouble: str = "", **more: Any) -> dict[str, Any]:
    """Return the outcome of a failed run; with *trouble*, the world failed."""
    outcome = {**DONE, "exit_code": 1, "stop_reason": "error", "error": "it failed", **more}
    return {**outcome, "trouble": trouble} if trouble else outcome


async def test_task_that_the_world_ended_is_repeated_and_then_left_for_another_batch(
    tmp_path: Path,
) -> None:
    """It never gets a final result for a fault that is not its own."""
    left = {
        "t0": [failed("network"), failed("network"), failed("network"), DONE],
        "t1": [failed("overloaded"), DONE],
        "t2": [failed()],
    }
    tasks = tasks_in(*(tmp_path / name for name in "abc"))
    one = BatchOptions(jobs=1)

    first, _ = await run(tmp_path / "out", tasks, lambda id, _: left[id].pop(0), options=one)
    between = results(tmp_path / "out")
    again, _ = await run(tmp_path / "out", tasks, lambda id, _: left[id].pop(0), options=one)

    assert {id: each["status"] for id, each in between.items()} == {"t1": "done", "t2": "failed"}
    assert ([task.id for task in first.state.left], first.state.outage) == (["t0"], "")
    assert results(tmp_path / "out")["t0"]["status"] == "done"
    assert again.state.left == again.state.pending == []


@pytest.mark.parametrize("jobs", [1, 8])
async def test_outage_ends_the_batch_before_every_task_has_failed(
    tmp_path: Path, jobs: int
) -> None:
    """A wrong key must not be tried by every task; all of them can still be done."""
    tasks = tasks_in(*(tmp_path / str(number) for number in range(30)))
    options = BatchOptions(jobs=jobs)

    batch, engine = await run(
        tmp_path / "out", tasks, lambda _id, _work: failed("auth"), options=options
    )
    _, later = await run(tmp_path / "out", tasks, lambda _id, _work: DONE, options=options)

    assert batch.state.outage == "auth"
    assert len(batch.state.pending) + len(batch.state.left) == 30
    assert len(engine.started) <= 3 + jobs
    assert len(results(tmp_path / "out")) == len(later.started) == 30


async def test_outage_is_waited_for_with_one_run_at_a_time(tmp_path: Path) -> None:
    """The runs under way fail, then single probes; every task ends well, and none costs a retry."""
    tasks = tasks_in(*(tmp_path / str(number) for number in range(30)))
    failures = 12
    told: list[str] = []

    def leave(_id: str, _work: TaskRun) -> dict[str, Any]:
        nonlocal failures
        failures -= 1
        return failed("overloaded") if failures >= 0 else DONE

    options = BatchOptions(jobs=8, outage_wait_s=60, probe_after_s=0.01, attempts_max=2)
    engine = ScriptedEngine(leave)
    with BatchFolder(tmp_path / "out") as folder:
        batch = Batch(tasks, folder, engine, Budget(0), options, lambda _result: None, told.append)
        await batch.run()

    assert len(engine.started) == 42
    assert {each["status"] for each in results(tmp_path / "out").values()} == {"done"}
    assert told == [
        "the last 3 runs all failed (overloaded): waiting, and asking again with one run at a time"
    ]


def test_probes_of_an_outage_become_rarer_and_end_with_its_limit() -> None:
    now = 0.0
    outage = Outage(100, 5, lambda: now)
    probes: list[float] = []
    for _ in range(3):
        outage.note("network")

    while not outage.is_hopeless:
        now += outage.probe_in_s()
        probes.append(now)
        outage.note("network")

    assert probes == [5, 15, 35, 75, 135]
    outage.note("")
    assert not outage.is_on


async def test_failed_tasks_run_again_on_request(tmp_path: Path) -> None:
    """Each still has one result, also if the batch is killed between the two files."""
    tasks = tasks_in(*(tmp_path / name for name in "abcd"))
    unapproved = {**DONE, "exit_code": 3}
    outcomes = {
        "t0": [failed(), DONE],
        "t1": [DONE],
        "t2": [failed(), failed()],
        "t3": [unapproved, DONE],
    }
    await run(tmp_path / "out", tasks, lambda id, _work: outcomes[id].pop(0))
    before = (tmp_path / "out" / "RESULTS.jsonl").read_bytes()
    with BatchFolder(tmp_path / "out") as folder:
        folder.take_back_failures()
    (tmp_path / "out" / "RESULTS.jsonl").write_bytes(before)

    _, engine = await run(tmp_path / "out", tasks, lambda id, _work: outcomes[id].pop(0))

    found = results(tmp_path / "out")
    assert {id: (each["status"], each["attempts"]) for id, each in found.items()} == {
        "t0": ("done", 2),
        "t1": ("done", 1),
        "t2": ("failed", 2),
        "t3": ("done", 2),
    }
    assert len(engine.started) == 3
