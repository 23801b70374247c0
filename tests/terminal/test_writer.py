"""The writer: answers on stdout, everything else on separate lines."""

import io
import os
import pty
import termios

from agent_cli.terminal.writer import Writer, print_fitted


class Stream(io.StringIO):
    """A text stream that may claim to be a terminal, and copies its text to `together`."""

    def __init__(self, together: list[str], *, terminal: bool) -> None:
        super().__init__()
        self._together = together
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self._together.append(text)
        return super().write(text)


def streams(*, out: bool, err: bool) -> tuple[Stream, Stream, list[str]]:
    together: list[str] = []
    return Stream(together, terminal=out), Stream(together, terminal=err), together


def test_piped_stdout_gets_only_the_answer() -> None:
    """S1-05: asides and notices go to stderr, and do not even add a newline to the answer."""
    out, err, _ = streams(out=False, err=False)
    writer = Writer(out, err, color=True)

    writer.answer("half an ")
    writer.aside("* Read a.py", "dim")
    writer.notice("careful", "warning")
    writer.answer("answer")
    writer.end_answer()

    assert (out.getvalue(), err.getvalue()) == ("half an answer\n", "* Read a.py\ncareful\n")


def test_notice_on_a_terminal_starts_on_a_new_line() -> None:
    """Both streams share one cursor."""
    out, err, together = streams(out=True, err=True)
    writer = Writer(out, err, color=False)

    writer.answer("half")
    writer.notice("careful")
    writer.answer("rest\n")
    writer.aside("* Read a.py")
    writer.answer("end")
    writer.end_answer()
    writer.end_answer()

    assert "".join(together) == "half\ncareful\nrest\n* Read a.py\nend\n"


def test_colours_are_written_only_to_a_terminal_with_colours_on() -> None:
    """The same line, coloured on the terminal, plain in a file and with colours off."""
    shown: list[str] = []
    for terminal, color in [(True, True), (False, True), (True, False)]:
        out, err, _ = streams(out=False, err=terminal)
        Writer(out, err, color=color).notice("careful", "warning")
        shown.append(err.getvalue())

    assert shown == ["\x1b[33mcareful\x1b[0m\n", "careful\n", "careful\n"]


def test_thinking_never_shares_a_line_or_a_pipe_with_the_answer() -> None:
    """S4-21: dim above the answer on a terminal, on stderr if stdout is a pipe."""
    out, err, together = streams(out=True, err=True)
    writer = Writer(out, err, color=True)
    writer.thought("hm")
    writer.answer("Yes.")
    piped_out, piped_err, _ = streams(out=False, err=False)
    piped = Writer(piped_out, piped_err, color=True)
    piped.thought("hm")
    piped.answer("Yes.")

    assert "".join(together) == "\x1b[2mhm\x1b[0m\nYes."
    assert (piped_out.getvalue(), piped_err.getvalue()) == ("Yes.", "hm\n")


def test_answer_cannot_control_the_terminal() -> None:
    """Sanitized at the output, even if the sequence is split between two deltas."""
    out, err, _ = streams(out=True, err=True)
    writer = Writer(out, err, color=True)

    writer.answer("a\x1b]0;pw")
    writer.answer("ned\x07b")
    writer.notice("x\x1b[2Jy")

    assert (out.getvalue(), err.getvalue()) == ("ab\n", "xy\n")


def test_closed_stdout_is_noticed_without_an_error() -> None:
    """As with `| head`: no traceback, neither now nor at the flush on exit."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as out:
        writer = Writer(out, io.StringIO(), color=False)

        writer.answer("nobody reads this")
        writer.answer("nor this")

        assert writer.stdout_closed


def test_lines_on_a_terminal_wrap_between_words_under_their_beginning() -> None:
    """What a file would do is read before it is trusted; a pipe gets its lines unbroken."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (10, 30))
    piped = io.StringIO()
    effect = "    starts python3 -m some_server (MCP server docs)"

    with os.fdopen(theirs, "w") as terminal:
        print_fitted(f"file:\n{effect}", terminal)
        terminal.flush()
        shown = os.read(ours, 1_000).decode()
    os.close(ours)
    print_fitted(effect, piped)

    assert shown.splitlines() == [
        "file:",
        "    starts python3 -m",
        "    some_server (MCP server",
        "    docs)",
    ]
    assert piped.getvalue() == f"{effect}\n"
