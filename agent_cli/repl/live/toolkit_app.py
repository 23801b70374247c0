"""prompt_toolkit's Application, extended to share the terminal with rows painted by us.

All uses of private names of prompt_toolkit are in this module and pinned by a test:
`Renderer._cursor_pos`, `_last_screen`, `_last_style`, `_last_size` and `_min_available_height`,
`Application._redraw`, `_on_resize` and `_running_in_terminal`, and `Buffer._working_lines`.
"""

import os
from collections.abc import Callable
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout.screen import Screen

from agent_cli.repl.live.output import FrameOutput

# A dragged window reports dozens of sizes; painting between two of them leaves artefacts.
_RESIZE_SETTLES_S: Final = 0.08


class LiveApplication(Application[None]):
    """Draws whole frames, and only while the size is unchanged since the last frame.

    `on_resize` is called once a new size is stable; it must redraw everything.
    """

    output: FrameOutput
    on_resize: Callable[[], None] | None = None
    answers_in_s: Callable[[], float] = float
    """How long the terminal may still answer, in seconds: no other program may get that."""
    _drawn_size: Size | None = None
    _settling = False
    _drawing = ""  # draws the whole region as it is on the screen; "" if it may have changed

    def _redraw(self, render_as_done: bool = False) -> None:
        if not render_as_done and self.size_is_new():
            self._on_resize()
            return
        self.outdate()
        with self.output.frame():
            super()._redraw(render_as_done)
            if self.is_running and not self._running_in_terminal:
                self._drawn_size = self.output.get_size()

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


def wraps_again() -> bool:
    """Return whether the terminal rewraps old rows when its width changes; plain xterm does not."""
    return "XTERM_VERSION" not in os.environ


def _width(screen: Screen, y: int) -> int:
    row = screen.data_buffer[y]
    return max((x + 1 for x, char in row.items() if char.char != " "), default=0)
