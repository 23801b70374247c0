"""`/agents`, `/jobs` and `/goal`: list, show and stop what works beside or beyond one prompt."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from agent_cli.contracts.agents import AgentWork
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.goals import Goal
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.timeline import (
    DiscardedOutput,
    Error,
    Output,
    Pending,
    TextOutput,
    ToolOutput,
    UserOutput,
    text_of,
)
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import (
    USD_MAX,
    counted,
    dollars,
    in_microdollars,
    one_line,
    requested_duration,
    seconds,
    whole_seconds,
)
from agent_cli.repl.commands import Command, Context, OutgoingPrompt, show
from agent_cli.repl.ports import Application
from agent_cli.system.event_loop import in_background
from agent_cli.system.sanitize import clean, reveal
from agent_cli.terminal.narration import describe_call, describe_failure, outcome_of

_STOP: Final = "stop"
_SHOW: Final = "show"
_INDENT: Final = "  "
_TASK_ROWS_MAX: Final = 8


async def _run_agents_command(context: Context, argument: str) -> None:
    match argument.split():
        case []:
            await _list_agents(context)
        case ["show"]:
            await _choose_agent(context)
        case ["stop", number]:
            agent = context.app.agents.stop(_number_of("agent", number))
            how = "is being stopped" if agent.is_running else agent.state
            context.writer.aside(f"{reveal(agent.title)}: {how}")
        case ["stop"]:
            raise UsageError("/agents stop needs the number of an agent; /agents lists them")
        case [number]:
            _show_agent(context, _number_of("agent", number))
        case _:
            raise UsageError("/agents takes a number, show, or stop NUMBER")


def jobs_going_on(app: Application) -> Iterator[str]:
    """Yield how many commands and agents in the background still run, if any do."""
    if count := sum(job.is_running for job in app.jobs.all()):
        yield f"{counted(count, 'job')} {'goes' if count == 1 else 'go'} on: /jobs"


async def _list_agents(context: Context) -> None:
    from agent_cli.terminal.views.table import Column, Table  # rich

    has_call = context.app.agent.conversation.has_call
    rows = [
        (
            str(agent.number),
            reveal(agent.title),
            _state(reveal(agent.state), is_own=has_call(agent.root_call_id)),
        )
        for agent in context.app.agents.all()
    ]
    columns = [Column("no.", right=True), Column("agent"), Column("state")]
    show(context, Table(columns, rows, empty="" if rows else await _no_agents(context)))


def _state(state: str, *, is_own: bool) -> str:
    return state if is_own else f"{state}, another conversation's"


async def _no_agents(context: Context) -> str:
    """Say why no agent is listed: agents from before a resume are not."""
    earlier = await in_background(context.app.sessions.agents)  # large files take seconds
    if not earlier:
        return "no agents yet"
    before = counted(len(earlier), "earlier agent")
    return (
        f"no agents since the session was resumed; /usage has the IDs of {before}, and"
        " `agent-cli sessions show ID` their work"
    )


async def _choose_agent(context: Context) -> None:
    """Show the work of a working agent, or of the last; with several, the user picks one."""
    agents = context.app.agents.all()
    working = [agent for agent in agents if agent.is_running] or agents[-1:]
    if not working:
        raise UsageError(await _no_agents(context))
    chosen: int | None = 0
    if len(working) > 1 and context.controls:
        rows = [f"{reveal(agent.title)} · {reveal(agent.state)}" for agent in working]
        chosen = await context.controls.pick("whose work? ", rows)
    if chosen is not None:
        _show_agent(context, working[chosen].number)


def _show_agent(context: Context, number: int) -> None:
    context.writer.aside(agent_work(context.app.agents.work(number)))


def _number_of(kind: Literal["agent", "job"], word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"{one_line(word)} is no {kind}'s number; /{kind}s lists them")
    return int(word)


def _agent_choices(app: Application) -> Mapping[str, str]:
    agents = app.agents.all()
    return {
        **{str(agent.number): f"show what it did: {agent.title}" for agent in agents},
        **{f"{_STOP} {each.number}": f"stop {each.title}" for each in agents if each.is_running},
        _SHOW: "show what an agent does (Ctrl-O)",
    }


AGENTS_COMMAND: Final = Command(
    "agents",
    "list the agents at work, show or stop one",
    _run_agents_command,
    "[NUMBER|stop NUMBER|show]",
    beside_a_run=True,
    choices=_agent_choices,
    more=(
        "Arrow-down in an empty input selects one at work: Enter shows its work, Esc stops it.\n"
        "Ctrl-O shows what an agent does. Stopping one stops the agents it started."
    ),
)


def agent_work(work: AgentWork) -> str:
    """Return the page about *work*; a long task is cut, what the agent said is not."""
    outputs = [output for prompt in work.prompts for output in prompt.output]
    rows = [row for output in outputs for row in _work_rows(output, work.tools)]
    task = work.task.strip().split("\n")
    more = [f"… {len(task) - _TASK_ROWS_MAX} more lines"] if len(task) > _TASK_ROWS_MAX else []
    shown = [f"{_INDENT}{row}".rstrip() for row in (*task[:_TASK_ROWS_MAX], *more)]
    begin = [f"{reveal(work.info.title)} · {reveal(work.info.state)}", "its task:", *shown]
    return "\n".join([*begin, "", *(rows or ["it has done nothing yet"])])


def _work_rows(output: Output, tools: Sequence[Tool]) -> Iterator[str]:
    match output:
        case TextOutput(text=text) | DiscardedOutput(text=str(text)) if text.strip():
            yield text.strip()
        case UserOutput() if output.is_typed:
            yield f"> {typed_in(output.content)}"
        case ToolOutput():
            yield _call_row(output, tools)
        case _:
            pass


def _call_row(call: ToolOutput, tools: Sequence[Tool]) -> str:
    """Return a call like its row on the screen: its action, and its result."""
    text = describe_call(tools, call.name, call.input)
    started, ended = call.started_at_ms, call.ended_at_ms
    elapsed_s = None if started is None or ended is None else (ended - started) / 1_000
    match call.result:
        case Pending(why="approval"):
            return f"? {text} · waits for your decision"
        case Pending():
            # Without a start it waits, or is tried read-only.
            return f"… {text} · {'no result yet' if started is None else 'at work'}"
        case Error(content=content):
            words = describe_failure(text_of(content).partition("\n")[0], elapsed_s)
            return f"✗ {text} · {': '.join(words)}"
        case done:
            passed = "" if elapsed_s is None else seconds(elapsed_s)
            return " · ".join(filter(None, (f"✓ {text}", outcome_of(done.details), passed)))


_TAIL_BYTES: Final = 4_096
_TAIL_LINES: Final = 20
_BACKGROUND: Final = "background"


async def _run_jobs_command(context: Context, argument: str) -> None:
    match argument.split():
        case []:
            _list_jobs(context)
        case ["background"]:
            context.app.jobs.move_to_background()
        case ["stop", named]:
            await _stop_job(context, named)
        case ["stop"]:
            raise UsageError("/jobs stop needs the number of a job, or all; /jobs lists them")
        case [number]:
            _show_output(context, _number_of("job", number))
        case _:
            raise UsageError("/jobs takes a number, stop NUMBER, stop all, or background")


def _list_jobs(context: Context) -> None:
    from agent_cli.terminal.views.table import Column, Table  # rich

    rows = [
        (str(job.id), _state(job.state, is_own=job.is_own), reveal(job.command))
        for job in context.app.jobs.all()
    ]
    columns = [Column("job", right=True), Column("state"), Column("command")]
    show(context, Table(columns, rows, empty="no background commands"))


def _show_output(context: Context, id: int) -> None:
    job = context.app.jobs.find(id)
    lines = clean(context.app.jobs.tail(id, _TAIL_BYTES)).rstrip("\n").splitlines()[-_TAIL_LINES:]
    head = f"job {job.id}, {job.state}: {reveal(job.command)}"
    rows = [head, *lines, *map(reveal, job.notes), f"all of it: {job.log}"]
    context.writer.aside("\n".join(rows))


async def _stop_job(context: Context, named: str) -> None:
    jobs = context.app.jobs
    running = [job.id for job in jobs.all() if job.is_running]
    for id in running if named == "all" else [_number_of("job", named)]:
        job = await jobs.stop(id)
        context.writer.aside(f"job {job.id}: {job.state}")
    if named == "all" and not running:
        context.writer.aside("no job runs")


def _job_choices(app: Application) -> Mapping[str, str]:
    jobs = app.jobs.all()
    return {
        **{str(job.id): f"show the end of its output: {job.command}" for job in jobs},
        **{f"{_STOP} {job.id}": f"stop {job.command}" for job in jobs if job.is_running},
        _BACKGROUND: "move the command that runs to the background (Ctrl-B)",
    }


JOBS_COMMAND: Final = Command(
    "jobs",
    "list the background commands, show or stop one",
    _run_jobs_command,
    "[NUMBER|stop NUMBER|background]",
    beside_a_run=True,
    choices=_job_choices,
    more="The model is told when one ends. Ctrl-B moves the command that runs to the background.",
)

_OPTION: Final = re.compile(r"--([\w-]+)(?:=|\s+|$)(\"(?:\\.|[^\"\\])*\"|'[^']*'|\S*)\s*")
_TIME: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)?")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600}
_ROUNDS_MAX: Final = 1_000
_TAKES: Final = {
    "check": "a command, quoted if it has blanks",
    "rounds": f"a whole number from 1 to {_ROUNDS_MAX}",
    "max-cost": "dollars, such as 2.50",
    "time": "a duration, such as 90s, 30m or 1h",
}
_OFF: Final = "off"
_ENDS: Final = (_OFF, "stop", "clear")  # what people type, and no goal


def _goal(context: Context, argument: str) -> None:
    if not argument:
        context.writer.aside(_goal_status(context))
        return
    if argument in _ENDS:
        progress = context.app.goals.progress
        if progress and progress.state != "active":
            raise UsageError("no goal is active; /goal shows the last one, /goal TEXT sets one")
        context.app.goals.drop()
        context.writer.aside(_goal_status(context))
        return
    goal = goal_of(argument)
    opening = context.app.goals.begin(goal)
    context.send(OutgoingPrompt(goal.text, opening=opening))


def goal_of(argument: str) -> Goal:
    """Return the goal typed as *argument*: options first, then the text.

    Raises:
        UsageError: An option is unknown or has no such value, or the text is missing.
    """
    found: dict[str, Any] = {}  # Any: fields are set by name
    while option := _OPTION.match(argument):
        name, value = option[1], _unquoted(option[2])
        match name:
            case "check" if value:
                found["check"] = value
            case "rounds" if value.isascii() and value.isdigit() and 0 < int(value) <= _ROUNDS_MAX:
                found["rounds_max"] = int(value)
            case "max-cost" if 0 < _limit_number(value) <= USD_MAX:
                found["cost_max_usd"] = _limit_number(value)
            case "time" if (passed := _TIME.fullmatch(value)) and float(passed[1]):
                found["time_max_s"] = float(passed[1]) * _SECONDS[passed[2] or ""]
            case _ if takes := _TAKES.get(name):
                text = one_line(option[2]) or "nothing"
                raise UsageError(f"--{name} takes {takes}, not {text}; {_USAGE}")
            case _:
                raise UsageError(f"/goal has no option --{name}; {_USAGE}")
        argument = argument[option.end() :]
    if not argument.strip():
        raise UsageError(f"/goal needs what is to be reached; {_USAGE}")
    return Goal(text=argument.strip(), **found)


def _unquoted(value: str) -> str:
    """Return *value* without the quotes around it; "" if they are not closed."""
    quote = value[:1]
    if quote not in ("'", '"'):
        return value
    inside = value[1:-1] if value.endswith(quote) else ""
    return re.sub(r'\\(["\\])', r"\1", inside) if quote == '"' else inside


def _limit_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _goal_status(context: Context) -> str:
    progress = context.app.goals.progress
    if progress is None:
        return f"no goal; {_USAGE}"
    goal = progress.goal
    passed = whole_seconds(int(progress.elapsed_s))
    most = f" of {requested_duration(goal.time_max_s)}" if goal.time_max_s else ""
    limits = [f"{progress.rounds} of {counted(goal.rounds_max, 'round')}", f"{passed}{most}"]
    if goal.cost_max_usd:
        limits.append(f"at most {dollars(in_microdollars(goal.cost_max_usd))}")
    check = [f"check: {goal.check}"] if goal.check else []
    state = f"{progress.state}: {progress.reason}" if progress.reason else progress.state
    # Its run may have failed, or was stopped.
    goes_on = "" if context.app.agent.state.is_streaming else "your next prompt goes on with it, "
    ends = [f"{goes_on}/goal off ends it"] if progress.state == "active" else []
    return "\n".join([f"goal ({state}): {goal.text}", *check, " · ".join(limits), *ends])


_USAGE: Final = (
    "/goal [--check 'make test'] [--max-cost USD] [--rounds N] [--time 1h] TEXT, or /goal off"
)

GOAL_COMMAND: Final = Command(
    "goal",
    "work until a check of yours passes, or a limit is reached",
    _goal,
    "[--check CMD] [--max-cost USD] [--rounds N] [--time 1h] TEXT",
    asks_the_model=True,
    without_prompt=("", *_ENDS),
    choices=lambda _app: {_OFF: "end the goal"},
    more="The check runs in the sandbox whenever the model ends its turn; while it fails, the model"
    " reads its output and goes on. /goal alone shows how far it is, /goal off ends it.",
)
