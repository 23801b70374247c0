"""Keep keys typed while no prompt reads them, without echoing them into an answer."""

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
    """Keep typed keys; Ctrl-C and Ctrl-Z still send signals. Restores the terminal afterwards.

    Yields keys typed before; the terminal has converted their carriage returns to newlines, which
    is undone. From now on it converts none, because a prompt would read them as Ctrl-J.
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
        # The terminal may be gone by now (a closed window); then there is nothing to restore.
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)


def _typed(fd: int) -> str:
    """Return the unread keys."""
    (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return os.read(fd, waiting).decode(errors="replace") if waiting else ""
