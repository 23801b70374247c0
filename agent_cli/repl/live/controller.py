"""The controller of a session on a real terminal: runs typed lines, queues them, stops runs.

Imported after the first prompt is shown.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, AgentCliError
from agent_cli.contracts.events import AgentEnd, AgentStart, Event, MessageStart, Notice
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.run import RunResult
from agent_cli.repl import Look
from agent_cli.repl.commands.registry import leaves_the_session
from agent_cli.repl.dialogue import DialogParts, TurnTaking
from agent_cli.repl.dispatch import LineDispatcher
from agent_cli.repl.live.activity import ActivityLine
from agent_cli.repl.live.asides import Asides
from agent_cli.repl.live.input.completion import offer_completions
from agent_cli.repl.live.input.editing import edit_text
from agent_cli.repl.live.input.pictures import Pictures
from agent_cli.repl.live.opening import ScreenControls, open_bell, open_dialogs, open_display
from agent_cli.repl.live.outbox import Outbox, UnsentRecord
from agent_cli.repl.live.queue_edit import Queued, move_line, release_line
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.status import Status, StatusRow
from agent_cli.repl.mcp.offers import named_in
from agent_cli.repl.ports import Application
from agent_cli.repl.runs import HiddenPrompts, LeftWaiting, Runs, report, reported

_LEAVING: Final = ("exit", "quit")


class LiveShell:
    """One conversation on a screen. An error in one line never prevents the next one.

    Lines run one after the other, and are shown when their turn comes. During a run a line that no
    other waits before goes to the agent: as steering or, on request, as a follow-up. No typed line
    is lost: lines a run did not take are sent when it ends, or return to the input if it was
    stopped.
    """

    def __init__(self, app: Application, screen: LiveScreen, look: Look) -> None:
        self._app = app
        self._screen = screen
        self._lines: deque[Queued] = deque()
        self._arrived = asyncio.Event()
        self._command: CancelToken | None = None
        self._tasks = asyncio.TaskGroup()
        self._agent_runs = self._is_working = self._is_stuck = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._status = Status(app.agent, app.context_tokens, app.sessions.agents, screen.refresh)
        screen.status = self._status_text
        offer_completions(screen.menu, app)
        self._activity = ActivityLine(time.monotonic, screen.asks)
        self.display, results = open_display(app, screen, look, self._activity)
        screen.on_return = self.display.repeat_question
        self._asides = Asides(self.display, screen, self._tasks, self._status.refresh)
        self._lines_of_work = self._asides.lines()
        turn = asyncio.Lock()
        self._controls = ScreenControls(screen, self.display, results, turn, self.is_command)
        self._dispatcher = LineDispatcher(
            app,
            lines=self._lines_of_work,
            questions=TurnTaking(screen.asking, turn, self.display.show_now),
            leave=screen.leave,
            controls=self._controls,
        )
        attachments, give_back = self._dispatcher.attachments, self._controls.give_back
        self._pictures = Pictures(screen, attachments)
        self._hidden = HiddenPrompts(app.agent)
        self._outbox = Outbox(app.agent, attachments, lambda text: give_back([text]))
        self._unsent = UnsentRecord(app.agent, screen.draft.marks.recalled)
        screen.asking.has_unsent = lambda: bool(self._outbox)
        self._dialogs = DialogParts(
            questions=screen.asking,
            lines=self.display,
            turn=turn,
            before_asking=self.display.show_now,
            editor=partial(edit_text, screen.painter),
            screen=self.display.question,
        )
        self._runs = Runs(app, self._dialogs, ends=self._lines_of_work)
        app.agent.subscribe(self._track)
        self._bell = open_bell(app, screen, look)
        self._own_row = StatusRow(app, screen, self._status)

    def greet(self) -> None:
        """Show the greeting: tools, servers, logs."""
        self.display.aside("\n".join(self._app.overview()), "dim")
        self._controls.show_earlier(self._app.agent.conversation)
        open_dialogs(self._app, self._screen, self.display, self._bell, self._dialogs, self._runs)

    async def run(self) -> None:
        """Show events and run typed lines, until cancelled."""
        without_display, self._screen.warn = self._screen.warn, self._warn
        try:
            async with self._tasks as tasks:
                for part in (self.display, self._pictures, self._own_row):
                    tasks.create_task(part.run())
                tasks.create_task(self._work())
        finally:
            self._screen.warn = without_display
            self.display.show_now()

    def _warn(self, text: str) -> None:
        """Show a warning of another part, such as the log, apart from the rows around it."""
        self.display.notice(text, "warning")
        if not (self.is_busy or self._screen.asks()):
            self.display.leave_space()  # the prompt stands below

    async def stop(self) -> None:
        """Stop the current run or command; return when it has ended and is shown.

        Queued messages stay in the record, for the next time the session is opened; earlier ones
        that were put into the input, and that the user did not send, do not.
        """
        self._unsent.close(self.queued)
        self._lines.clear()
        self.interrupt()
        await self.wait_for_idle()
        self.display.leave_space()  # a question has left none
        self.display.show_now()

    async def wait_for_idle(self) -> None:
        """Return when neither a run nor a command is active."""
        await self._idle.wait()

    @property
    def is_busy(self) -> bool:
        """Whether a run or a command is active."""
        return not self._idle.is_set()

    @property
    def aside(self) -> CancelToken | None:
        """Stops the last command begun beside other work; None if there is none."""
        return self._asides.last

    @property
    def queued(self) -> Sequence[Queued]:
        """The queued messages in order."""
        return [*self._outbox.messages, *self._lines]

    def queue(self, lines: Iterable[Queued]) -> None:
        """Queue *lines*, to run one after the other once idle."""
        for line in lines:
            line.when = "when done"
            self._lines.append(line)
        if self._lines:
            self._idle.clear()
            self._arrived.set()

    def submit(self, text: str, *, follow_up: bool) -> bool:
        """Accept a typed line; False leaves it in the input."""
        try:
            self._take(text, follow_up=follow_up)
        except Exception as error:
            report(error, self.display)
            return False
        return True

    def _take(self, text: str, *, follow_up: bool) -> None:
        if is_prompt := self._dispatcher.is_prompt(text):
            text = self._dispatcher.attachments.marked(text)
        was_busy = self.is_busy
        is_beside = was_busy or self._screen.asks()  # an agent in the background may ask
        if text in _LEAVING:
            self._say(text)
            self._screen.leave()
        elif is_beside and not is_prompt and not text.startswith("!"):
            if not self._asides.begin_command(text, self._dispatcher.context):
                self.queue([Queued(text)])
        elif is_prompt and text and self._goes_to_run(text):
            self._outbox.put(text, follow_up=follow_up)
            self._asides.begin(self._outbox.hand_over())
        elif text:  # a shell command waits for its turn: an editor would interrupt typing
            self.queue([Queued(text)])
        self._unsent.keep(self.queued if was_busy else ())
        self._screen.refresh()

    def is_command(self, text: str) -> bool:
        """Return whether *text* is a command or a shell escape."""
        return not self._dispatcher.is_prompt(text.strip())

    def _goes_to_run(self, text: str) -> bool:
        """Return whether the prompt *text* goes to a run, which goes on or waits for an answer.

        Behind a waiting line it waits, too: that may be `/clear`, or a command it is about.
        """
        is_run = self._agent_runs or (self._is_working and self._app.agent.conversation.waiting)
        return is_run and not self._lines and not named_in(text, self._app.servers)

    def interrupt(self) -> None:
        """Stop the run or the command; queued messages return to the input."""
        self.display.hurry()
        self._activity.stop()
        self._app.agent.abort()
        self._asides.cancel()
        if self._command:
            self._command.cancel()

    def hold(self, message: Queued) -> bool:
        """Keep *message* where it stands, undelivered; False if it is too late."""
        if message in self._lines:
            message.is_held = True
            return True
        return self._outbox.hold(message)

    def release(self, message: Queued, text: str) -> bool:
        """Put a held *message* back with another *text*; drop it if that is empty.

        Returns:
            False if *text*, now a command, failed: it stays in the input.
        """
        is_prompt = self._dispatcher.is_prompt(text)
        if message in self._lines:
            release_line(self._lines, message, text)
        elif text and (not is_prompt or named_in(text, self._app.servers)):
            self._outbox.release(message, "")
            return self.submit(text, follow_up=True)
        elif self._outbox.release(message, self._dispatcher.attachments.marked(text)):
            self._asides.begin(self._outbox.hand_over())
        self._unsent.keep(self.queued)
        self._arrived.set()
        return True

    def move(self, message: Queued, by: int) -> None:
        """Move a held *message* *by* places among the messages that are sent together with it."""
        if message in self._lines:
            move_line(self._lines, message, by)
        else:
            self._outbox.move(message, by)
        self._unsent.keep(self.queued)

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it."""
        self.display.pause(paused=paused)

    def _say(self, text: str) -> None:
        self.display.user_message(self._screen.echo(text))
        self.display.flush()

    async def _work(self) -> None:
        while True:
            self._arrived.clear()
            while self._has_work():
                self._is_working = True
                self._idle.clear()
                try:
                    await reported(self._do_next(), self._lines_of_work)
                except LeftWaiting:
                    self._idle.set()
                    return
                self.display.flush()
            self._is_working = False
            if not self._agent_runs:  # meanwhile a reminder may have begun a run
                self._idle.set()
                self.display.leave_space()
                self._screen.refresh()
            await self._arrived.wait()

    def _has_work(self) -> bool:
        waits = self._app.agent.conversation.waiting or self._outbox.can_deliver
        return not self._agent_runs and bool(self._next_line or (waits and not self._is_stuck))

    @property
    def _next_line(self) -> Queued | None:
        """The first line, unless it is being edited or a message waits before it."""
        lines = [*self._lines] if self._is_stuck or not self._outbox else []
        return lines[0] if lines and not lines[0].is_held else None

    async def _do_next(self) -> None:
        self._lines_of_work.begin()
        # Until it succeeds: a fault must not be repeated for ever.
        self._is_stuck = self._next_line is None
        if self._is_stuck:
            await self._deliver()
            self._is_stuck = False
        else:
            await self._carry_out(self._lines.popleft().text)

    async def _deliver(self) -> None:
        """Go on with the run: with a waiting call, or with undelivered messages."""
        if not self._app.agent.conversation.waiting:
            await self._outbox.hand_over()
            if not self._app.agent.has_queued_messages():  # held meanwhile
                return
        self._settle(await self._runs.go_on())

    async def _carry_out(self, line: str) -> None:
        """Run a command or a prompt, and the runs that it asks for."""
        if not (is_prompt := self._dispatcher.is_prompt(line)):
            # It is not offered again; lines behind one that leaves the session are for the next.
            self._unsent.keep(() if leaves_the_session(line, self._app) else self.queued)
        if is_prompt or line.startswith("!") or not self._screen.asks():
            self._say(line)
        else:  # it does not wait for the answer
            self._lines_of_work.begin(self._screen.echo(line))
        self._command = CancelToken()
        self._screen.refresh()
        self.display.wake()
        try:
            doing = "preparing the message" if is_prompt else line
            with self._activity.command(doing, unless=self._screen.asks):
                messages = await self._dispatcher.dispatch(line, self._command)
        except AgentCliError as error:
            if isinstance(error, Aborted):
                self._give_back()
            if is_prompt:
                self._controls.give_back([line])
            raise
        finally:
            self._lines_of_work.show_echo()
            self._command = None
            self._unsent.keep(self.queued)
            self._status.refresh()
            self._own_row.want()
        for message, model in messages:
            self._settle(await self._runs.prompt(message, model=model))

    def _settle(self, result: RunResult | None) -> None:
        """Return messages queued for a stopped or failed run to the input."""
        if result is None or result.stop_reason in ("aborted", "error"):
            self._give_back()

    def _give_back(self) -> None:
        self._screen.queue.finish()
        if texts := [*self._outbox.take_all(), *(line.text for line in self._lines)]:
            self._lines.clear()
            self._controls.give_back(texts)
            self._unsent.keep(())

    def _status_text(self) -> str:
        queued = len(self._outbox) + len(self._lines)
        vi_mode = self._screen.app.vi_mode
        urgent = [
            self.display.held,
            *self._asides.badges(vi_mode),
            f"{queued} queued" if queued else "",
            vi_mode,
        ]
        columns = self._screen.columns - 1
        return self._status.text(self._app.badges(), urgent=urgent, columns=columns)

    def _track(self, event: Event) -> None:
        """Track the state of runs, which a reminder may begin as well."""
        match event:
            case AgentStart():
                self._agent_runs = True
                self._idle.clear()
            case AgentEnd():
                self._agent_runs = self._is_stuck = False
                if not self._is_working:
                    self._arrived.set()
            case MessageStart(message=UserMessage() as message) if self._outbox.delivered(message):
                self._hidden.reveal()
                self._unsent.keep(self.queued)
                self.display.user_message(self._screen.echo(message.text))
                self._screen.refresh()
            case Notice():  # perhaps of the command, which stands above it
                self._lines_of_work.show_echo()
            case _:
                pass
        self._asides(event)
        self._status(event)
        self._activity(event)
        if self._status.is_changed_by(event):
            self._screen.refresh()
        if not self._hidden.hides(event):
            self.display(event)
