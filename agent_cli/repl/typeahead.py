"""What is typed while nobody reads: kept for the prompt, and not echoed into an answer."""

import fcntl
import os
import struct
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3


@contextmanager
def typeahead_kept(terminal: TextIO) -> Generator[str]:
    """Keep keys as they are typed; Ctrl-C and Ctrl-Z still signal. Restores the terminal after.

    Yields what was typed before; the terminal has made newlines of its Enter keys, which are
    carriage returns again. From now on it makes none: a prompt would take them for Ctrl-J.
    """
    fd = terminal.fileno()
    before = termios.tcgetattr(fd)
    quiet = termios.tcgetattr(fd)
    quiet[_INPUT_FLAGS] &= ~termios.ICRNL
    quiet[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        yield _typed(fd).replace("\n", "\r")
    finally:
        # The terminal may be gone by now (a closed window); then nothing is left to restore.
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)


def _typed(fd: int) -> str:
    """Return what waits to be read."""
    (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return os.read(fd, waiting).decode(errors="replace") if waiting else ""
