"""The status line below the prompt, and the row of the user's own status command."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    Compacted,
    Event,
    MessageEnd,
    PromptOutput,
    ToolExecutionEnd,
    TurnStart,
    UsageChanged,
    innermost,
)
from agent_cli.contracts.hosted_blocks import has_hosted
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import FAST
from agent_cli.contracts.timeline import CompactionOutput, Json, Usage
from agent_cli.contracts.wording import dollars, in_usd, share, short_count
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.repl.live.paint import cut, row_width, shortened
from agent_cli.system.event_loop import in_background
from agent_cli.system.sanitize import clean_but_colors
from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo
    from agent_cli.repl.live.screen import LiveScreen
    from agent_cli.repl.ports import Application

_SEPARATOR: Final = " · "


class Status:
    """Follows the agent; `text` is one line, never too wide and never empty."""

    def __init__(
        self,
        agent: Agent,
        context_tokens: Callable[[], int] = lambda: 0,
        subagents: Callable[[], "Sequence[SessionInfo]"] = tuple,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        """Follow *agent*.

        Args:
            agent: The session's agent.
            context_tokens: Returns the size of a resumed conversation.
            subagents: Returns the subagents of a resumed conversation; called in a thread.
            changed: Called when the line has changed without an event.
        """
        self._agent = agent
        self._count = context_tokens
        self._subagents = subagents
        self._changed = changed
        self._model = ""
        self._refused_fast = ""
        self._window = 0
        self._context_tokens = 0
        self._total = self._of_agents = Usage()
        self._conversation: Conversation | None = None
        # One in the background outlives its conversation, which pays for it.
        self._begun_in: dict[str, str] = {}
        self.refresh()

    def __call__(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._note_reply(message)
            case Compacted(tokens_after=tokens):
                self._context_tokens = tokens
            case PromptOutput(output=CompactionOutput(first_kept_id=None)):  # rewound
                self._context_tokens = self._count()
            case UsageChanged(total=total):  # from any model call: a summary, a server's request
                self._total = total
            case AgentEvent(agent_id=id):
                current = self._agent.conversation.id
                begun_in = self._begun_in.setdefault(id, current)
                if begun_in == current and isinstance(inner := innermost(event), UsageChanged):
                    self._of_agents += inner.reply
            case AgentStart() | AgentEnd():
                self.refresh()
            case _:
                pass

    def _note_reply(self, message: AssistantMessage) -> None:
        used, model = message.usage, self._agent.state.model
        if used.prompt_tokens and not has_hosted(message.content):  # the sum of the server's rounds
            self._context_tokens = used.prompt_tokens + used.output_tokens
        if model:
            is_refused = model.id == f"{message.model}{FAST}"
            self._refused_fast = model.id if is_refused else ""
        self.refresh()

    def is_changed_by(self, event: Event) -> bool:
        """Return whether to draw the line again for *event*: not for each reply of an agent."""
        return isinstance(event, UsageChanged) or isinstance(innermost(event), AgentEnd)

    def refresh(self) -> None:
        """Update from the agent, whose model may have changed."""
        state = self._agent.state
        effort = f" {state.thinking_level}" if state.thinking_level else ""
        self._model = f"{self.model_id}{effort}" if state.model else "no model"
        self._window = state.model.context_window if state.model else 0
        if self._conversation is not self._agent.conversation:
            self._conversation = self._agent.conversation
            self._context_tokens = self._count() if self._conversation.prompts else 0
            self._total = self._conversation.usage
            self._of_agents = Usage()
            if self._conversation.prompts:
                # Their files may have hundreds of megabytes, and no key was taken meanwhile.
                reading = in_background(self._subagents)
                reading.add_done_callback(partial(self._add_agents, self._conversation))

    def _add_agents(
        self, of: Conversation, reading: "asyncio.Future[Sequence[SessionInfo]]"
    ) -> None:
        if self._conversation is of:
            self._of_agents = sum((info.usage for info in reading.result()), self._of_agents)
            self._changed()

    @property
    def model_id(self) -> str:
        """The model; without fast mode if the API gave the last reply at the usual speed."""
        model = self._agent.state.model
        id = model.id if model else ""
        return id.removesuffix(FAST) if id == self._refused_fast else id

    @property
    def cost_microdollars(self) -> int | None:
        """The cost of the conversation and its subagents; None if a part has no known price."""
        return (self._total + self._of_agents).cost_microdollars

    def text(self, badges: Sequence[str], *, urgent: Sequence[str], columns: int) -> str:
        """Return the line; in a narrow window the least important parts are left out.

        Args:
            badges: Words of the program, the most important first, e.g. the permission mode.
            urgent: Text with priority over everything else, such as a paused display.
            columns: Maximum width in cells.
        """
        mode, *others = badges or ("",)
        ranked = [
            *((0, words) for words in urgent),
            *((2, self._model), (1, mode), *self._context(), (5, self._cost())),
            *((6, words) for words in others),
            (7, self._cache()),
        ]
        parts = [part for part in ranked if part[1]]
        while len(parts) > 1 and row_width(_joined(parts)) > columns:
            parts.remove(max(reversed(parts), key=itemgetter(0)))
        return shortened(_joined(parts), columns)

    def _context(self) -> Sequence[tuple[int, str]]:
        """Return the used share of the window, and the tokens, which may be left out."""
        if not self._context_tokens or not self._window:
            return ()
        percent = share(self._context_tokens / self._window)
        return (3, f"context {percent}"), (4, f"({short_count(self._context_tokens)} tokens)")

    def _cost(self) -> str:
        cost = self.cost_microdollars
        return dollars(cost, decimals=2) if cost else ""

    def _cache(self) -> str:
        prompt = self._total.prompt_tokens
        hits = self._total.cache_read_tokens
        return f"cache {hits / prompt:.0%}" if prompt and hits else ""


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    """Return *parts* as one line; bracketed text belongs to the part before it."""
    return _SEPARATOR.join(words for _, words in parts).replace(f"{_SEPARATOR}(", " (")


_APART_S: Final = 0.3


class StatusRow:
    """Runs the command in the background, one run at a time, and keeps its last line."""

    def __init__(self, app: "Application", screen: "LiveScreen", status: Status) -> None:
        self._command = app.status_command
        self._screen = screen
        self._data = StatusData(app, status, lambda: screen.app.vi_mode, time.monotonic)
        self._requested = asyncio.Event()
        self._line = ""
        if self._command:
            screen.own_row = self.row
            app.agent.subscribe(self)

    def __call__(self, event: Event) -> None:
        """Update from *event*; run the command again if the event may have changed the line."""
        self._data(event)
        match event:
            case MessageEnd(message=AssistantMessage()):
                self.want()
            case AgentEnd() | Compacted() | UsageChanged():
                self.want()
            case _:
                pass

    def want(self) -> None:
        """Run the command again soon."""
        self._requested.set()

    async def run(self) -> None:
        """Run the command, if there is one, after each request for it, until cancelled."""
        while command := self._command:
            line = await command.run(await self._data.collect())
            if line != self._line:
                self._line = line
                self._screen.refresh()
            await asyncio.sleep(_APART_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(command.refresh_s or None):
                    await self._requested.wait()
            self._requested.clear()

    def row(self) -> StyleAndTextTuples:
        """Return the line, cut to the width of the screen; nothing if it is empty."""
        line = clean_but_colors(self._line.expandtabs(4)).rstrip()
        return to_formatted_text(ANSI(cut(line, self._screen.columns - 1))) if line else []


_LARGE_TOKENS: Final = 200_000


class StatusData:
    """Follows the agent of *app*; `collect` returns the JSON for the command's stdin."""

    def __init__(
        self,
        app: "Application",
        status: Status,
        vi_mode: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._status = status
        self._vi_mode = vi_mode
        self._clock = clock
        self._began_s = clock()
        self._asked_s = self._began_s
        self._api_s = 0.0
        self._last = Usage()
        self._lines = (0, 0)
        self._lines_are_old = True

    def __call__(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case TurnStart():
                self._asked_s = self._clock()
            case MessageEnd(message=AssistantMessage(usage=used)):
                self._api_s += self._clock() - self._asked_s
                self._last = used
            case Compacted():
                self._last = Usage()
            case ToolExecutionEnd():
                self._lines_are_old = True
            case _:
                pass

    async def collect(self) -> dict[str, Json]:
        """Return all facts; files are read in a thread."""
        await self._count_lines()
        app, state = self._app, self._app.agent.state
        here = str(app.workspace)
        model = self._status.model_id
        data: dict[str, Json] = {
            "hook_event_name": "Status",
            "session_id": app.sessions.id or "",
            "transcript_path": str(app.sessions.path or ""),
            "cwd": here,
            "model": {"id": model, "display_name": model},
            "workspace": {"current_dir": here, "project_dir": here},
            "version": __version__,
            "output_style": {"name": app.output_styles.current},
            "permission_mode": app.permissions.mode,
            "cost": self._cost(),
            "context_window": self._context_window(),
            "exceeds_200k_tokens": self._last.prompt_tokens > _LARGE_TOKENS,
        }
        if state.thinking_level:
            data["effort"] = {"level": state.thinking_level}
        if mode := self._vi_mode():
            data["vim"] = {"mode": mode.upper()}
        return data

    def _cost(self) -> dict[str, Json]:
        cost = self._status.cost_microdollars
        added, removed = self._lines
        return {
            "total_cost_usd": in_usd(cost or 0),
            "total_duration_ms": round((self._clock() - self._began_s) * 1000),
            "total_api_duration_ms": round(self._api_s * 1000),
            "total_lines_added": added,
            "total_lines_removed": removed,
        }

    def _context_window(self) -> dict[str, Json]:
        total, last = self._app.agent.conversation.usage, self._last
        model = self._app.agent.state.model
        size = model.context_window if model else 0
        used = round(last.prompt_tokens / size * 100) if size and last.prompt_tokens else None
        return {
            "total_input_tokens": total.prompt_tokens,
            "total_output_tokens": total.output_tokens,
            "context_window_size": size,
            "current_usage": _usage(last) if last.prompt_tokens else None,
            "used_percentage": used,
            "remaining_percentage": None if used is None else max(0, 100 - used),
        }

    async def _count_lines(self) -> None:
        """Count the changed lines of all files, once no run changes them."""
        if not self._lines_are_old or self._app.agent.state.is_streaming:
            return
        self._lines_are_old = False
        with suppress(AgentCliError, OSError):  # /diff reports the error
            changed = await in_background(self._app.file_changes.differences)
            self._lines = sum(each.added for each in changed), sum(e.removed for e in changed)


def _usage(used: Usage) -> dict[str, Json]:
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cache_creation_input_tokens": used.cache_write_tokens,
        "cache_read_input_tokens": used.cache_read_tokens,
    }
