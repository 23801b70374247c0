"""A program in a real terminal, seen through a terminal emulator."""

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import pyte

from agent_cli.terminal.first_prompt import MARKS_PASTES, PROMPT
from tests.forked import start_in_terminal
from tests.repl.emulator import Emulator, text_of

SCRIPTED = Path(__file__).with_name("scripted.py")
FIRST_PROMPT = f"{MARKS_PASTES}{PROMPT}".encode()
LIMIT_S = 60.0
LEAVING_LIMIT_S = 2.0
ROWS, COLUMNS = 40, 100


def editor(script: str) -> str:
    """Write an editor that runs *script* with the file as its argument; return it for $EDITOR."""
    path = Path("editor").absolute()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return shlex.quote(str(path))


class Terminal:
    """Runs *command* (default: the scripted REPL) in a pty of 100x40; `with` it, so that it ends.

    Nothing here sleeps: `until` waits for a condition on the screen. The command begins with a
    Python script; it runs in a fork, see tests/forked.py.
    """

    fresh = False
    folder: Path | None = None
    """Where the command runs, by default our working directory."""

    def __init__(self, *command: str, **environment: str) -> None:
        self._screen = Emulator(COLUMNS, ROWS, history=5_000)
        self._text: str | None = None  # of the screen as it is
        self._stream = pyte.ByteStream(self._screen)
        self.bytes = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.child = start_in_terminal(
            *(command or (str(SCRIPTED), "repl")),
            terminal=theirs,
            environment={**os.environ, **environment},
            fresh=self.fresh,
            folder=self.folder,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        with self.child, suppress(subprocess.TimeoutExpired):
            self._close()
            self.child.wait(LEAVING_LIMIT_S)

    @property
    def text(self) -> str:
        """Return all rows, scrolled ones included, without trailing blanks."""
        if self._text is None:
            self._text = "\n".join(self._screen.texts()).rstrip("\n")
        return self._text

    @property
    def transcript(self) -> str:
        """Return all rows above the prompt, which stay when the session continues."""
        rows = self.text.split("\n")
        prompt = max(at for at, row in enumerate(rows) if row.startswith("you>"))
        return "\n".join(rows[:prompt])

    @property
    def last_row(self) -> str:
        """Return the row of the cursor, without the emulator's padding."""
        return text_of(self._screen.buffer[self._screen.cursor.y])

    def send(self, keys: str) -> None:
        """Type *keys*; Enter is a carriage return."""
        os.write(self._ours, keys.encode())

    def resize(self, columns: int) -> None:
        """Change the width; like xterm, the emulator cuts rows and wraps none anew."""
        self._screen.resize(ROWS, columns)
        self._text = None
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

    def until(self, seen: "str | Callable[[], bool]") -> None:
        """Read until *seen* is in `text`, or returns True."""
        condition = partial(self._shows, seen) if isinstance(seen, str) else seen
        deadline_s = time.monotonic() + LIMIT_S
        while not condition():
            runs = self._read(0.05)
            if time.monotonic() > deadline_s or not (runs or condition()):
                raise AssertionError(f"never seen: {seen!r}; the screen:\n{self.text}")

    def ends_before(self, condition: Callable[[], bool]) -> bool:
        """Read until *condition* holds, or the program has ended; return whether it has."""
        deadline_s = time.monotonic() + LIMIT_S
        while not condition():
            if not self._read(0.05):
                return True
            if time.monotonic() > deadline_s:
                raise AssertionError(f"neither ended nor seen; the screen:\n{self.text}")
        return False

    def until_silent(self, silence_s: float = 0.5) -> None:
        """Read until nothing but a spinner was written for *silence_s*, with a limit."""
        deadline_s = time.monotonic() + 4 * silence_s
        text, since_s = self.text, time.monotonic()
        while time.monotonic() < min(since_s + silence_s, deadline_s):
            self._read(0.05)
            if self.text != text:
                text, since_s = self.text, time.monotonic()

    def read_for(self, seconds: float) -> None:
        """Read what is written within so much time, or until the program ends."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and self._read(left_s):
            pass

    def until_prompt(self) -> None:
        """Read until an empty prompt is at the bottom, drawn by the program that reads the keys."""
        self.until(lambda: self.last_row == "you>" and self.bytes != FIRST_PROMPT)

    def until_loaded(self) -> None:
        """Read until the program has loaded behind the prompt."""
        self.until("logs: agent.log")
        self.until_prompt()

    def rows_at_the_end(self) -> list[str]:
        """Return the lines of `text`, without the notice of a program that is slow to close."""
        return [row for row in self.text.split("\n") if not row.startswith("closing: ")]

    def exit_code(self) -> int:
        """Read until the program ends."""
        deadline_s = time.monotonic() + LIMIT_S
        while self._read(0.05):
            if time.monotonic() > deadline_s:
                raise AssertionError(f"still running; the screen:\n{self.text}")
        return self.child.wait(LIMIT_S)

    def close_window(self) -> int:
        """Take the terminal away and return the program's exit code."""
        self._close()
        return self.child.wait(LIMIT_S)

    def _close(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1

    def _shows(self, text: str) -> bool:
        return text in self.text

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # no process has the other side open any more
            return False
        self.bytes += data
        try:
            self._stream.feed(data)
        except TypeError as error:  # pyte knows no such sequence, and does not say which
            error.add_note(f"the terminal got: {self.bytes[-len(data) - 1_000 :]!r}")
            raise
        self._text = None
        return bool(data)


class NewTerminal(Terminal):
    """Runs any command, in a process that is not a fork."""

    fresh = True
