"""The terminal as prompt_toolkit, our own rows and standard error share it.

All uses of private names of prompt_toolkit are in this module and pinned by a test:
`Renderer._cursor_pos`, `_last_screen`, `_last_style`, `_last_size` and `_min_available_height`,
`Application._redraw`, `_on_resize` and `_running_in_terminal`, and `Buffer._working_lines`.
"""

import asyncio
import base64
import io
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from select import select
from typing import Final, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_cli.system.event_loop import tell
from agent_cli.system.sanitize import clean
from agent_cli.terminal.writer import READER_GONE

# A dragged window reports dozens of sizes; painting between two of them leaves artefacts.
_RESIZE_SETTLES_S: Final = 0.08


class FrameOutput(Vt100_Output):
    """Buffers writes inside `frame()`. `gone` is True once the terminal is gone."""

    gone = False
    on_gone: Callable[[], None] | None = None
    _inside_frame = False

    @property
    def responds_to_cpr(self) -> bool:
        """False: a late answer about the cursor's position would be typed into the draft."""
        return False

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not read all output yet: a slow line, a paused window."""
        try:
            return not select([], [self.stdout], [], 0)[1]
        except (OSError, ValueError):  # no file descriptor, or it is closed
            return False

    @contextmanager
    def frame(self) -> Generator[None]:
        """Write the body's output at once when it ends; nested frames are part of the outer one."""
        if self._inside_frame:
            yield
            return
        self._inside_frame = True
        try:
            yield
        finally:
            self._inside_frame = False
            if self._buffer:
                self._buffer = [_BEGIN_FRAME, *self._buffer, _END_FRAME]
                self.flush()

    def written_by(self, draw: Callable[[], None]) -> str:
        """Call *draw* in a frame; return the part of the frame that it wrote."""
        with self.frame():
            begin = len(self._buffer)
            draw()
            return "".join(self._buffer[begin:])

    def erase_down(self) -> None:
        """Erase from the cursor, which is in the first column, to the end of the screen."""
        self.write_raw(_ERASE_DOWN)

    def flush(self) -> None:
        """Write the buffer, unless a frame is open."""
        if self._inside_frame:
            return
        if self.gone:
            self._buffer = []
            return
        try:
            super().flush()
        except OSError as error:
            if error.errno not in READER_GONE:
                raise
            self.gone = True
            if self.on_gone:
                self.on_gone()

    def send(self, sequence: str) -> None:
        """Write a sequence that neither shows text nor moves the cursor."""
        self.write_raw(sequence)
        self.flush()

    def copy(self, text: str) -> None:
        """Copy *text* to the clipboard, if the terminal allows it."""
        coded = base64.b64encode(text.encode(errors="replace")).decode()
        self.send(f"\x1b]52;c;{coded}\a")

    def leave_as_found(self) -> None:
        """Reset every terminal mode that we may have set."""
        self.write_raw(_AS_FOUND)
        self.flush()


class LiveApplication(Application[None]):
    """Draws whole frames, and only while the size is unchanged since the last frame.

    `on_resize` is called once a new size is stable; it must redraw everything.
    """

    output: FrameOutput
    on_resize: Callable[[], None] | None = None
    answers_in_s: Callable[[], float] = float
    """The time in seconds for late answers of the terminal, which no other program may get."""
    _drawn_size: Size | None = None
    _settling = False
    _drawing = ""  # draws the whole region as it is on the screen; "" if it may have changed

    def _redraw(self, render_as_done: bool = False) -> None:
        if not render_as_done and self.size_is_new():
            self._on_resize()
            return
        self.outdate()
        size = self.output.get_size()  # a size that comes while this draws is a new one
        with self.output.frame():
            super()._redraw(render_as_done)
            if self.is_running and not self._running_in_terminal:
                self._drawn_size = size

    def _on_resize(self) -> None:
        if self._settling or self.loop is None:
            return
        self._settling = True
        self.loop.call_later(_RESIZE_SETTLES_S, self._settled, self.output.get_size())

    def _settled(self, size: Size) -> None:
        self._settling = False
        if not self.is_running or self._running_in_terminal:
            return
        if self.output.get_size() != size:
            self._on_resize()
        elif self.on_resize and self.size_is_new():
            self.on_resize()

    def size_is_new(self) -> bool:
        """Return whether the terminal's size differs from the last drawn one."""
        return self._drawn_size is not None and self._drawn_size != self.output.get_size()

    @property
    def can_draw(self) -> bool:
        """Whether rows may be written now: the prompt is shown, and not another program."""
        return (
            self.is_running
            and self._drawn_size is not None
            and not self._running_in_terminal
            and not self.size_is_new()
        )

    @property
    def is_lent(self) -> bool:
        """Whether another program has the terminal."""
        return self._running_in_terminal

    @property
    def vi_mode(self) -> str:
        """The current vi mode, or "" with emacs bindings."""
        if self.editing_mode is not EditingMode.VI:
            return ""
        mode = self.vi_state.input_mode
        return "normal" if mode is InputMode.NAVIGATION else mode.name.lower().replace("_", " ")

    def insert(self) -> None:
        """Take the next keys as text, whatever vi's mode was."""
        self.current_buffer.exit_selection()
        self.vi_state.reset()

    # There is no public way to learn where the renderer drew, nor to redraw without switching
    # terminal modes; tests/test_private_names.py pins the private names used.
    @property
    def cursor_position(self) -> Point:
        """The cursor's position in the region, relative to its top left."""
        return self.renderer._cursor_pos

    @property
    def height(self) -> int:
        """The number of rows of the region."""
        screen = self.renderer._last_screen
        return screen.height if screen else 0

    def row_widths(self) -> list[int]:
        """Return the width of each row of the region in cells."""
        screen = self.renderer._last_screen
        return [_width(screen, y) for y in range(screen.height)] if screen else []

    def forget(self) -> None:
        """Make the cursor's position the top of the region; the next frame draws it whole.

        Not `renderer.reset()`, which switches bracketed paste off and on each time.
        """
        self.outdate()
        renderer = self.renderer
        renderer._cursor_pos = Point(0, 0)
        renderer._last_screen = None
        renderer._last_style = None
        renderer._last_size = None
        renderer._min_available_height = 0
        self._drawn_size = None

    def outdate(self) -> None:
        """Note that the region may have to show something else than it does."""
        self._drawing = ""

    def draw(self) -> None:
        """Draw the whole region at the cursor.

        Unless it may have changed, its output is repeated: examining the layout takes 40 times as
        long, which was a fifth of the work for a long answer.
        """
        if self._drawing and not self.invalidated:
            self.output.write_raw(self._drawing)
            return
        self.forget()
        self._drawing = self.output.written_by(self._redraw)


