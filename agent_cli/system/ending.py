"""End the process without waiting for threads and tasks that a run left behind."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_held: Final[list[object]] = []


def hold(left_behind: Iterable[object]) -> None:
    """Keep threads and tasks that still run: Python would wait for them, or complain of them."""
    _held.extend(left_behind)


def end(code: int) -> int:
    """Return the exit code; where something is held, end the process with it at once.

    Who printed the answer has flushed it.
    """
    if _held:
        with suppress(OSError, ValueError):  # a pipe that nobody reads any more
            sys.stderr.flush()
        os._exit(code)
    return code
