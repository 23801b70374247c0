"""What becomes of what is typed while a session runs on a real terminal.

Loaded beside the first prompt, not before it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Final

from prompt_toolkit.completion import ThreadedCompleter

from agent_cli.cancel import CancelToken
from agent_cli.errors import AgentCliError, UsageError
from agent_cli.events import AgentEnd, AgentStart, Event, MessageStart, UsageChanged
from agent_cli.messages import UserMessage
from agent_cli.repl.application import Application
from agent_cli.repl.command import Context
from agent_cli.repl.commands import find_command, run_command
from agent_cli.repl.live.backlog import Backlog
from agent_cli.repl.live.bell import Bell
from agent_cli.repl.live.completion import Completions, workspace_files
from agent_cli.repl.live.controls import ScreenControls
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.outbox import Outbox
from agent_cli.repl.live.own_commands import as_context, run_own
from agent_cli.repl.live.results import Results
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.sequence import Sequence as Order
from agent_cli.repl.live.status import Status
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.live.view import View
from agent_cli.repl.look import Look, ThemeName
from agent_cli.repl.markdown import THEMES
from agent_cli.repl.recall import recalled
from agent_cli.repl.runs import Runs, told
from agent_cli.run_result import RunResult

_LEAVING: Final = ("exit", "quit")


class LiveShell:
    """One conversation on a screen. Whatever goes wrong in a line, the next one can be typed.

    Lines are done one after the other. During a run a line is for the agent: steering, or, asked
    for, a follow-up. Nothing that was typed is dropped: what a run did not take is sent when it
    ends, or comes back into the input when it was stopped.
    """

    def __init__(self, app: Application, screen: LiveScreen, look: Look) -> None:
        self._app = app
        self._screen = screen
        self._lines: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._outbox = Outbox(app.agent)
        self._command: CancelToken | None = None
        self._agent_runs = False
        self._is_working = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._offered: list[str] = []
        results = Results(screen.paint)
        self._status = Status(app.agent)
        screen.status = self._status_text
        screen.buffer.completer = ThreadedCompleter(Completions(cache(workspace_files)))
        tools = ToolRows(
            lambda: app.tools,
            paint=screen.paint,
            clock=time.monotonic,
            details=results.rows,
        )
        theme: ThemeName = look.theme if screen.paint.color else "none"
        view = View(
            tools,
            paint=screen.paint,
            theme=THEMES[theme],
            streaming=look.streaming,
            clock=time.monotonic,
        )
        self.display = Display(
            view,
            screen.painter,
            Backlog(chars_per_second=look.chars_per_second, clock=time.monotonic),
            Order(look.streaming, show_thinking=look.show_thinking),
            paint=screen.paint,
        )
        self._controls = ScreenControls(screen, self.display, view, results, theme=theme)
        self._runs = Runs(app, questions=screen, lines=self.display, before_asking=self._wake)
        app.agent.subscribe(self._track)
        if look.bell:
            app.agent.subscribe(Bell(screen.ring, time.monotonic))

    def greet(self) -> None:
        """Show what is there: tools, servers, logs."""
        self.display.aside("\n".join(self._app.overview()), "dim")
        if earlier := recalled(self._app.agent.conversation):
            self.display.aside(earlier, "dim")

    async def run(self) -> None:
        """Show what happens and do what is typed, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.display.run())
            tasks.create_task(self._work())

    async def stop(self) -> None:
        """End what runs and return when it has ended."""
        self._lines.clear()
        self.interrupt()
        await self._idle.wait()

    @property
    def is_busy(self) -> bool:
        """Whether a run or a command goes on."""
        return not self._idle.is_set()

    @property
    def queued(self) -> Sequence[str]:
        """What waits to be delivered, one line each."""
        return [*self._outbox.rows(), *(f"  next: {line}" for line in self._lines)]

    def submit(self, text: str, *, follow_up: bool) -> bool:
        """Take what was typed; False leaves it in the input."""
        if text in _LEAVING:
            self._say(text)
            self._screen.leave()
        elif text.startswith(("/", "!")) and self.is_busy:
            return self._command_meanwhile(text)
        elif text and self._agent_runs:
            self._outbox.put(UserMessage.of(text), follow_up=follow_up)
        elif text:
            self._say(text)
            self._lines.append(text)
            self._idle.clear()
            self._arrived.set()
        self._screen.refresh()
        return True

    def interrupt(self) -> None:
        """Stop the run or the command; what was queued comes back into the input."""
        self.display.hurry()
        self._app.agent.abort()
        if self._command:
            self._command.cancel()

    def take_back(self) -> str | None:
        """Return what was queued last, no longer queued."""
        return self._lines.pop() if self._lines else self._outbox.take_back()

    def pause(self, *, paused: bool) -> None:
        """Hold the display, or let it go on."""
        self.display.pause(paused=paused)

    def _say(self, text: str) -> None:
        self.display.rows(self._screen.echo(text))
        self.display.flush()

    def _command_meanwhile(self, text: str) -> bool:
        """Do at once what does not touch the run; anything else stays in the input."""
        try:
            if text.startswith("!"):
                raise UsageError("a command of yours waits for the end of the run; Esc stops it")
            command, argument = find_command(text)
            if not command.during_a_run:
                raise UsageError(f"/{command.name} waits for the end of the run; Esc stops it")
            command.run(self._context(), argument)
        except AgentCliError as error:
            self.display.notice(str(error), "error")
            return False
        return True

    async def _work(self) -> None:
        while True:
            self._arrived.clear()
            while self._has_work():
                self._is_working = True
                self._idle.clear()
                await told(self._do_next(), self.display)
                self.display.flush()
            self._is_working = False
            self._idle.set()
            self._screen.refresh()
            await self._arrived.wait()

    def _has_work(self) -> bool:
        return bool(self._lines) or (
            not self._agent_runs and (self._app.agent.conversation.waiting or bool(self._outbox))
        )

    async def _do_next(self) -> None:
        if not self._lines:
            self._settle(await self._runs.go_on())
            return
        line = self._lines.popleft()
        if line.startswith(("/", "!")):
            self._command = CancelToken()
            try:
                await self._do_command(line, self._command)
            finally:
                self._command = None
            return
        offered, self._offered = self._offered, []
        self._settle(await self._runs.prompt("\n".join([*offered, line])))

    async def _do_command(self, line: str, cancel: CancelToken) -> None:
        if line.startswith("!"):
            command = line.lstrip("!").strip()
            output = await run_own(command, cancel)
            self.display.aside(output, "dim")
            if not line.startswith("!!"):
                self._offered.append(as_context(command, output))
            return
        async with cancel.scope():
            await run_command(line, self._context())
        self._status.refresh()

    def _settle(self, result: RunResult | None) -> None:
        """Give back what was queued for a run that was stopped or failed."""
        if result is not None and result.stop_reason not in ("aborted", "error"):
            return
        if texts := [*self._outbox.take_all(), *self._lines]:
            self._lines.clear()
            self._screen.put_back("\n\n".join(texts))

    def _context(self) -> Context:
        return Context(self._app, self.display, self._screen, self._screen.leave, self._controls)

    def _status_text(self) -> str:
        return self._status.text(
            " · ".join(self._app.badges()),
            paused=self.display.is_paused,
            waiting_chars=self.display.waiting_chars,
        )

    def _track(self, event: Event) -> None:
        """Follow the runs; a reminder may begin one too."""
        match event:
            case AgentStart():
                self._agent_runs = True
                self._idle.clear()
            case AgentEnd():
                self._agent_runs = False
                if not self._is_working:
                    self._arrived.set()
            case MessageStart(message=UserMessage() as message) if self._outbox.delivered(message):
                self.display.rows(self._screen.echo(message.text))
                self._screen.refresh()
        self._status(event)
        if isinstance(event, AgentEnd | UsageChanged):
            self._screen.refresh()
        self.display(event)

    def _wake(self) -> None:
        """Make sure that a question is seen, whatever waits before it."""
        self.display.hurry()
        self.display.flush()
