"""The end of a server's standard error, kept short and off the screen."""

import asyncio
import contextlib
import os
import re
import unicodedata
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

_BYTES_KEPT = 4096
_CHARS_QUOTED = 300
_LINES_QUOTED = 3
_BYTES_A_READ = 65536
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class StderrTail:
    """A pipe that keeps the last 4 KB; `writer` is the end for the child process.

    Real servers write banners to standard error, so text here is not a sign of failure.
    """

    def __init__(self) -> None:
        self._kept = b""

    def __enter__(self) -> "StderrTail":
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        # A TextIO, because the SDK requires one; only its descriptor is used.
        self.writer: TextIO = os.fdopen(writing, "w")
        asyncio.get_running_loop().add_reader(self._reading, self._read)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._reading)
        self.writer.close()
        os.close(self._reading)

    def last_lines(self) -> tuple[str, ...]:
        """Return the last non-empty lines, printable, at most 4 KB."""
        while self._read():
            pass
        kept = _COLOUR.sub("", self._kept.decode(errors="replace"))
        lines = (printable(line).strip() for line in kept.splitlines())
        return tuple(line for line in lines if line)

    def _read(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._reading, _BYTES_A_READ)
            self._kept = (self._kept + data)[-_BYTES_KEPT:]
            return bool(data)
        return False


def last_words(lines: Sequence[str]) -> str:
    """Return the end of *lines* as one short line, "" if there are none."""
    return " / ".join(lines[-_LINES_QUOTED:])[-_CHARS_QUOTED:]


def printable(text: str, *, keep: str = "") -> str:
    """Return *text* without characters that control a terminal or are invisible.

    These are the Unicode categories "other" (controls, escape codes, text direction, tags,
    surrogates), except the characters in *keep*.
    """
    return "".join(c for c in text if c in keep or unicodedata.category(c)[0] != "C")
