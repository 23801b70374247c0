"""The terminal output of prompt_toolkit, with each whole frame in one write."""

import base64
from collections.abc import Callable, Generator
from contextlib import contextmanager
from select import select
from typing import Final

from prompt_toolkit.output.vt100 import Vt100_Output

from agent_cli.terminal.writer import READER_GONE

# Synchronised output: supporting terminals show no partial frame, others ignore it.
_BEGIN_FRAME: Final = "\x1b[?2026h"
_END_FRAME: Final = "\x1b[?2026l"
# In two steps, because tmux moves the whole screen into the scrollback when it is erased from its
# first cell. In the last row the cursor cannot go down, so the row is erased twice.
_ERASE_DOWN: Final = "\x1b7\x1b[K\x1b[B\x1b[J\x1b8"
# No bracketed paste, cursor shown, line wrap on, no open frame, no colour.
_AS_FOUND: Final = "\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[?2026l\x1b[m"


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
