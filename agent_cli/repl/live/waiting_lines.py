"""Lines of work that goes on while a question opens: they do not stand above its answers."""

from collections.abc import Callable

from agent_cli.repl.live.display import Display
from agent_cli.terminal.writer import Style


class WaitingLines:
    """Lines for a display, which wait while a question is open that opened after the work began.

    Lines of a command that was typed at the question, such as `/output`, do not wait.
    """

    def __init__(self, display: Display, question: Callable[[], object]) -> None:
        """Write to *display*; *question* returns the open question, or None."""
        self._display = display
        self._question = question
        self.begin()

    def begin(self) -> None:
        """Begin other work."""
        self._begun_at = self._question()

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines of this program."""
        self._display.aside(text, style, wait=self._waits)

    def notice(self, text: str, style: Style = "plain") -> None:
        """Write a notice."""
        self._display.notice(text, style, wait=self._waits)

    def markdown(self, text: str) -> None:
        """Write the Markdown *text*."""
        self._display.markdown(text, wait=self._waits)

    def foreign(self, text: str, style: Style = "plain") -> None:
        """Write lines of another program that runs."""
        self._display.foreign(text, style)

    @property
    def _waits(self) -> bool:
        return self._question() is not self._begun_at
