"""Background commands as jobs: started, moved, limited, ended, reported once."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli_tools import Workspace
from agent_cli_tools.jobs import Jobs
from agent_cli_tools.session_resources import SessionResources
from tests.tools.calling import Tools
from tests.waiting import is_alive, until

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"


async def news(jobs: Jobs, *, known: bool = True) -> list[str]:
    """Take the notices of a conversation that started the jobs, or did not."""
    return [each.text for each in await jobs.take_news(lambda _call_id: known)]


@asynccontextmanager
async def limited(folder: Path, jobs: Jobs) -> AsyncGenerator[Tools]:
    """Tools with the jobs *jobs*, supervised."""
    (folder / "root").mkdir()
    workspace = Workspace(
        folder / "root", shared=SessionResources(spill_dir=folder / "logs", jobs=jobs)
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(jobs.look_after())
            yield Tools(workspace)
            looking.cancel()
    finally:
        workspace.close()


async def test_background_command_becomes_a_job_whose_output_is_logged(tools: Tools) -> None:
    result = await tools("bash", command="echo up; exec sleep 300", background=True)

    assert isinstance(result.details, dict)
    log = Path(str(result.details["spill"]))
    assert result.text.startswith(f"Started as job 1. Its output goes to {log} ")
    assert "You are told when it ends" in result.text
    await until(lambda: log.read_text() == "up\n")


async def test_timeout_of_a_background_command_is_said_to_be_none(tools: Tools) -> None:
    """The model would wait for an end that does not come."""
    limited = await tools.text("bash", command="sleep 300", background=True, timeout=1)
    usual = await tools.text("bash", command="sleep 300", background=True)

    assert limited.endswith("ends it. timeout does not end a job; it may run for 7,200 s.")
    assert usual.endswith("ends it.")


@pytest.mark.parametrize("signal", ["-0", "-STOP", "-SIGUSR1"])
async def test_signal_that_ends_no_program_is_not_sent_to_a_job(tools: Tools, signal: str) -> None:
    """`kill -0` only asks whether a process runs."""
    await tools.text("bash", command="sleep 300", background=True)

    refused = await tools("bash", command=f"kill {signal} %1")

    assert (refused.is_error, refused.text.partition(":")[0]) == (
        True,
        "Job 1 is running and got no signal",
    )
    assert await tools.text("bash", command="kill -SIGTERM %1") == (
        "Job 1 and all it started has ended."
    )


async def test_kill_with_a_job_number_ends_the_job_and_its_children(tools: Tools) -> None:
    """As in a shell; bash answers for an unknown number."""
    await tools.text("bash", command="echo $$; sleep 300 & sleep 300", background=True)
    log = tools.workspace.shared.jobs.all[0].log
    await until(log.read_text)
    pid = int(log.read_text())

    assert await tools.text("bash", command=" kill %1\n") == ("Job 1 and all it started has ended.")

    assert not is_alive(pid)
    assert "no such job" in (await tools("bash", command="kill %1")).text
    assert await news(tools.workspace.shared.jobs) == []


CLOSED_LATE = """
import asyncio, sys
from pathlib import Path
from tests.tools.calling import tools_in

async def start(tools):
    await tools.text("bash", command="echo $$; exec sleep 300", background=True)
    log = tools.workspace.shared.jobs.all[0].log
    while not (pid := log.read_text()):
        await asyncio.sleep(0)
    print(pid)

with tools_in(Path(sys.argv[1])) as tools:
    asyncio.run(start(tools))
