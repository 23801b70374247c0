"""`you> ` on the screen before the program behind it is imported.

The terminal's own line editing echoes what is typed meanwhile. The screen paints over both, and
gets the keys; where there will be no screen, the prompt goes away again.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agent_cli.terminal.abilities import is_dumb

PROMPT: Final = "you> "
_LINE_BYTES_MAX: Final = 65_536


class FirstPrompt:
    """The row of the prompt until an editor has it; there is one, as there is one terminal."""

    is_shown = False

    def show(self) -> None:
        """Print the prompt in a terminal, for a screen to take over; once."""
        if not self.is_shown and _is_quiet_terminal():
            self.is_shown = True
            _print(PROMPT)

    def hand_over(self) -> bool:
        """Return whether the prompt stands on the screen, which the caller now answers for."""
        was_shown, self.is_shown = self.is_shown, False
        return was_shown

    def take_away(self) -> Sequence[str]:
        """Remove the prompt and what was begun at it; return the lines that were finished.

        They are nobody's answer but a prompt's: otherwise one that begins with `y` would say yes to
        trust, and the shell would run one that an error was faster than. Their rows stay.
        """
        if not self.hand_over():
            return ()
        import termios  # noqa: PLC0415 - the way to the prompt is short

        lines: list[str] = []
        with suppress(termios.error, OSError):  # the terminal is gone
            # The terminal hands out whole lines, and nothing at Ctrl-D.
            while _is_typed() and (line := os.read(0, _LINE_BYTES_MAX)):
                lines.append(line.decode(errors="replace").rstrip("\n"))
            termios.tcflush(0, termios.TCIFLUSH)
            _print("\r\x1b[J")
        return lines


FIRST_PROMPT: Final = FirstPrompt()


def _is_quiet_terminal() -> bool:
    """Whether there is a terminal with nothing typed yet: older lines were echoed elsewhere."""
    if not (os.isatty(0) and os.isatty(1)) or is_dumb(os.environ):
        return False
    return not _is_typed()


def _is_typed() -> bool:
    from select import select  # noqa: PLC0415 - `--version` does without

    return bool(select([0], [], [], 0)[0])


def _print(text: str) -> None:
    os.write(1, text.encode())
