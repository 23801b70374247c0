"""The private parts of prompt_toolkit that we use."""

import inspect
import io

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from agent_cli.repl.live.toolkit_app import FrameOutput, LiveApplication


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
