"""Write the log of one command, also where the disk is full.

Imports little: see `system/launcher`.
"""

import contextlib
import errno
import json
import os
import time

from agent_cli.undo.records import INCOMPLETE, ChangeRecord, State

_THE_REST = "what the command changed after that"


class ChangeLog:
    """The open log of one command."""

    def __init__(self, log: int) -> None:
        """Write to the open file *log*."""
        self._log = log
        self._why_given_up = ""

    def write_line(self, line: bytes) -> None:
        """Add a line to the log.

        Raises:
            OSError: The disk is full.
        """
        if (written := os.write(self._log, line)) < len(line):
            with contextlib.suppress(OSError):
                os.write(self._log, b"\n")  # the reader skips the part before it
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({written} bytes)")

    def note_fault(self, why: str, about: str = "a file") -> None:
        """Record that a change was not recorded, also where the log can take no line."""
        self._mark_incomplete()
        with contextlib.suppress(OSError):
            self._write("lost", about, why, None)

    def give_up(self, why: str) -> None:
        """Record nothing more: a log with a hole is worse than one that ends."""
        if not self._why_given_up:
            self._why_given_up = why

    def close(self, end: dict[str, object] | None = None) -> None:
        """Close the log, with a last line."""
        if self._why_given_up:
            self.note_fault(self._why_given_up, _THE_REST)
        with contextlib.suppress(OSError):  # a full disk
            if end:
                self.write_line(json.dumps(end, separators=(",", ":")).encode() + b"\n")
        os.close(self._log)

    def _mark_incomplete(self) -> None:
        with contextlib.suppress(OSError):
            os.fchmod(self._log, INCOMPLETE)

    def _write(
        self,
        kind: str,
        path: str,
        to: str,
        state: State | None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        if self._why_given_up and kind != "lost":
            return  # the call has gone on by now: what was kept may be too new
        self.write_line(ChangeRecord(kind, time.time_ns(), path, to, state, attributes).line())
