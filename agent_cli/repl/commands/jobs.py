"""`/jobs`: list background commands, show their output, stop them, background the running one."""

from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands.spec import Command, Context, show
from agent_cli.repl.ports import Application
from agent_cli.terminal.sanitize import clean, reveal

_TAIL_BYTES: Final = 4_096
_TAIL_LINES: Final = 20
_BACKGROUND: Final = "background"
_STOP: Final = "stop"


async def _jobs(context: Context, argument: str) -> None:
    word, *rest = argument.split()
    if word == _BACKGROUND and not rest:
        context.app.jobs.move_to_background()
    elif word == _STOP and len(rest) == 1:
        await _stop(context, rest[0])
    elif not rest:
        _tail(context, _number(word))
    else:
        raise UsageError("/jobs takes a number, stop NUMBER, stop all, or background")


async def _run(context: Context, argument: str) -> None:
    if argument:
        await _jobs(context, argument)
    else:
        _list(context)


def _list(context: Context) -> None:
    from agent_cli.terminal.views.table import Column, Table  # noqa: PLC0415 - rich

    rows = [
        (
            str(job.id),
            job.state if job.is_own else f"{job.state}, another conversation's",
            reveal(job.command),
        )
        for job in context.app.jobs.all()
    ]
    columns = [Column("job", right=True), Column("state"), Column("command")]
    show(context, Table(columns, rows, empty="no background commands"))


def _tail(context: Context, id: int) -> None:
    job = context.app.jobs.find(id)
    lines = clean(context.app.jobs.tail(id, _TAIL_BYTES)).rstrip("\n").splitlines()[-_TAIL_LINES:]
    head = f"job {job.id}, {job.state}: {reveal(job.command)}"
    rows = [head, *lines, *map(reveal, job.notes), f"all of it: {job.log}"]
    context.writer.aside("\n".join(rows))


async def _stop(context: Context, named: str) -> None:
    jobs = context.app.jobs
    running = [job.id for job in jobs.all() if job.is_running]
    for id in running if named == "all" else [_number(named)]:
        job = await jobs.stop(id)
        context.writer.aside(f"job {job.id}: {job.state}")
    if named == "all" and not running:
        context.writer.aside("no job runs")


def _number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"{one_line(word)} is not the number of a job; /jobs lists them")
    return int(word)


def _choices(app: Application) -> Mapping[str, str]:
    jobs = app.jobs.all()
    return {
        **{str(job.id): f"show the end of its output: {job.command}" for job in jobs},
        **{f"{_STOP} {job.id}": f"stop {job.command}" for job in jobs if job.is_running},
        _BACKGROUND: "move the command that runs to the background (Ctrl-B)",
    }


JOBS_COMMAND: Final = Command(
    "jobs",
    "list the background commands, show or stop one",
    _run,
    "[NUMBER|stop NUMBER|background]",
    beside_a_run=True,
    choices=_choices,
    more="The model is told when one ends. Ctrl-B moves the command that runs to the background.",
)
