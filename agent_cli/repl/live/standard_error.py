"""Standard error with a live screen: lines above the prompt, or copies in the user's file."""

import asyncio
import io
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TextIO

from agent_cli.system.event_loop import tell
from agent_cli.terminal.sanitize import clean


class LinesAbove(io.TextIOBase):
    """A stream that passes whole lines to *show* in the event loop, from any thread."""

    def __init__(self, terminal: TextIO, show: Callable[[str], None]) -> None:
        """Keep nothing yet; *terminal* is the stream this replaces."""
        self._terminal = terminal
        self._show = show
        self._loop = asyncio.get_running_loop()
        self.unfinished = ""

    def write(self, text: str) -> int:
        """Add *text* and show the lines it completes."""
        *lines, self.unfinished = (self.unfinished + text).split("\n")
        if lines:
            whole = "\n".join(lines)
            tell(self._loop, lambda: self._show(whole))
        return len(text)

    def isatty(self) -> bool:
        """True: the output ends up on the terminal."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor, for child processes that write to it directly."""
        return self._terminal.fileno()


@contextmanager
def lines_above(show: Callable[[str], None]) -> Generator[None]:
    """Show the lines of stderr with *show* if stderr is the terminal, instead of on the screen."""
    terminal = sys.stderr
    if not terminal.isatty():
        yield
        return
    above = LinesAbove(terminal, show)
    sys.stderr = above
    try:
        yield
    finally:
        sys.stderr = terminal
        if above.unfinished:
            terminal.write(f"{above.unfinished}\n")


def copy_to_file(text: str) -> None:
    """Also write a warning to stderr if that is not the terminal, as with `2>err.txt`."""
    if not sys.stderr.isatty():
        with suppress(OSError):  # a full disk must not end the session
            sys.stderr.write(f"{clean(text)}\n")
            sys.stderr.flush()
