"""Work beside a run, such as a command, whose lines wait while a question is open."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import NoReturn

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.events import Event, Notice
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands import Context, OutgoingPrompt
from agent_cli.repl.commands.registry import find_command, run_command
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.runs import reported
from agent_cli.terminal.writer import Pages, Style


class Asides:
    """The work beside a run, and the running commands among it, in the order they were begun."""

    def __init__(
        self,
        display: Display,
        screen: LiveScreen,
        tasks: asyncio.TaskGroup,
        ended: Callable[[], None],
    ) -> None:
        """Begin nothing yet.

        Args:
            display: Shows the lines of the work.
            screen: Shows the names of the running commands.
            tasks: Runs the work.
            ended: Called when a command has ended, which may have changed the model.
        """
        self._display = display
        self._screen = screen
        self._tasks = tasks
        self._ended = ended
        self._running: dict[CancelToken, str] = {}
        self._lines: dict[asyncio.Task[object] | None, WaitingLines] = {}

    @property
    def last(self) -> CancelToken | None:
        """Stops the command begun last; None if no command runs."""
        return [*self._running][-1] if self._running else None

    def badges(self, vi_mode: str) -> Sequence[str]:
        """Return words for the status line; in *vi_mode*, if any, Esc is vi's key."""
        hint = "" if vi_mode else ": Esc stops it"
        return [f"{name} runs{hint}" for name in self._running.values()]

    def cancel(self) -> None:
        """Stop all commands."""
        for token in [*self._running]:
            token.cancel()

    def __call__(self, event: Event) -> None:
        """Show a command above a notice that it publishes in its task."""
        if isinstance(event, Notice) and (lines := self._lines.get(asyncio.current_task())):
            lines.show_echo()

    def lines(self, echo: Sequence[str] = ()) -> "WaitingLines":
        """Return lines for work that begins now; *echo* stands above the first."""
        return WaitingLines(self._display, lambda: self._screen.asking.question, echo)

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Do slow *work* concurrently with the run."""
        self._tasks.create_task(self._do(work, self.lines()))

    def begin_command(
        self, text: str, context: Callable[[Callable[[OutgoingPrompt], None], Pages], Context]
    ) -> bool:
        """Run the command *text* at once, if it does not affect the run.

        Args:
            text: The command as it was typed.
            context: Returns the context of a command that sends prompts and writes lines as given.

        Returns:
            False if the command has to wait for the end of the run.

        Raises:
            AgentCliError: The command failed, or there is no such command.
        """

        def send(_prompt: OutgoingPrompt) -> NoReturn:
            raise AssertionError(f"{text} asks the model, and should have waited")

        lines = self.lines(self._screen.echo(text))
        here = replace(context(send, lines), may_wait=False)
        command, argument = find_command(text, here.app)
        sends = command.asks_the_model and argument not in command.without_prompt
        if sends or not command.during_a_run:
            return False
        if command.beside_a_run:
            self._tasks.create_task(self._do(self._run(text, here), lines))
        elif inspect.iscoroutine(pending := command.run(here, argument)):
            pending.close()  # it has not begun
            return False
        return True

    async def _do(self, work: Coroutine[None, None, None], lines: "WaitingLines") -> None:
        """Do *work*, and write its errors to *lines*."""
        task = asyncio.current_task()
        self._lines[task] = lines
        try:
            await reported(work, lines)
        finally:
            del self._lines[task]
        if not (self._screen.listener.is_busy or self._screen.asks()):
            self._display.leave_space()  # the prompt stands below

    async def _run(self, text: str, context: Context) -> None:
        """Run the command *text* to its end."""
        token = CancelToken()
        self._running[token] = name = one_line(text.split(maxsplit=1)[0])
        self._screen.refresh()
        try:
            async with token.scope():
                await run_command(text, context)
        except Aborted:
            if not token.cancelled:
                raise
            self._display.notice(f"{name} stopped", "warning")
        finally:
            del self._running[token]
            self._ended()
            self._screen.refresh()


class WaitingLines:
    """Lines for a display, which wait while a question is open that opened after the work began.

    Lines of a command that was typed at the question, such as `/output`, do not wait.
    """

    def __init__(
        self, display: Display, question: Callable[[], object], echo: Sequence[str] = ()
    ) -> None:
        """Write to *display*.

        Args:
            question: Returns the open question, or None.
            echo: Rows above the first lines: the command, which nothing else shows.
        """
        self._display = display
        self._question = question
        self.begin(echo)

    def begin(self, echo: Sequence[str] = ()) -> None:
        """Begin other work; *echo* stands above its first lines."""
        self._echo, self._begun_at = echo, self._question()

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines of this program."""
        self._echoed().aside(text, style, wait=self._waits)

    def notice(self, text: str, style: Style = "plain") -> None:
        """Write a notice."""
        self._echoed().notice(text, style, wait=self._waits)

    def markdown(self, text: str) -> None:
        """Write the Markdown *text*."""
        self._echoed().markdown(text, wait=self._waits)

    def foreign(self, text: str, style: Style = "plain") -> None:
        """Write lines of another program that runs."""
        self._echoed().foreign(text, style)

    def show_echo(self) -> None:
        """Write the echo, unless it is written already."""
        rows, self._echo = [*self._echo], ()
        if rows and self._question() and not self._waits:
            self._display.drawn([*rows, ""])  # at once; messages wait for the answer
        elif rows:
            self._display.user_message(rows)

    def _echoed(self) -> Display:
        """Return the display, after the echo was written to it once."""
        self.show_echo()
        return self._display

    @property
    def _waits(self) -> bool:
        return self._question() is not self._begun_at
