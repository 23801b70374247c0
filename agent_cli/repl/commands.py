"""Slash commands: a table of small functions."""

import difflib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from agent_cli.errors import UsageError
from agent_cli.repl.application import Application
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.writer import Lines
from agent_cli.timeline import Usage

_KEYS: Final = (
    "Enter sends. Alt-Enter, Ctrl-J, or a backslash before Enter begin a new line.\n"
    "During a run: Enter sends with the next request, Alt-Enter when the run would end; Arrow-up\n"
    "takes the last one back. Esc or Ctrl-C stops the run. Ctrl-S holds the display, Ctrl-Q lets\n"
    "it go on.\n"
    "Tab completes /commands and @files. !command runs a command and offers its output to the\n"
    "model, !!command does not. Ctrl-G opens your editor, Ctrl-R searches what you sent before.\n"
    "Ctrl-C clears the line; twice at an empty prompt leaves. Ctrl-D leaves."
)


class Pausable(Protocol):
    """A display that can be held."""

    @property
    def is_paused(self) -> bool:
        """Whether it is held."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Hold it, or let it go on."""
        ...

    def show_output(self, number: int | None) -> None:
        """Print what was folded under *number*, or last.

        Raises:
            UsageError: There is no such output.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a command may touch; `leave()` ends the session after the command.

    `display` is None where nothing can be held back: on a pipe or a dumb terminal.
    """

    app: Application
    writer: Lines
    leave: Callable[[], None]
    display: Pausable | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `run` gets what stands behind the name, trimmed.

    One that may run `during_a_run` is quick and does not touch the conversation.
    """

    name: str
    help: str
    run: Callable[[Context, str], Awaitable[None] | None]
    argument: str = ""
    during_a_run: bool = True

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".rstrip()


async def run_command(line: str, context: Context) -> None:
    """Run *line*, which begins with a slash.

    Raises:
        UsageError: There is no such command, or it takes no argument.
    """
    command, argument = find_command(line)
    pending = command.run(context, argument)
    if inspect.isawaitable(pending):
        await pending


def find_command(line: str) -> tuple[Command, str]:
    """Return the command *line* names, and what stands behind the name, trimmed.

    Raises:
        UsageError: There is no such command, or it takes no argument.
    """
    name, _, argument = line[1:].partition(" ")
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is None:
        raise UsageError(f"there is no command /{one_line(name)}{_suggestion(name)}")
    if argument.strip() and not command.argument:
        raise UsageError(f"/{name} takes nothing behind it")
    return command, argument.strip()


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    return f"; did you mean /{near[0]}?" if near else "; /help lists them"


def _help(context: Context, _argument: str) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    lines = [f"{command.usage:<{width}}  {command.help}" for command in COMMANDS]
    context.writer.aside("\n".join([*lines, "", _KEYS]))


def _clear(context: Context, _argument: str) -> None:
    context.app.clear()
    context.writer.aside("a new conversation begins", "dim")


def _model(context: Context, name: str) -> None:
    if name:
        context.app.use_model(name)
    current = context.app.agent.state.model
    lines = [f"model: {current.id if current else 'none'}"]
    if not name:
        lines += [f"  {alias} = {model_id}" for alias, model_id in context.app.models.items()]
    context.writer.aside("\n".join(lines))


def _tools(context: Context, _argument: str) -> None:
    lines = [f"{tool.name}: {one_line(tool.description)}" for tool in context.app.tools]
    context.writer.aside("\n".join(lines) or "no tools")


def _mcp(context: Context, _argument: str) -> None:
    context.writer.aside("\n".join(context.app.mcp_overview()) or "no MCP servers")


def _usage(context: Context, _argument: str) -> None:
    context.writer.aside(describe_usage(context.app.agent.conversation.usage))


async def _compact(context: Context, focus: str) -> None:
    await context.app.compact(focus)


def _pause(context: Context, _argument: str) -> None:
    if context.display is None:
        raise UsageError("/pause needs a terminal that can move its cursor")
    context.display.pause(paused=not context.display.is_paused)


def _output(context: Context, number: str) -> None:
    if context.display is None:
        raise UsageError("nothing is folded here: /output is for a terminal")
    if number and not number.isdecimal():
        raise UsageError(f"/output takes a number, not {one_line(number)}")
    context.display.show_output(int(number) if number else None)


def _exit(context: Context, _argument: str) -> None:
    context.leave()


def describe_usage(usage: Usage) -> str:
    """Return tokens and cost in one line."""
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    known = usage.cost_microdollars is not None
    cost = f"${(usage.cost_microdollars or 0) / 1_000_000:.4f}" if known else "cost unknown"
    return (
        f"input {usage.input_tokens:,} · cache read {usage.cache_read_tokens:,} · "
        f"cache write {written:,} · output {usage.output_tokens:,} tokens · {cost}"
    )


COMMANDS: Final = (
    Command("help", "show this list", _help),
    Command("clear", "forget the conversation and begin a new one", _clear, during_a_run=False),
    Command("model", "show the model, or use another one", _model, "[name]"),
    Command("tools", "list the tools the model has", _tools),
    Command("mcp", "list the MCP servers and their state", _mcp),
    Command("usage", "show the tokens used so far and what they cost", _usage),
    Command(
        "compact",
        "replace older messages by a summary",
        _compact,
        "[what to keep]",
        during_a_run=False,
    ),
    Command("output", "show a tool's output in full, the last one by default", _output, "[number]"),
    Command("pause", "hold the display, or let it go on; the run goes on meanwhile", _pause),
    Command("exit", "leave; so do exit, quit and Ctrl-D", _exit),
)
