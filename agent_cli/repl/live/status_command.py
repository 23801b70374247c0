"""The row below the status line: the output of the user's status command."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from agent_cli.contracts.events import AgentEnd, Compacted, Event, MessageEnd, UsageChanged
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.repl.live.cells import cut
from agent_cli.repl.status_data import StatusData
from agent_cli.terminal.sanitize import clean_but_colors

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
        self._wanted = asyncio.Event()
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
        self._wanted.set()

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
                    await self._wanted.wait()
            self._wanted.clear()

    def row(self) -> StyleAndTextTuples:
        """Return the line, cut to the width of the screen; nothing if it is empty."""
        line = clean_but_colors(self._line.expandtabs(4)).rstrip()
        return to_formatted_text(ANSI(cut(line, self._screen.columns - 1))) if line else []
