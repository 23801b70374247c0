"""Commands that run beside other work, and the lines of work beside which a question opens."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.events import Event, Notice
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands import Context
from agent_cli.repl.commands.registry import run_command
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.runs import reported
from agent_cli.terminal.writer import Style


class Asides:
    """The running commands, in the order they were begun."""

    def __init__(self, display: Display, screen: LiveScreen, ended: Callable[[], None]) -> None:
        """Run no command yet; *ended* is called when one has, which may have changed the model."""
        self._display = display
        self._screen = screen
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

    async def do(self, work: Coroutine[None, None, None], lines: "WaitingLines") -> None:
        """Do *work*, a command or another thing beside a run; write its errors to *lines*."""
        task = asyncio.current_task()
        self._lines[task] = lines
        try:
            await reported(work, lines)
        finally:
            del self._lines[task]
        if not (self._screen.listener.is_busy or self._screen.asks()):
            self._display.leave_space()  # the prompt stands below

    async def run(self, text: str, context: Context) -> None:
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
        self._echo = echo
        self.begin()

    def begin(self) -> None:
        """Begin other work."""
        self._begun_at = self._question()

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
