"""The row below the status line: the output of the user's status command."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import (
    AgentEnd,
    Compacted,
    Event,
    MessageEnd,
    ToolExecutionEnd,
    TurnStart,
    UsageChanged,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.money import in_usd
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.repl.live.cells import cut
from agent_cli.system.background import in_background
from agent_cli.terminal.sanitize import clean_but_colors
from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.repl.live.screen import LiveScreen
    from agent_cli.repl.ports import Application

_APART_S: Final = 0.3


class StatusRow:
    """Runs the command in the background, one run at a time, and keeps its last line."""

    def __init__(self, app: "Application", screen: "LiveScreen") -> None:
        self._command = app.status_command
        self._screen = screen
        self._data = StatusData(app, lambda: screen.app.vi_mode, time.monotonic)
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
        self, app: "Application", vi_mode: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._app = app
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
        model = state.model.id if state.model else ""
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
        cost = self._app.agent.conversation.usage.cost_microdollars
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
