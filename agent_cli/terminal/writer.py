"""The only module that writes to stdout and stderr for a front end.

Answers go to stdout as they arrive. All other output is in whole lines: "asides" (tools, output of
commands) appear among the answers on a terminal and go to stderr otherwise, notices always go to
stderr. So a pipe on stdout gets answers only. All text is cleaned here, and only here.
"""

import errno
import os
import sys
from contextlib import suppress
from typing import Final, Literal, Protocol, TextIO, TypeAlias

from agent_cli.system.sanitize import Filter, clean, reveal

Style: TypeAlias = Literal["plain", "dim", "title", "label", "warning", "error", "added", "removed"]

SGR: Final[dict[Style, str]] = {
    "plain": "",
    "dim": "\x1b[2m",
    "title": "\x1b[1m",
    "label": "\x1b[1m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
}
# A pipe without a reader; a terminal whose window was closed.
READER_GONE: Final = (errno.EPIPE, errno.EIO)
STDOUT_CLOSED_EXIT_CODE: Final = 141
"""The exit code that a shell reports for SIGPIPE, which ends other programs in this case."""
_SGR_OFF: Final = "\x1b[0m"


class Lines(Protocol):
    """A sink for whole lines: a `Writer`, or a screen."""

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines that accompany an answer."""
        ...

    def notice(self, text: str, style: Style = "plain") -> None:
        """Write lines that the user should notice."""
        ...


class Pages(Lines, Protocol):
    """A sink for Markdown too."""

    def markdown(self, text: str) -> None:
        """Write the Markdown *text*, rendered if possible."""
        ...


class OutputLines(Pages, Protocol):
    """A sink for the output of other programs too."""

    def foreign(self, text: str, style: Style = "plain") -> None:
        """Write accompanying lines unchanged: only the terminal wraps them."""
        ...


class Writer:
    """Tracks whether the cursor is at the start of a line, so that no line begins inside another.

    `stdout_closed` becomes True when the reader of stdout is gone; later output is discarded.
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
        """Write the next piece of thinking at once, to the stream of the asides."""
        self._flow(self._beside, delta, "dim")

    def end_answer(self) -> None:
        """End the answer or the thinking: later output begins on a new line."""
        self._filter.reset()
        if self._inside_line:
            self._write(self._flow_kind[0], "\n")
            self._inside_line = False

    def aside(self, text: str, style: Style = "plain") -> None:
        """Write lines that are not part of an answer."""
        self._lines(self._beside, text, style)

    foreign = aside

    def markdown(self, text: str) -> None:
        """Write the Markdown source, since the reader may be a program."""
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
    """Flush *stream*; if its reader is gone or its window was closed, drop the rest."""
    try:
        stream.flush()
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Redirect a stream whose reader is gone to /dev/null, so that later flushes do not fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def print_complaint(text: str) -> None:
    """Print *text* to stderr; on a terminal its lines wrap between words.

    It may hold the name of a file, or words of a server, with control sequences for the terminal.
    """
    print_fitted(f"agent-cli: {text}", sys.stderr)


def print_fitted(text: str, stream: TextIO) -> None:
    """Print *text*, which may hold control sequences; on a terminal its lines wrap between words.

    What is wrapped is indented like the beginning of its line.
    """
    stream.write(f"{_fitted(reveal(text), stream)}\n")


def _fitted(text: str, stream: TextIO) -> str:
    if not stream.isatty():
        return text  # a file gets unbroken lines, for tools that search it
    import textwrap  # a start that succeeds complains of nothing

    columns = 0
    with suppress(OSError):
        columns = os.get_terminal_size(stream.fileno()).columns
    lines = textwrap.TextWrapper(columns or 80, break_long_words=False, break_on_hyphens=False)
    rows: list[str] = []
    for line in text.split("\n"):
        lines.subsequent_indent = line[: len(line) - len(line.lstrip())]
        rows.append(lines.fill(line))
    return "\n".join(rows)