def lines_left(buffer: Buffer) -> list[str]:
    """Return unsent texts left behind by moving in the history, the draft and edited lines."""
    stored = set(buffer.history.get_strings())
    lines = enumerate(buffer._working_lines)
    return [line for at, line in lines if at != buffer.working_index and line not in stored]


def kept_line(buffer: Buffer) -> Callable[[], None]:
    """Return a function that goes back to the present line and cursor of *buffer*.

    The line is counted from the last one: the history may be loaded before it meanwhile.
    """
    at, cursor = buffer.working_index - len(buffer._working_lines), buffer.cursor_position

    def go_back() -> None:
        buffer.working_index = len(buffer._working_lines) + at
        buffer.cursor_position = cursor

    return go_back


def wraps_again() -> bool:
    """Return whether the terminal rewraps old rows when its width changes; plain xterm does not."""
    return "XTERM_VERSION" not in os.environ


def _width(screen: Screen, y: int) -> int:
    row = screen.data_buffer[y]
    return max((x + 1 for x, char in row.items() if char.char != " "), default=0)


# Synchronised output: supporting terminals show no partial frame, others ignore it.
_BEGIN_FRAME: Final = "\x1b[?2026h"
_END_FRAME: Final = "\x1b[?2026l"
# In two steps, because tmux moves the whole screen into the scrollback when it is erased from its
# first cell. In the last row the cursor cannot go down, so the row is erased twice.
_ERASE_DOWN: Final = "\x1b7\x1b[K\x1b[B\x1b[J\x1b8"
# No bracketed paste, cursor shown, line wrap on, no open frame, no colour.
_AS_FOUND: Final = "\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[?2026l\x1b[m"


class LinesAbove(io.TextIOBase):
    """A stream that passes whole lines to *show* in the event loop, from any thread."""

    def __init__(self, terminal: TextIO, show: Callable[[str], None]) -> None:
        """Keep nothing yet; *terminal* is the stream this replaces."""
        self._terminal = terminal
        self._show = show
        self._loop = asyncio.get_running_loop()
        self.unfinished = ""

    def write(self, text: str) -> int:
        """Add *text* and show the lines it completes."""
        *lines, self.unfinished = (self.unfinished + text).split("\n")
        if lines:
            whole = "\n".join(lines)
            tell(self._loop, lambda: self._show(whole))
        return len(text)

    def isatty(self) -> bool:
        """True: the output ends up on the terminal."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor, for child processes that write to it directly."""
        return self._terminal.fileno()


@contextmanager
def lines_above(show: Callable[[str], None]) -> Generator[None]:
    """Show the lines of stderr with *show* if stderr is the terminal, instead of on the screen."""
    terminal = sys.stderr
    if not terminal.isatty():
        yield
        return
    above = LinesAbove(terminal, show)
    sys.stderr = above
    try:
        yield
    finally:
        sys.stderr = terminal
        if above.unfinished:
            terminal.write(f"{above.unfinished}\n")


def copy_to_file(text: str) -> None:
    """Also write a warning to stderr if that is not the terminal, as with `2>err.txt`."""
    if not sys.stderr.isatty():
        with suppress(OSError):  # a full disk must not end the session
            sys.stderr.write(f"{clean(text)}\n")
            sys.stderr.flush()
