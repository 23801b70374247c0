"""Commands that show information, and change nothing but the display."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.contracts.timeline import NO_USAGE, ModelUsage, Usage
from agent_cli.contracts.wording import counted, dollars, one_line, share
from agent_cli.repl.commands import Command, Context, show
from agent_cli.repl.commands.background import AGENTS_COMMAND, JOBS_COMMAND
from agent_cli.repl.commands.mcp import MCP_COMMAND
from agent_cli.repl.recall import last_answer
from agent_cli.repl.todos import unfolded
from agent_cli.system.desktop import copy_text, way_to_copy
from agent_cli.system.event_loop import in_background
from agent_cli.system.records import dataclass, field
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.terminal.views import Drawn
    from agent_cli.terminal.views.table import Bars

_SENTENCE_CHARS_MAX: Final = 200
_CACHE: Final = "cache"
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def _tools(context: Context, _argument: str) -> None:
    from agent_cli.terminal.views.table import Column, Table  # rich

    tools = [tool for tool in context.app.tools if not tool.is_deferred]  # a rule denies those
    rows = [(tool.name, _first_sentence(tool.description)) for tool in tools]
    show(context, Table([Column("tool"), Column("purpose")], rows, empty="no tools"))


def _hooks(context: Context, _argument: str) -> None:
    context.writer.aside("\n".join(reveal(line) for line in context.app.hooks.report()))
    if context.app.ignored:
        context.writer.aside(reveal(context.app.ignored))


def _first_sentence(description: str) -> str:
    """Return the purpose of a tool; the rest of its description is for the model."""
    return one_line(_SENTENCE_END.split(description.strip(), 1)[0], _SENTENCE_CHARS_MAX)


def _todo(context: Context, _argument: str) -> None:
    context.writer.aside("\n".join(unfolded(context.app.todos())) or "the todo list is empty")


async def _usage(context: Context, part: str) -> None:
    if part == _CACHE:
        context.writer.aside("\n".join(context.app.cache_lines()))
        return
    if part:
        raise UsageError(f"/usage shows everything, or cache, not {one_line(part)}")
    conversation = context.app.agent.conversation
    listed = await in_background(context.app.sessions.agents)  # large files take seconds
    agents = {f"agent {info.agent} {info.id}": info.usage for info in listed}
    if conversation.usage == NO_USAGE and not agents:
        context.writer.aside("no reply of the model was counted yet")
        return
    show(context, UsageView.of(conversation.messages(), conversation.usage, agents))


@dataclass(frozen=True, slots=True)
class UsageView:
    """Tokens and cost: for each model, in total, and with subagents.

    *total* may include more than the replies shown: summaries, sampling by MCP servers, replies
    that broke off, and rewound prompts.
    """

    models: Mapping[str, Usage]
    total: Usage
    agents: Mapping[str, Usage] = field(default_factory=dict[str, Usage])

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        total: Usage,
        agents: Mapping[str, Usage] = MappingProxyType({}),
    ) -> "UsageView":
        """Return the usage of a conversation, and of each of its subagents *agents*."""
        models: dict[str, Usage] = {}
        for message in messages:
            if isinstance(message, AssistantMessage) and message.usage.prompt_tokens:
                own = ModelUsage(message.model, message.usage)
                for each in (own, *message.beside):
                    models[each.model] = models.get(each.model, NO_USAGE) + each.usage
        return cls(models, total, agents)

    def drawn(self) -> "Drawn":
        """Return a table with a row for each model."""
        from agent_cli.terminal.views.table import Column, Note, Stack, Table  # rich

        numbers = ("input", "cache read", "cached", "cache write", "output", "cost")
        columns = [Column("model", whole=True), *(Column(each, right=True) for each in numbers)]
        total = () if self._is_of_one_model else (("total", self.total),)
        rows = [*self.models.items(), *total, *self._of_agents()]
        table = Table(columns, [(name, *_cells(usage)) for name, usage in rows])
        searches = [_searches(self.total)] if self.total.web_searches else []
        thinking = self.total.thinking_tokens
        thought = [f"{thinking:,} tokens of the output are thinking"] if thinking else []
        return Stack([table, *map(Note, (*self._besides(), *thought, *searches))]).drawn()

    def lines(self) -> Sequence[str]:
        """Return a line with the total, and one for each model if there are several."""
        models = [f"{model}: {describe_usage(usage)}" for model, usage in self.models.items()]
        if not self._is_of_one_model:
            models = [describe_usage(self.total), *(f"  {line}" for line in models)]
        return [
            *models,
            *(f"{name}: {describe_usage(usage)}" for name, usage in self._of_agents()),
            *(f"  {line}" for line in self._besides()),
        ]

    @property
    def _is_of_one_model(self) -> bool:
        """Whether the row of a model would be repeated by the total."""
        return [*self.models.values()] == [self.total]

    def _of_agents(self) -> Sequence[tuple[str, Usage]]:
        if not self.agents:
            return ()
        return [*self.agents.items(), ("with agents", sum(self.agents.values(), self.total))]

    def _besides(self) -> Sequence[str]:
        if besides := _tokens(self.total) - sum(map(_tokens, self.models.values())):
            return [
                f"including {besides:,} tokens for summaries, /btw, keeping the cache warm, MCP"
                " servers' requests to the model, incomplete replies and rewound prompts"
            ]
        return []


def _cells(usage: Usage) -> Sequence[str]:
    written = usage.cache_write_tokens
    cached = share(usage.cache_read_tokens / usage.prompt_tokens) if usage.prompt_tokens else "-"
    numbers = (usage.input_tokens, usage.cache_read_tokens, written, usage.output_tokens)
    new, read, wrote, output = (f"{number:,}" for number in numbers)
    return new, read, cached, wrote, output, _cost(usage)


def _cost(usage: Usage) -> str:
    cost = usage.cost_microdollars
    return "unknown" if cost is None else dollars(cost, decimals=4)


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


def _context(context: Context, _argument: str) -> None:
    model = context.app.agent.state.model
    parts = context.app.context_parts()
    bars = window_bars(parts, window=model.context_window if model else 0)
    from agent_cli.terminal.views.table import Note, Stack  # rich

    notes = "\n".join(context.app.context_notes())
    show(context, Stack([bars, Note(notes)] if notes else [bars]))


def window_bars(parts: Mapping[str, int], *, window: int) -> "Bars":
    """Return a bar for each part of the next request, and one for the rest of the window.

    Args:
        parts: Estimated tokens by kind of content.
        window: The model's context window in tokens; 0 if unknown.
    """
    from agent_cli.terminal.views.table import Bars  # rich

    used = sum(parts.values())
    shown = {**parts, "free": max(window - used, 0)} if window else parts
    return Bars(f"about {used:,} tokens in the next request (4 characters a token)", shown)


async def _copy(context: Context, _argument: str) -> None:
    if context.controls is None:
        raise UsageError("/copy needs a screen; on a pipe stdout holds the answers")
    answer = last_answer(context.app.agent.conversation)
    if answer is None:
        raise UsageError("no answer to copy yet")
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
    written = usage.cache_write_tokens
    read = f"cache read {usage.cache_read_tokens:,}"
    if usage.cache_read_tokens:
        read += f" ({usage.cache_read_tokens / usage.prompt_tokens:.0%})"
    cost = "cost unknown" if usage.cost_microdollars is None else _cost(usage)
    searches = f" · {_searches(usage)}" if usage.web_searches else ""
    thought = f" ({usage.thinking_tokens:,} thinking)" if usage.thinking_tokens else ""
    return (
        f"input {usage.input_tokens:,} · {read} · cache write {written:,} · "
        f"output {usage.output_tokens:,} tokens{thought}{searches} · {cost}"
    )


def _searches(usage: Usage) -> str:
    return counted(usage.web_searches, "web search", "web searches")


INFORMATION_COMMANDS: Final = (
    Command("tools", "list the tools the model has", _tools),
    MCP_COMMAND,
    Command("hooks", "list the lifecycle hooks and what they did last", _hooks),
    AGENTS_COMMAND,
    JOBS_COMMAND,
    Command("todo", "show the model's todo list", _todo),
    Command(
        "usage",
        "show the tokens used so far and their cost",
        _usage,
        "[cache]",
        beside_a_run=True,
        choices=lambda _app: {_CACHE: "hits and losses of the prompt cache, with their causes"},
    ),
    Command("context", "show what fills the context window", _context),
    Command(
        "copy",
        "copy the last answer to the clipboard",
        _copy,
        beside_a_run=True,
        more="With pbcopy, wl-copy, xclip, xsel or tmux where there is one, else by the terminal.",
    ),
    Command("output", "show a tool's full output, the last one by default", _output, "[number]"),
    Command("thinking", "show or fold the model's thinking", _thinking),
    Command("pause", "pause or resume the display; the run continues", _pause),
)
