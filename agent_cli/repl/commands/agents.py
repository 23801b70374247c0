"""`/agents`: list the session's subagents, show their work, stop them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent_cli.contracts.agents import AgentWork
from agent_cli.contracts.errors import UsageError
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
from agent_cli.contracts.wording import one_line, seconds
from agent_cli.repl.approval.refusals import failure
from agent_cli.repl.commands.spec import Command, Context, show
from agent_cli.repl.live.results import outcome_of
from agent_cli.repl.ports import Application
from agent_cli.terminal.narration import describe_call
from agent_cli.terminal.sanitize import reveal

_STOP: Final = "stop"
_SHOW: Final = "show"
_INDENT: Final = "  "
_TASK_ROWS_MAX: Final = 8


async def _run(context: Context, argument: str) -> None:
    match argument.split():
        case []:
            _list(context)
        case ["show"]:
            await _choose(context)
        case ["stop", number]:
            agent = context.app.agents.stop(_number(number))
            how = "is being stopped" if agent.is_running else agent.state
            context.writer.aside(f"{reveal(agent.title)}: {how}")
        case [number]:
            _show(context, _number(number))
        case _:
            raise UsageError("/agents takes a number, show, or stop NUMBER")


def _list(context: Context) -> None:
    from agent_cli.terminal.views.table import Column, Table  # noqa: PLC0415 - rich

    rows = [
        (str(agent.number), reveal(agent.title), reveal(agent.state))
        for agent in context.app.agents.all()
    ]
    columns = [Column("no.", right=True), Column("agent"), Column("state")]
    show(context, Table(columns, rows, empty="no agents yet"))


async def _choose(context: Context) -> None:
    """Show the work of a working agent, or of the last; with several, the user picks one."""
    agents = context.app.agents.all()
    working = [agent for agent in agents if agent.is_running] or agents[-1:]
    if not working:
        raise UsageError("no agents yet")
    chosen: int | None = 0
    if len(working) > 1 and context.controls:
        rows = [f"{reveal(agent.title)} · {reveal(agent.state)}" for agent in working]
        chosen = await context.controls.pick("whose work? ", rows)
    if chosen is not None:
        _show(context, working[chosen].number)


def _show(context: Context, number: int) -> None:
    context.writer.aside(agent_work(context.app.agents.work(number)))


def _number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"{one_line(word)} is not the number of an agent; /agents lists them")
    return int(word)


def _choices(app: Application) -> Mapping[str, str]:
    agents = app.agents.all()
    return {
        **{str(agent.number): f"show what it did: {agent.title}" for agent in agents},
        **{f"{_STOP} {each.number}": f"stop {each.title}" for each in agents if each.is_running},
        _SHOW: "show what an agent does (Ctrl-O)",
    }


AGENTS_COMMAND: Final = Command(
    "agents",
    "list the agents at work, show or stop one",
    _run,
    "[NUMBER|stop NUMBER|show]",
    beside_a_run=True,
    choices=_choices,
    more=(
        "Arrow-down in an empty input selects one at work: Enter shows its work, Esc stops it.\n"
        "Ctrl-O shows what an agent does. Stopping one stops the agents it started."
    ),
)


def agent_work(work: AgentWork) -> str:
    """Return the page about *work*; a long task is cut, what the agent said is not."""
    outputs = [output for prompt in work.prompts for output in prompt.output]
    rows = [row for output in outputs for row in _rows(output, work.tools)]
    task = work.task.strip().split("\n")
    more = [f"… {len(task) - _TASK_ROWS_MAX} more lines"] if len(task) > _TASK_ROWS_MAX else []
    shown = [f"{_INDENT}{row}".rstrip() for row in (*task[:_TASK_ROWS_MAX], *more)]
    begin = [f"{reveal(work.info.title)} · {reveal(work.info.state)}", "its task:", *shown]
    return "\n".join([*begin, "", *(rows or ["it has done nothing yet"])])


def _rows(output: Output, tools: Sequence[Tool]) -> Iterator[str]:
    match output:
        case TextOutput(block={"text": str(text)}) if text.strip():
            yield text.strip()
        case DiscardedOutput(text=str(text)) if text.strip():
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
            return f"… {text} · {'not begun' if started is None else 'at work'}"
        case Error(content=content):
            words = failure(text_of(content).partition("\n")[0], elapsed_s)
            return f"✗ {text} · {': '.join(words)}"
        case done:
            passed = "" if elapsed_s is None else seconds(elapsed_s)
            return " · ".join(filter(None, (f"✓ {text}", outcome_of(done.details), passed)))
