"""The one place that writes to stdout and stderr for a front end.

Answers go to stdout as they come. Everything else is a whole line of its own: "asides" (tools,
commands' output) belong beside the answer on a terminal and on stderr otherwise, notices are
always on stderr. So a pipe on stdout holds answers only. All text is cleaned here, and only here.
"""

import errno
import os
from typing import Final, Literal, Protocol, TextIO, TypeAlias

from agent_cli.terminal.sanitize import Filter, clean

Style: TypeAlias = Literal["plain", "dim", "warning", "error", "added", "removed"]

SGR: Final[dict[Style, str]] = {
    "plain": "",
    "dim": "\x1b[2m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
}
# A pipe nobody reads any more; a terminal whose window was closed.
READER_GONE: Final = (errno.EPIPE, errno.EIO)
STDOUT_CLOSED_EXIT_CODE: Final = 141
"""What a shell makes of the signal that ends other programs when nobody reads their output."""
_SGR_OFF: Final = "\x1b[0m"


class Lines(Protocol):
    """Where whole lines can be written; a `Writer`, or a screen."""

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines that belong beside an answer."""
        ...

    def notice(self, text: str, style: Style = "plain") -> None:
        """Write lines that somebody should notice."""
        ...


class Pages(Lines, Protocol):
    """Where a longer text can be written too."""

    def markdown(self, text: str) -> None:
        """Write *text*, which is Markdown, drawn where that is possible."""
        ...


class OutputLines(Lines, Protocol):
    """Where the output of another program can be written too."""

    def foreign(self, text: str, style: Style = "plain") -> None:
        """Write lines that belong beside an answer as they are: only the terminal breaks them."""
        ...


class Writer:
    """Knows whether the cursor stands at the start of a line; a line never begins inside another.

    `stdout_closed` turns True when whoever read stdout went away; writing goes on into nothing.
    """

    def __init__(self, out: TextIO, err: TextIO, *, color: bool) -> None:
        self._out = out
        self._err = err
        self._beside = out if out.isatty() else err
        self._shared = out.isatty() and err.isatty()
        self._color = color
        self._filter = Filter()
        self._flow_kind: tuple[TextIO, Style] = (out, "plain")
        self._inside_line = False
        self.stdout_closed = False

    def answer(self, delta: str) -> None:
        """Write the next piece of an answer at once."""
        self._flow(self._out, delta, "plain")

    def thought(self, delta: str) -> None:
        """Write the next piece of thinking at once, where asides go."""
        self._flow(self._beside, delta, "dim")

    def end_answer(self) -> None:
        """End the answer or the thinking: what comes next begins on a new line."""
        self._filter.reset()
        if self._inside_line:
            self._write(self._flow_kind[0], "\n")
            self._inside_line = False

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines that are not part of an answer."""
        self._lines(self._beside, text, style)

    foreign = aside

    def markdown(self, text: str) -> None:
        """Write the source: what reads it need not be a person at a terminal."""
        self.aside(text)

    def notice(self, text: str, style: Style = "plain") -> None:
        """Write lines to stderr."""
        self._lines(self._err, text, style)

    def _flow(self, stream: TextIO, delta: str, style: Style) -> None:
        if (stream, style) != self._flow_kind:
            self.end_answer()
            self._flow_kind = stream, style
        if text := self._filter.feed(delta):
            self._write(stream, self._painted(stream, text, style))
            self._inside_line = not text.endswith("\n")

    def _lines(self, stream: TextIO, text: str, style: Style) -> None:
        if self._inside_line and (self._shared or stream is self._flow_kind[0]):
            self.end_answer()
        self._write(stream, self._painted(stream, clean(text), style) + "\n")

    def _painted(self, stream: TextIO, text: str, style: Style) -> str:
        sgr = SGR[style] if self._color and stream.isatty() else ""
        return f"{sgr}{text}{_SGR_OFF}" if sgr else text

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            if error.errno not in READER_GONE:
                raise
            silence(stream)
            self.stdout_closed = self.stdout_closed or stream is self._out


def flush_or_silence(stream: TextIO) -> None:
    """Write what is left, or drop it when nobody reads any more: a window that was closed."""
    try:
        stream.flush()
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Point a stream whose reader is gone at nothing, so that no later flush complains."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
