"""Slash commands: a table of small functions."""

import difflib
import inspect
import math
from collections.abc import Mapping
from typing import Final

from agent_cli.errors import UsageError
from agent_cli.repl.command import Command, Context
from agent_cli.repl.recall import last_answer
from agent_cli.repl.session_commands import SESSION_COMMANDS
from agent_cli.repl.setting_commands import SETTING_COMMANDS
from agent_cli.terminal.narration import one_line
from agent_cli.timeline import Usage

_BAR_CELLS: Final = 30
_KEYS: Final = (
    "Enter sends. Alt-Enter, Ctrl-J, or a backslash before Enter begin a new line.\n"
    "During a run: Enter sends with the next request, Alt-Enter when the run would end; Arrow-up\n"
    "takes the last one back. Esc or Ctrl-C stops the run. Ctrl-S holds the display, Ctrl-Q lets\n"
    "it go on.\n"
    "Tab completes /commands and @files. !command runs a command and offers its output to the\n"
    "model, !!command does not. Ctrl-G opens your editor, Ctrl-R searches what you sent before.\n"
    "Ctrl-C clears the line; twice at an empty prompt leaves. Ctrl-D leaves.\n"
    "`agent-cli doctor`, outside, says what is ready and what is not."
)


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


def _tools(context: Context, _argument: str) -> None:
    lines = [f"{tool.name}: {one_line(tool.description)}" for tool in context.app.tools]
    context.writer.aside("\n".join(lines) or "no tools")


def _mcp(context: Context, _argument: str) -> None:
    context.writer.aside("\n".join(context.app.mcp_overview()) or "no MCP servers")


def _usage(context: Context, _argument: str) -> None:
    context.writer.aside(describe_usage(context.app.agent.conversation.usage))


def _context(context: Context, _argument: str) -> None:
    model = context.app.agent.state.model
    parts = context.app.context_parts()
    context.writer.aside("\n".join(bars(parts, window=model.context_window if model else 0)))


def bars(parts: Mapping[str, int], *, window: int) -> list[str]:
    """Return a bar for each part of a request, and what the model's window still holds.

    Args:
        parts: Estimated tokens by what they are.
        window: The tokens the model takes; 0 when that is not known.
    """
    used = sum(parts.values())
    shown = {**parts, "free": max(window - used, 0)} if window else dict(parts)
    whole = sum(shown.values()) or 1
    name_width = max(map(len, shown))
    rows = [
        f"{name:<{name_width}}  {_bar(tokens / whole)}  {tokens:>9,}  {tokens / whole:>4.0%}"
        for name, tokens in shown.items()
    ]
    return [f"about {used:,} tokens in the next request (4 characters a token)", *rows]


def _bar(share: float) -> str:
    filled = math.ceil(share * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _copy(context: Context, _argument: str) -> None:
    if context.controls is None:
        raise UsageError("/copy needs a screen; on a pipe stdout holds the answers")
    answer = last_answer(context.app.agent.conversation)
    if answer is None:
        raise UsageError("there is no answer to copy yet")
    context.controls.copy(answer)
    context.writer.aside(f"{len(answer):,} characters are on the clipboard", "dim")


def _pause(context: Context, _argument: str) -> None:
    if context.controls is None:
        raise UsageError("/pause needs a screen")
    context.controls.pause(paused=not context.controls.is_paused)


def _output(context: Context, number: str) -> None:
    if context.controls is None:
        raise UsageError("nothing is folded here: /output is for a terminal")
    if number and not number.isdecimal():
        raise UsageError(f"/output takes a number, not {one_line(number)}")
    context.controls.show_output(int(number) if number else None)


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
    *SESSION_COMMANDS,
    *SETTING_COMMANDS,
    Command("tools", "list the tools the model has", _tools),
    Command("mcp", "list the MCP servers and their state", _mcp),
    Command("usage", "show the tokens used so far and what they cost", _usage),
    Command("context", "show what fills the model's window", _context),
    Command("copy", "put the last answer on the clipboard, as it was written", _copy),
    Command("output", "show a tool's output in full, the last one by default", _output, "[number]"),
    Command("pause", "hold the display, or let it go on; the run goes on meanwhile", _pause),
    Command("exit", "leave; so do exit, quit and Ctrl-D", _exit),
)
