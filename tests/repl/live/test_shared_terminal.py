"""The terminal shared with prompt_toolkit and standard error: frames, resizing, lines above."""

import inspect
import io
import sys
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from agent_cli.repl.live.shared_terminal import FrameOutput, LiveApplication
from tests.repl.terminal import SCRIPTED, NewTerminal, Terminal


def test_private_prompt_toolkit_names_that_we_use_still_exist() -> None:
    """A release that renames one must fail here, not on a user's screen."""
    output = FrameOutput(io.StringIO(), lambda: Size(rows=24, columns=80), term="xterm")
    with create_pipe_input() as keyboard:
        app = LiveApplication(input=keyboard, output=output)

    names = ("_cursor_pos", "_last_screen", "_last_style", "_last_size", "_min_available_height")
    assert set(names) <= vars(app.renderer).keys()
    assert app.renderer._cursor_pos == Point(0, 0)
    assert app._running_in_terminal is False
    assert list(inspect.signature(Application._redraw).parameters) == ["self", "render_as_done"]
    assert list(inspect.signature(Application._on_resize).parameters) == ["self"]
    assert "self._last_screen.height" in inspect.getsource(Renderer.render)


def test_frame_is_written_at_once_and_terminal_modes_are_restored_on_leaving() -> None:
    """One write inside the marks of a synchronised update, without a cursor query."""
    written = io.StringIO()
    output = FrameOutput(written, lambda: Size(rows=24, columns=80), term="xterm")

    with output.frame():
        output.write_raw("a")
        output.flush()
        with output.frame():
            output.write_raw("b")
        during = written.getvalue()
    output.leave_as_found()

    assert (during, output.responds_to_cpr) == ("", False)
    assert written.getvalue() == (
        "\x1b[?2026hab\x1b[?2026l\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[?2026l\x1b[m"
    )
    assert hasattr(Vt100_Output, "responds_to_cpr")


def test_stderr_line_is_shown_above_the_prompt_without_leftover_rows() -> None:
    """Rows like `⠼ thinking 2 s` and `you> error: ...` used to stay for good."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("warns the disk is slow\r")
        terminal.until("\nwarning: the disk is slow\n")
        terminal.until("waiting for the model")
        Path("warned").touch()
        terminal.until("Warned.")
        terminal.until_prompt()

        rows = terminal.transcript.split("\n")
        assert [row for row in rows if "Ctrl-C stops" in row] == []
        assert [row for row in rows if "slow" in row] == [
            "you> warns the disk is slow",
            "warning: the disk is slow",
        ]


def test_warnings_also_go_to_stderr_redirected_to_a_file() -> None:
    """`2>err.txt` used to stay empty; the user at the screen still sees them."""
    command = f"{sys.executable} {SCRIPTED} repl 2>err.txt"
    with NewTerminal("sh", "-c", command) as terminal:
        terminal.until_loaded()
        terminal.send("/thikning\r")
        terminal.until("unknown command /thikning")
        terminal.until_prompt()
        terminal.send("fail\r")
        terminal.until("the API is overloaded")
        terminal.until_prompt()

        told = Path("err.txt").read_text().splitlines()

    assert len(told) == 2
    assert "/thikning" in told[0]
    assert "the API is overloaded" in told[1]


def test_partial_answer_stays_on_the_screen_when_ctrl_d_ends_the_session() -> None:
    """Ctrl-D during a run used to drop the partial answer and the rows of running tools."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("forever\r")
        terminal.until("working on it")
        terminal.send("\x04\x04")  # a job would end with it

        assert terminal.exit_code() == 0
        rows = terminal.text.split("\n")
        left = rows[rows.index("you> forever") :]
        assert left[:4] == ["you> forever", "", "working on it", ""]
        assert "interrupted" in left
