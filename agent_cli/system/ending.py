"""End the process without waiting for threads and tasks that a run left behind."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_held: Final[list[object]] = []


def hold(left_behind: Iterable[object]) -> None:
    """Keep references to running threads and tasks, for which Python would wait or warn."""
    _held.extend(left_behind)


def end(code: int) -> int:
    """Return the exit code; if something is held, end the process at once with that code.

    The caller must have flushed its output.
    """
    if _held:
        with suppress(OSError, ValueError):  # a pipe without a reader
            sys.stderr.flush()
        os._exit(code)
    return code
