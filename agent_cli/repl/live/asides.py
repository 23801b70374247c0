"""Commands that run beside other work, which goes on if one is stopped."""

from collections.abc import Callable, Sequence

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands import Context
from agent_cli.repl.commands.registry import run_command
from agent_cli.terminal.writer import Lines


class Asides:
    """The running commands, in the order they were begun."""

    def __init__(self, lines: Lines, refresh: Callable[[], None]) -> None:
        """Run no command yet; *refresh* is called when one begins or has ended."""
        self._lines = lines
        self._refresh = refresh
        self._running: dict[CancelToken, str] = {}

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

    async def run(self, text: str, context: Context) -> None:
        """Run the command *text* to its end."""
        token = CancelToken()
        self._running[token] = name = one_line(text.split(maxsplit=1)[0])
        self._refresh()
        try:
            async with token.scope():
                await run_command(text, context)
        except Aborted:
            if not token.cancelled:
                raise
            self._lines.notice(f"{name} stopped", "warning")
        finally:
            del self._running[token]
            self._refresh()
