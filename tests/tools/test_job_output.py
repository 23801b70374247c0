"""The output of a background command."""

import asyncio

import pytest

from agent_cli_tools import job_reading
from agent_cli_tools.job import Job
from agent_cli_tools.jobs import Jobs
from tests.tools.calling import WAIT_S, Tools
from tests.waiting import until

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"


async def started(tools: Tools, command: str) -> None:
    """Start *command* as a job."""
    assert not (await tools("bash", command=command, background=True)).is_error


async def prints(tools: Tools, text: str) -> None:
    """Wait until the job has printed *text*."""
    await until(lambda: text in tools.workspace.shared.jobs.all[0].log.read_text())


def status(text: str) -> list[str]:
    """Return the facts in the last line, without the duration."""
    return text.splitlines()[-1].strip("[]").split(" · ")


async def test_job_output_shows_only_new_lines(tools: Tools) -> None:
    await started(tools, f"echo one; echo two; {UNTIL_GO}; echo three; sleep 300")
    await prints(tools, "two\n")

    first = await tools.text("job_output", id=1)
    nothing = await tools.text("job_output", id=1)
    tools.file("go", "")
    await prints(tools, "three\n")
    more = await tools.text("job_output", id=1)

    assert first.splitlines()[:2] == ["one", "two"]
    assert status(first)[0] == "job 1"
    assert status(first)[1].startswith("running for ")
    assert status(first)[2] == "lines 1 to 2"
    assert status(nothing)[2] == "nothing new"
    assert more.splitlines()[0] == "three"
    assert status(more)[2] == "lines 3 to 3"


async def test_job_output_shows_an_incomplete_line_again_with_its_rest(tools: Tools) -> None:
    await started(tools, f"printf 'Is it'; {UNTIL_GO}; echo ' right?'; sleep 300")
    await prints(tools, "Is it")

    assert (await tools.text("job_output", id=1)).startswith("Is it\n[job 1")
    tools.file("go", "")
    await prints(tools, "right?\n")

    assert (await tools.text("job_output", id=1)).startswith("Is it right?\n[job 1")


async def test_job_output_supports_since_and_filter(tools: Tools) -> None:
    await started(tools, r"printf 'ok 1\n\033[31mERROR\033[0m 2\nok 3\nERROR 4\n'; sleep 300")
    await prints(tools, "4\n")
    await tools.text("job_output", id=1)

    text = await tools.text("job_output", id=1, since=1, filter="^ERROR [0-9]")

    assert text.splitlines()[:-1] == ["ERROR 2", "ERROR 4"]
    assert status(text)[2:] == ["lines 1 to 4", "2 of them match"]
    assert status(await tools.text("job_output", id=1, since=3))[2] == "lines 3 to 4"


async def test_job_output_beyond_the_end_skips_no_later_lines(tools: Tools) -> None:
    await started(tools, f"echo one; {UNTIL_GO}; echo two; sleep 300")
    await prints(tools, "one\n")

    nothing = await tools.text("job_output", id=1, since=100)
    tools.file("go", "")
    await prints(tools, "two\n")

    assert status(nothing)[2] == "nothing new"
    assert (await tools.text("job_output", id=1)).splitlines()[:-1] == ["one", "two"]


async def test_job_output_refuses_an_invalid_filter(tools: Tools) -> None:
    await started(tools, "sleep 300")

    assert "no regular expression" in await tools.error("job_output", id=1, filter="(")


async def test_job_output_wait_ends_with_the_job(tools: Tools) -> None:
    """A one-shot run ends with its last reply, and so do its jobs: the model can wait for them."""
    await started(tools, f"{UNTIL_GO}; echo done; exit 5")
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(tools.text("job_output", id=1, wait=60))
        await asyncio.sleep(0)
        tools.file("go", "")

    assert call.result().startswith("done\n")
    assert status(call.result())[1].startswith("exit 5 after ")


async def test_job_output_wait_with_a_filter_ends_at_the_first_match(tools: Tools) -> None:
    await started(tools, f"{UNTIL_GO}; echo ready; sleep 300")
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(tools.text("job_output", id=1, wait=60, filter="ready"))
        await asyncio.sleep(0)
        tools.file("go", "")

    assert call.result().startswith("ready\n")


async def test_job_output_wait_has_a_time_limit(tools: Tools) -> None:
    await started(tools, "sleep 300")

    assert status(await tools.text("job_output", id=1, wait=0.05))[2] == "nothing new"


async def test_job_output_shows_the_end_of_long_output(tools: Tools) -> None:
    await started(tools, "seq 100000; sleep 300")
    await prints(tools, "100000\n")

    text = await tools.text("job_output", id=1)

    assert len(text) < 40_000
    assert text.splitlines()[-2] == "100000"
    log = tools.workspace.shared.jobs.all[0].log
    assert status(text)[-1] == f"the last 2000 shown, all in {log}"


async def test_unknown_job_is_an_error_that_lists_the_existing_jobs(tools: Tools) -> None:
    """After a resume the model may still refer to jobs of the previous program."""
    assert await tools.error("job_output", id=3) == (
        "There is no job 3; those of an earlier program ended with it."
    )
    await started(tools, "sleep 300")
    assert (await tools.error("job_output", id=3)).endswith(" There are: 1.")


async def test_job_output_reports_a_missing_log(tools: Tools) -> None:
    await started(tools, "sleep 300")
    tools.workspace.shared.jobs.all[0].log.unlink()

    assert "cannot be read" in await tools.error("job_output", id=1)


async def test_job_output_does_not_show_binary_output(tools: Tools) -> None:
    await started(tools, "head -c 4000 /dev/zero; echo; sleep 300")
    await prints(tools, "\n")

    assert (await tools.text("job_output", id=1)).startswith("[binary output, not shown]\n")


async def test_waiting_for_a_job_reads_its_log_only_when_there_is_more(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading 64 MB four times a second took the processor from everything else."""
    reads: list[int] = []
    looks: list[int] = []
    read, look = job_reading._lines, Jobs.look

    def counted(job: Job, since: int) -> tuple[list[str], bool]:
        reads.append(since)
        return read(job, since)

    async def looked(jobs: Jobs) -> None:
        looks.append(1)
        await look(jobs)

    monkeypatch.setattr(job_reading, "_lines", counted)
    monkeypatch.setattr(job_reading, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(Jobs, "look", looked)
    await started(tools, f"echo one; {UNTIL_GO}; echo two")
    await prints(tools, "one\n")
    filtered = asyncio.ensure_future(tools.text("job_output", id=1, filter="two", wait=WAIT_S))
    whole = asyncio.ensure_future(tools.text("job_output", id=1, since=1, wait=WAIT_S))
    await until(lambda: len(looks) > 40)
    assert len(reads) == 1
    tools.file("go", "")

    assert (await filtered).startswith("two\n")
    assert (await whole).startswith("one\ntwo\n")
