"""Show `you> ` before the rest of the program is imported.

The terminal's own line editing echoes keys typed meanwhile. The screen then paints over both and
gets the keys; if no screen follows, the prompt is removed again.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agent_cli.terminal.abilities import is_dumb

PROMPT: Final = "you> "
_LINE_BYTES_MAX: Final = 65_536


class FirstPrompt:
    """The row of the prompt until an editor takes over; a single instance per terminal."""

    is_shown = False

    def show(self) -> None:
        """Print the prompt in a terminal, once; a screen takes it over."""
        if not self.is_shown and _is_quiet_terminal():
            self.is_shown = True
            _print(PROMPT)

    def hand_over(self) -> bool:
        """Return whether the prompt is on the screen, and leave it to the caller from now on."""
        was_shown, self.is_shown = self.is_shown, False
        return was_shown

    def take_away(self) -> Sequence[str]:
        """Remove the prompt and the unfinished line; return the finished lines.

        Those lines are prompts only: if they stayed in the terminal, one that begins with `y` could
        confirm the trust question, and the shell could run one after an error. Their rows stay.
        """
        if not self.hand_over():
            return ()
        import termios  # keeps the start-up short

        lines: list[str] = []
        with suppress(termios.error, OSError):  # the terminal is gone
            # The terminal delivers whole lines, and an empty read at Ctrl-D.
            while _is_typed() and (line := os.read(0, _LINE_BYTES_MAX)):
                lines.append(line.decode(errors="replace").rstrip("\n"))
            termios.tcflush(0, termios.TCIFLUSH)
            _print("\r\x1b[J")
        return lines


FIRST_PROMPT: Final = FirstPrompt()


def _is_quiet_terminal() -> bool:
    """Return whether there is a terminal and nothing was typed yet, which would be echoed above."""
    if not (os.isatty(0) and os.isatty(1)) or is_dumb(os.environ):
        return False
    return not _is_typed()


def _is_typed() -> bool:
    from select import select  # `--version` does not need it

    return bool(select([0], [], [], 0)[0])


def _print(text: str) -> None:
    os.write(1, text.encode())
