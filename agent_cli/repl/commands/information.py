"""Commands that show what is there, and change nothing but the display."""

import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.repl.commands.mcp import MCP_COMMAND
from agent_cli.repl.commands.spec import Command, Context
from agent_cli.repl.recall import last_answer
from agent_cli.system.clipboard import copy_text, way_to_copy
from agent_cli.terminal.narration import one_line, share

_BAR_CELLS: Final = 30
_NAME_CELLS_MAX: Final = 24
_SENTENCE_CHARS_MAX: Final = 200
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def _tools(context: Context, _argument: str) -> None:
    tools = context.app.tools
    width = min(max((len(tool.name) for tool in tools), default=0), _NAME_CELLS_MAX)
    lines = [f"{tool.name:<{width}}  {_first_sentence(tool.description)}" for tool in tools]
    context.writer.aside("\n".join(lines) or "no tools")


def _first_sentence(description: str) -> str:
    """Return what a tool is for; what else stands in its description is for the model."""
    return one_line(_SENTENCE_END.split(description.strip(), 1)[0], _SENTENCE_CHARS_MAX)


def _usage(context: Context, _argument: str) -> None:
    conversation = context.app.agent.conversation
    context.writer.aside("\n".join(usage_rows(conversation.messages(), conversation.usage)))


def usage_rows(messages: Iterable[Message], total: Usage) -> list[str]:
    """Return a row about *total*, and one for each model where several were asked.

    *total* may hold more than the replies among *messages*: summaries, what MCP servers asked
    the model, what broke off, and what somebody went back from.
    """
    models: dict[str, Usage] = {}
    for message in messages:
        if isinstance(message, AssistantMessage) and message.usage.prompt_tokens:
            models[message.model] = models.get(message.model, NO_USAGE) + message.usage
    rows = [describe_usage(total)]
    if len(models) > 1:
        rows += [f"  {model}: {describe_usage(usage)}" for model, usage in models.items()]
    if besides := _tokens(total) - sum(map(_tokens, models.values())):
        rows.append(
            f"  of it {besides:,} tokens for summaries, MCP servers' questions to the model,"
            " replies that broke off and what was gone back from"
        )
    return rows


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


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
        f"{name:<{name_width}}  {_bar(tokens / whole)}  {tokens:>9,}  {share(tokens / whole):>4}"
        for name, tokens in shown.items()
    ]
    return [f"about {used:,} tokens in the next request (4 characters a token)", *rows]


def _bar(share: float) -> str:
    filled = math.ceil(share * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


async def _copy(context: Context, _argument: str) -> None:
    if context.controls is None:
        raise UsageError("/copy needs a screen; on a pipe stdout holds the answers")
    answer = last_answer(context.app.agent.conversation)
    if answer is None:
        raise UsageError("there is no answer to copy yet")
    count = f"{len(answer):,} characters"
    if program := await copy_text(answer, os.environ, sys.platform):
        context.writer.aside(f"copied {count} with {program}", "dim")
        return
    context.controls.copy(answer)
    context.writer.aside(
        f"sent {count} to the terminal, which may ignore them (OSC 52); if they are not on your"
        f" clipboard, {way_to_copy(os.environ, sys.platform)}",
        "dim",
    )


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


def _thinking(context: Context, _argument: str) -> None:
    if context.controls is None:
        raise UsageError("nothing is folded here: ui.show_thinking in the settings shows thinking")
    context.controls.toggle_thinking()


def describe_usage(usage: Usage) -> str:
    """Return tokens and cost in one line."""
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    read = f"cache read {usage.cache_read_tokens:,}"
    if usage.cache_read_tokens:
        read += f" ({usage.cache_read_tokens / usage.prompt_tokens:.0%})"
    known = usage.cost_microdollars is not None
    cost = f"${(usage.cost_microdollars or 0) / 1_000_000:.4f}" if known else "cost unknown"
    return (
        f"input {usage.input_tokens:,} · {read} · "
        f"cache write {written:,} · output {usage.output_tokens:,} tokens · {cost}"
    )


INFORMATION_COMMANDS: Final = (
    Command("tools", "list the tools the model has", _tools),
    MCP_COMMAND,
    Command("usage", "show the tokens used so far and what they cost", _usage),
    Command("context", "show what fills the model's window", _context),
    Command(
        "copy",
        "put the last answer on the clipboard, as it was written",
        _copy,
        beside_a_run=True,
        more="With pbcopy, wl-copy, xclip, xsel or tmux where there is one, else by the terminal.",
    ),
    Command("output", "show a tool's output in full, the last one by default", _output, "[number]"),
    Command("thinking", "show what the model thinks, from the last on, or fold it", _thinking),
    Command("pause", "hold the display, or let it go on; the run goes on meanwhile", _pause),
)
