"""prompt_toolkit's Application, made to share the terminal with rows that are not its own.

Everything that leans on names prompt_toolkit does not promise stands in this module and is pinned
by a test: `Renderer._cursor_pos`, `_last_screen`, `_last_style`, `_last_size` and
`_min_available_height`, `Application._redraw`, `_on_resize` and `_running_in_terminal`, and
`Buffer._working_lines`.
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

# A window that is dragged reports dozens of sizes; painting between two of them leaves ghosts.
_RESIZE_SETTLES_S: Final = 0.08


class LiveApplication(Application[None]):
    """Draws in whole frames, and never at a size other than the one it last drew at.

    `on_resize` is called once a new size has settled; it has to draw everything again.
    """

    output: FrameOutput
    on_resize: Callable[[], None] | None = None
    _drawn_size: Size | None = None
    _settling = False

    def _redraw(self, render_as_done: bool = False) -> None:
        if not render_as_done and self.size_is_new():
            self._on_resize()
            return
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
        """Return whether the terminal's size is not the one everything was drawn at."""
        return self._drawn_size is not None and self._drawn_size != self.output.get_size()

    @property
    def can_draw(self) -> bool:
        """Whether rows may be written now: the prompt is there, and no other program's screen."""
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
        """The mode vi's keys are in, or "" without them."""
        if self.editing_mode is not EditingMode.VI:
            return ""
        mode = self.vi_state.input_mode
        return "normal" if mode is InputMode.NAVIGATION else mode.name.lower().replace("_", " ")

    # The renderer says nowhere in public where it drew, nor can it be told to draw anew without
    # switching modes of the terminal; tests/test_private_names.py pins what is used of it.
    @property
    def cursor_place(self) -> Point:
        """Where the cursor stands in the region, counted from its top left."""
        return self.renderer._cursor_pos

    @property
    def height(self) -> int:
        """Rows the region takes."""
        screen = self.renderer._last_screen
        return screen.height if screen else 0

    def row_widths(self) -> list[int]:
        """Return the cells each row of the region takes."""
        screen = self.renderer._last_screen
        return [_width(screen, y) for y in range(screen.height)] if screen else []

    def forget(self) -> None:
        """Take the cursor's place for the top of the region and draw all of it next time.

        Not `renderer.reset()`: that switches paste marks off and on each time.
        """
        renderer = self.renderer
        renderer._cursor_pos = Point(0, 0)
        renderer._last_screen = None
        renderer._last_style = None
        renderer._last_size = None
        renderer._min_available_height = 0
        self._drawn_size = None

    def draw(self) -> None:
        """Draw the region at the cursor."""
        self._redraw()


def lines_left(buffer: Buffer) -> list[str]:
    """Return what was typed before a line of the history was fetched, or into another such line."""
    stored = set(buffer.history.get_strings())
    lines = enumerate(buffer._working_lines)
    return [line for at, line in lines if at != buffer.working_index and line not in stored]


def wraps_again() -> bool:
    """Return whether the terminal wraps old rows anew when its width changes; plain xterm not."""
    return "XTERM_VERSION" not in os.environ


def _width(screen: Screen, y: int) -> int:
    row = screen.data_buffer[y]
    return max((x + 1 for x, char in row.items() if char.char != " "), default=0)