"""


def test_job_ends_with_its_workspace_after_the_event_loop(tmp_path: Path) -> None:
    """A user of the library closes the workspace behind `asyncio.run`.

    In a process of its own, because nothing closes what the event loop left open.
    """
    command = [sys.executable, "-c", CLOSED_LATE, str(tmp_path)]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert not is_alive(int(run.stdout))


async def test_end_of_a_job_is_reported_once_to_the_conversation_that_started_it(
    tools: Tools,
) -> None:
    """No notice of a job enters a conversation that did not start it."""
    await tools.text("bash", command=f"{UNTIL_GO}; exit 3", background=True)
    jobs = tools.workspace.shared.jobs
    assert await news(jobs) == []

    tools.file("go", "")
    await until(lambda: jobs.all[0].work.has_ended())

    assert await news(jobs, known=False) == []
    [told] = await news(jobs)
    assert "the background command job 1 (`until [ -e go ]" in told
    assert "ended with exit 3. Its output is in " in told
    assert await news(jobs) == []


async def test_first_line_that_matches_notify_is_reported_once(tools: Tools) -> None:
    r"""Colours in between do not hide it; later matches are not reported."""
    script = rf"echo no; {UNTIL_GO}; printf 'Lo\033[1mcal: 5173\nLocal: 2\n'; sleep 300"
    answer = await tools.text("bash", command=script, background=True, notify=r"Local: \d+")
    assert "or a line matches notify" in answer
    jobs = tools.workspace.shared.jobs
    assert await news(jobs) == []

    tools.file("go", "")
    await until(lambda: "2\n" in jobs.all[0].log.read_text())

    [told] = await news(jobs)
    assert told.endswith("printed a line that matches notify: Local: 5173]")
    assert await news(jobs) == []


async def test_notify_matches_an_unterminated_last_line(tools: Tools) -> None:
    """A program that asks a question waits after it."""
    script = "printf 'Overwrite? '; sleep 300"
    await tools.text("bash", command=script, background=True, notify=r"\? $")
    jobs = tools.workspace.shared.jobs
    await until(lambda: jobs.all[0].output.total_bytes)

    [told] = await news(jobs)

    assert told.endswith("notify: Overwrite?]")


async def test_notify_match_is_reported_before_the_end_of_the_job(tools: Tools) -> None:
    await tools.text("bash", command=f"{UNTIL_GO}; echo ready", background=True, notify="ready")
    jobs = tools.workspace.shared.jobs
    tools.file("go", "")
    await until(lambda: jobs.all[0].work.has_ended())

    match, end = await news(jobs)

    assert "matches notify: ready" in match
    assert "ended with exit 0" in end


async def test_job_with_an_invalid_notify_pattern_is_not_started(tools: Tools) -> None:
    told = await tools.error("bash", command="touch ran", background=True, notify="(")

    assert "no regular expression" in told
    assert not (tools.root / "ran").exists()


async def test_number_of_running_jobs_is_limited(tmp_path: Path) -> None:
    async with limited(tmp_path, Jobs(jobs_max=1)) as tools:
        await tools.text("bash", command="sleep 300", background=True)

        told = await tools.error("bash", command="touch ran", background=True)

        assert told == (
            "as many jobs run as jobs.max allows: 1 `sleep 300`."
            " End one of yours with `kill %ID`, alone, or wait for one to end."
        )
        await tools.text("bash", command="kill %1")
        await tools.text("bash", command="sleep 61", background=True)
        assert [job.id for job in tools.workspace.shared.jobs.running] == [2]


async def test_jobs_started_at_the_same_time_stay_within_the_limit(tmp_path: Path) -> None:
    async with limited(tmp_path, Jobs(jobs_max=2)) as tools:
        calls = [tools("bash", command="sleep 300", background=True) for _ in range(4)]
        results = await asyncio.gather(*calls)

        assert [result.is_error for result in results].count(False) == 2
        assert len(tools.workspace.shared.jobs.running) == 2
        refused = next(result.text for result in results if result.is_error)
        assert refused.startswith("as many jobs run as jobs.max allows: 2 just starting.")


@pytest.mark.parametrize("ignores", ["", "trap '' TERM; "])
async def test_job_is_ended_at_its_time_limit(ignores: str, tmp_path: Path) -> None:
    """A job that ignores the request to end is killed."""
    jobs = Jobs(timeout_s=0.6)
    async with limited(tmp_path, jobs) as tools:
        await tools.text("bash", command=f"{ignores}while :; do sleep 300; done", background=True)

        await until(lambda: not jobs.running)

        assert "stopped at the limit jobs.timeout_s" in jobs.all[0].state()
        [told] = await news(jobs)
        assert "ran too long and was stopped" in told


async def test_job_stopped_by_the_user_is_reported_but_not_urgent(tools: Tools) -> None:
    """The user needs no run for the notice, but the model must know."""
    await tools.text("bash", command="sleep 300", background=True)
    jobs = tools.workspace.shared.jobs

    await jobs.stop(jobs.all[0], by="user")

    assert jobs.take_urgent(jobs.all) is False
    [told] = await news(jobs)
    assert "was stopped by the user" in told


async def test_end_of_each_job_is_urgent_only_once(tools: Tools) -> None:
    """A run that could not report the end must not be started again and again."""
    await tools.text("bash", command=UNTIL_GO, background=True)
    jobs = tools.workspace.shared.jobs
    tools.file("go", "")
    await until(lambda: jobs.all[0].work.has_ended())
    await jobs.look()

    assert [jobs.take_urgent(jobs.all) for _ in range(2)] == [True, False]


async def test_running_command_can_be_moved_to_the_background_as_a_job(tools: Tools) -> None:
    """Its output is kept from the first byte, its time counts from its begin."""
    jobs = tools.workspace.shared.jobs
    command = f"echo before; {UNTIL_GO}; echo after; exit 4"
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(tools("bash", command=command, timeout=60))
        await until(lambda: jobs.has_foreground and tools.updates)
        moved_s = time.monotonic()
        jobs.move_to_background()

    result = call.result()

    assert not result.is_error
    assert jobs.all[0].started_s < moved_s
    assert "the user moved this command to the background, where it is job 1." in result.text
    assert result.text.endswith("Its output until then:\nbefore\n")
    tools.file("go", "")
    await until(lambda: jobs.all[0].work.has_ended())
    [told] = await news(jobs)
    assert "ended with exit 4" in told
    assert jobs.all[0].log.read_text() == "before\nafter\n"


async def test_only_a_running_command_can_be_moved(tools: Tools) -> None:
    jobs = tools.workspace.shared.jobs
    await tools.text("bash", command="true")

    assert not jobs.has_foreground
    with pytest.raises(ToolError, match="no command of the model runs"):
        jobs.move_to_background()


async def test_command_is_not_moved_to_the_background_beyond_the_job_limit(tmp_path: Path) -> None:
    jobs = Jobs(jobs_max=0)
    async with limited(tmp_path, jobs) as tools, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(tools("bash", command=UNTIL_GO, timeout=60))
        await until(lambda: jobs.has_foreground)

        with pytest.raises(ToolError, match=r"jobs\.max"):
            jobs.move_to_background()

        tools.file("go", "")
        assert "exit 0" in (await call).text


async def test_command_is_not_moved_to_the_background_without_a_log_file(tmp_path: Path) -> None:
    """Its output would be lost."""
    workspace = Workspace(tmp_path, shared=SessionResources(spill_dir=tmp_path / "no"))
    (tmp_path / "no").write_text("no folder")
    tools, jobs = Tools(workspace), workspace.shared.jobs
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(tools("bash", command=UNTIL_GO, timeout=60))
        await until(lambda: jobs.has_foreground)
        jobs.move_to_background()
        await until(lambda: not jobs.has_foreground)
        tools.file("go", "")

    assert "exit 0" in call.result().text
    assert jobs.all == ()
    workspace.close()


async def test_job_numbers_continue_after_those_of_an_earlier_program(tools: Tools) -> None:
    """`kill %1` of a resumed conversation must not end a job of this program."""
    tools.workspace.shared.jobs.use_ids_above(6)

    assert "job 7." in await tools.text("bash", command="sleep 300", background=True)


async def test_only_the_last_ended_jobs_are_kept(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli_tools.jobs._ENDED_MAX", 1)
    for number in range(1, 4):
        await tools.text("bash", command="sleep 300", background=True)
        await tools.text("bash", command=f"kill %{number}")
    await tools.text("bash", command="sleep 300", background=True)

    assert [job.id for job in tools.workspace.shared.jobs.all] == [3, 4]
