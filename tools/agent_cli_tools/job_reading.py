"""Read the output of a job: new lines, matching lines, or all lines until it ends."""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli_tools.excerpts import excerpt
from agent_cli_tools.job import Job
from agent_cli_tools.jobs import LOOK_EVERY_S
from agent_cli_tools.output import SPILL_BYTES_MAX, LinePattern, is_binary, without_escapes
from agent_cli_tools.searches import searcher
from agent_cli_tools.workspace import Workspace

_LINES_MAX: Final = 2_000
_RESULT_CHARS_MAX: Final = 30_000
_READ_LINES_MAX: Final = 1_000_000


class JobRequest(NamedTuple):
    """Matching lines of a job to wait for, from line *since* on (0: the first unread line)."""

    id: int
    since: int
    filter: str
    wait_s: float


async def read_job(workspace: Workspace, request: JobRequest, cancel: CancelToken) -> ToolResult:
    """Return the output of the job that *request* names, once there is what it waits for.

    Raises:
        ToolError: There is no such job, or its log cannot be read.
    """
    job = _job(workspace.own_jobs, request.id)
    pattern = LinePattern(request.filter, searcher(workspace.root)) if request.filter else None
    since = request.since or job.read_lines + 1
    async with cancel.scope():
        until_s = time.monotonic() + request.wait_s
        searched_bytes = 0
        while True:
            await workspace.shared.jobs.look()
            is_over = time.monotonic() >= until_s or not job.is_running
            kept_bytes = min(job.output.total_bytes, SPILL_BYTES_MAX)
            # Reading it may take as long as the time between two looks.
            if is_over or (pattern and kept_bytes > searched_bytes):
                searched_bytes = kept_bytes
                lines, is_open = await asyncio.to_thread(_lines, job, since)
                kept = await pattern.numbers(lines) if pattern else list(range(len(lines)))
                if is_over or kept:
                    break
            await asyncio.sleep(LOOK_EVERY_S)
    if lines:  # since may be beyond the end
        # An incomplete last line is shown again once it has grown.
        read = since - 1 + len(lines) - (is_open and job.is_running)
        job.read_lines = max(job.read_lines, read)
    return _result(job, since, lines, kept)


def _job(jobs: Sequence[Job], id: int) -> Job:
    if job := next((job for job in jobs if job.id == id), None):
        return job
    there = ", ".join(str(job.id) for job in jobs)
    known = f" There are: {there}." if there else ""
    raise ToolError(f"There is no job {id}; those of an earlier program ended with it.{known}")


def _lines(job: Job, since: int) -> tuple[list[str], bool]:
    """Return the lines of the log from line *since* on, and whether the last one is incomplete."""
    try:
        with job.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            part = excerpt(file, size, offset=since, limit=_READ_LINES_MAX)
    except OSError as error:
        raise ToolError(f"The log {job.log} cannot be read: {error.strerror}.") from error
    return [without_escapes(line) for line in part.lines], bool(part.endings[""])


def _result(job: Job, since: int, lines: Sequence[str], kept: Sequence[int]) -> ToolResult:
    room = _RESULT_CHARS_MAX
    shown: list[str] = []
    for index in reversed(kept):  # the newest lines matter most
        room -= len(lines[index]) + 1
        if shown and (room < 0 or len(shown) == _LINES_MAX):
            break
        shown.append(lines[index])
    shown.reverse()
    text = "\n".join(shown)
    if is_binary(text):
        text = "[binary output, not shown]"
    facts = [f"job {job.id}", job.state().replace("by you", "by the user")]
    facts.append(f"lines {since} to {since - 1 + len(lines)}" if lines else "nothing new")
    if len(kept) < len(lines):
        facts.append(f"{len(kept)} of them match")
    if len(shown) < len(kept):
        facts.append(f"the last {len(shown)} shown, all in {job.log}")
    status = f"[{' · '.join(facts)}]"
    details: Json = {"kind": "command", "exit_code": None, "status": status}
    return ToolResult.of("\n".join([*filter(None, [text]), status]), details)
