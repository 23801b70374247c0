"""What is typed while nobody reads: kept for the next prompt, and not echoed into an answer."""

import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3


@contextmanager
def typeahead_kept(terminal: TextIO) -> Iterator[None]:
    """Keep keys as they are typed; Ctrl-C and Ctrl-Z still signal. Restores the terminal after.

    Enter must stay a carriage return: as a newline the next prompt would take it for Ctrl-J.
    """
    fd = terminal.fileno()
    before = termios.tcgetattr(fd)
    quiet = termios.tcgetattr(fd)
    quiet[_INPUT_FLAGS] &= ~termios.ICRNL
    quiet[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        # The terminal may be gone by now (a closed window); then nothing is left to restore.
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)
