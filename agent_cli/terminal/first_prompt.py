"""Show `you> ` before the rest of the program is imported.

The terminal's own line editing echoes keys typed meanwhile. The screen then paints over both and
gets the keys; if no screen follows, the prompt is removed again. A paste comes with its marks, or
each of its lines would be sent as a prompt of its own.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from agent_cli.terminal.abilities import is_dumb

PROMPT: Final = "you> "
MARKS_PASTES: Final = "\x1b[?2004h"
_LINE_BYTES_MAX: Final = 65_536
_SILENCE_S: Final = 0.35
_PASTE_GAP_S: Final = 0.05  # nobody types a second line so soon
_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3
_PASTE: Final = "\x1b[200~{}\x1b[201~"
_MARKS_NONE: Final = "\x1b[?2004l"


class FirstPrompt:
    """The row of the prompt until an editor takes over; a single instance per terminal.

    A question asked before that keeps what was meant for the prompt: `_keys` were pressed before
    it, and `_lines` typed or pasted at it, but no answer.
    """

    is_shown = False
    _keys = ""
    _lines = ""

    def show(self) -> None:
        """Print the prompt in a terminal, once; a screen takes it over."""
        if not self.is_shown and _is_quiet_terminal():
            self.is_shown = True
            _print(MARKS_PASTES + PROMPT)

    def hand_over(self) -> bool:
        """Return whether the prompt is on the screen, and leave it to the caller from now on."""
        was_shown, self.is_shown = self.is_shown, False
        return was_shown

    def take_away(self) -> Sequence[str]:
        """Remove the prompt and the unfinished line; return the finished lines.

        Those lines are prompts only: if they stayed in the terminal, one that begins with `y` could
        confirm the trust question, and the shell could run one after an error. Their rows stay.
        """
        if not self.hand_over():
            return ()
        import termios  # keeps the start-up short

        lines: list[str] = []
        with suppress(termios.error, OSError):  # the terminal is gone
            # The terminal delivers whole lines, and an empty read at Ctrl-D.
            while _is_typed() and (line := os.read(0, _LINE_BYTES_MAX)):
                lines.append(line.decode(errors="replace"))
            if _is_open("".join(lines)):
                # No Enter ended the paste: with the backslash one is waited for.
                lines.append(_keys_pressed().replace("\r", "\n") + "\\")
            termios.tcflush(0, termios.TCIFLUSH)
            _print(f"\r\x1b[J{_MARKS_NONE}")
        return [*_prompts_in(lines)]

    def set_aside(self) -> None:
        """Remove the prompt for a question, and keep the keys that were pressed.

        Waits until the keyboard is silent: the rest of a word, or a pasted line, is no answer.
        """
        was_shown = self.hand_over()
        self._keys += _keys_pressed()
        if was_shown:
            _print(f"\r\x1b[J{_MARKS_NONE}")

    def keep(self, line: str) -> None:
        """Keep *line*, which answered no question, and what stands behind it, as one paste."""
        self._lines += line + _keys_pressed().replace("\r", "\n")

    @property
    def is_more_typed(self) -> bool:
        """Whether another line was pasted behind the one that was read."""
        return os.isatty(0) and _is_typed(_PASTE_GAP_S)

    def rest_of_paste(self) -> str:
        """Return what was pasted behind the line that was read, perhaps with an unfinished line."""
        return _keys_pressed().replace("\r", "\n") if self.is_more_typed else ""

    def kept_keys(self) -> str:
        """Return the kept input as keys: a paste is not sent by itself."""
        return self._keys + (_PASTE.format(self._lines.rstrip("\n")) if self._lines else "")

    def kept_lines(self) -> Sequence[str]:
        """Return the finished lines of what was kept."""
        return [*_unmarked(self._keys).split("\r")[:-1], *self._lines.splitlines()]


FIRST_PROMPT: Final = FirstPrompt()


def _prompts_in(lines: Iterable[str]) -> Iterator[str]:
    """Yield each of *lines* without its end; those of a paste together, without its marks."""
    held = ""
    for line in lines:
        held += line
        if not _is_open(held):
            yield _unmarked(held).rstrip("\r\n")
            held = ""
    if held:
        yield _unmarked(held).rstrip("\r\n")


def _is_open(text: str) -> bool:
    """Return whether *text* ends within a paste."""
    begin, end = _PASTE.split("{}")
    return text.rfind(begin) > text.rfind(end)


def _is_quiet_terminal() -> bool:
    """Return whether there is a terminal and nothing was typed yet, which would be echoed above."""
    if not (os.isatty(0) and os.isatty(1)) or is_dumb(os.environ):
        return False
    return not _is_typed()


def _is_typed(within_s: float = 0) -> bool:
    from select import select  # `--version` does not need it

    return bool(select([0], [], [], within_s)[0])


def _keys_pressed() -> str:
    """Return the unread keys, an unfinished line included, once no more come."""
    import termios

    keys = b""
    with suppress(termios.error, OSError), unechoed(0):  # no terminal, or it is gone
        while _is_typed(_SILENCE_S if keys else 0) and (more := os.read(0, _LINE_BYTES_MAX)):
            keys += more
    return keys.decode(errors="replace").replace("\n", "\r")


@contextmanager
def unechoed(terminal: int, *, keeps_returns: bool = False) -> Generator[None]:
    """Echo no key in the body, and deliver each at once; Ctrl-C and Ctrl-Z still send signals.

    Args:
        terminal: Its descriptor.
        keeps_returns: Deliver carriage returns as such; otherwise they are newlines.

    Raises:
        termios.error: It is no terminal, or it is gone.
    """
    import termios

    before, quiet = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    if keeps_returns:
        quiet[_INPUT_FLAGS] &= ~termios.ICRNL
    quiet[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        # The terminal may be gone by now (a closed window); then there is nothing to restore.
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def _unmarked(text: str) -> str:
    """Return *text* without the marks of pastes."""
    for mark in _PASTE.split("{}"):
        text = text.replace(mark, "")
    return text


def _print(text: str) -> None:
    os.write(1, text.encode())
