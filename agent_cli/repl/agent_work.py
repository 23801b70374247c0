"""The work of one agent so far, as a page: its name, task, texts and calls."""

from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.contracts.agents import AgentWork
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
from agent_cli.contracts.wording import seconds
from agent_cli.repl.approval.refusals import failure
from agent_cli.repl.live.results import outcome_of
from agent_cli.terminal.narration import describe_call
from agent_cli.terminal.sanitize import reveal

_INDENT: Final = "  "
_TASK_ROWS_MAX: Final = 8


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
