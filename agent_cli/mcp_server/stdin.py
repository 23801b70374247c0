"""Repair what a client writes on standard input before the SDK reads it.

The SDK drops a message with a lone surrogate without an answer, for which the client waits.
"""

import os
import threading
from contextlib import suppress
from typing import Final

from agent_cli.system.descriptors import write_all
from agent_cli.system.surrogates import SurrogateMender

_STDIN: Final = 0
_BYTES_A_READ: Final = 65_536


def repair_stdin() -> None:
    """Put a pipe in place of standard input, through which its text passes repaired."""
    given = os.dup(_STDIN)
    reading, writing = os.pipe()
    os.dup2(reading, _STDIN)
    os.close(reading)
    threading.Thread(target=_pump, args=(given, writing), name="stdin", daemon=True).start()


def _pump(given: int, writing: int) -> None:
    mender = SurrogateMender()
    with os.fdopen(writing, "wb", buffering=0) as pipe, suppress(OSError):
        while data := os.read(given, _BYTES_A_READ):
            write_all(pipe.fileno(), mender.feed(data))
        write_all(pipe.fileno(), mender.flush())
