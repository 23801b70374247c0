"""Slash commands: a table of small functions."""

import difflib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from agent_cli.errors import UsageError
from agent_cli.repl.application import Application
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.writer import Writer
from agent_cli.timeline import Usage

_KEYS: Final = (
    "Enter sends. Alt-Enter, Ctrl-J, or a backslash before Enter begin a new line.\n"
    "Ctrl-C stops a run or clears the line; twice at an empty prompt leaves. Ctrl-D leaves."
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a command may touch; `leave()` ends the session after the command."""

    app: Application
    writer: Writer
    leave: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `run` gets what stands behind the name, trimmed."""

    name: str
    help: str
    run: Callable[[Context, str], Awaitable[None] | None]
    argument: str = ""

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".rstrip()


async def run_command(line: str, context: Context) -> None:
    """Run *line*, which begins with a slash.

    Raises:
        UsageError: There is no such command, or it takes no argument.
    """
    name, _, argument = line[1:].partition(" ")
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is None:
        raise UsageError(f"there is no command /{one_line(name)}{_suggestion(name)}")
    if argument.strip() and not command.argument:
        raise UsageError(f"/{name} takes nothing behind it")
    pending = command.run(context, argument.strip())
    if inspect.isawaitable(pending):
        await pending


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
    Command("clear", "forget the conversation and begin a new one", _clear),
    Command("model", "show the model, or use another one", _model, "[name]"),
    Command("tools", "list the tools the model has", _tools),
    Command("mcp", "list the MCP servers and their state", _mcp),
    Command("usage", "show the tokens used so far and what they cost", _usage),
    Command("compact", "replace older messages by a summary", _compact, "[what to keep]"),
    Command("exit", "leave; so do exit, quit and Ctrl-D", _exit),
)
