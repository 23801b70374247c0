"""A program in a real terminal, seen through a terminal emulator."""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pexpect
import pyte

SCRIPTED = Path(__file__).with_name("scripted.py")
LIMIT_S = 30.0


class Terminal:
    """Runs *command* (default: the scripted REPL) in a pty of 100x40; `with` it, so that it ends.

    Nothing here waits for a time: `until` waits for something to be seen.
    """

    def __init__(self, *command: str, **environment: str) -> None:
        program, *arguments = command or (sys.executable, str(SCRIPTED), "repl")
        self._screen = pyte.HistoryScreen(100, 40, history=5_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.bytes = b""
        self.child: Any = pexpect.spawn(  # it ships no types
            program,
            arguments,
            dimensions=(40, 100),
            env={**os.environ, **environment},
            timeout=LIMIT_S,
        )
        self.child.delaybeforesend = None

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.child.close(force=True)

    @property
    def text(self) -> str:
        """All rows, those that scrolled away included, without trailing blanks."""
        top = ["".join(row[x].data for x in range(100)) for row in self._screen.history.top]
        return "\n".join(row.rstrip() for row in [*top, *self._screen.display]).rstrip("\n")

    @property
    def transcript(self) -> str:
        """All rows above the prompt: what stays when the session goes on."""
        rows = self.text.split("\n")
        prompt = max(at for at, row in enumerate(rows) if row.startswith("you>"))
        return "\n".join(rows[:prompt])

    @property
    def last_row(self) -> str:
        """The row the cursor is on, without what the emulator pads."""
        return str(self._screen.display[self._screen.cursor.y]).rstrip()

    def send(self, keys: str) -> None:
        """Type *keys*; Enter is a carriage return."""
        self.child.send(keys)

    def until(self, seen: "str | Callable[[], bool]") -> None:
        """Read until *seen* is somewhere in `text`, or returns True."""
        condition = partial(self._shows, seen) if isinstance(seen, str) else seen
        deadline_s = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"never seen: {seen!r}; the screen:\n{self.text}")
            self._read(0.05)

    def until_prompt(self) -> None:
        """Read until an empty prompt waits at the bottom."""
        self.until(lambda: self.last_row == "you>")

    def exit_code(self) -> int:
        """Read until the program ends."""
        deadline_s = time.monotonic() + LIMIT_S
        while self._read(0.05):
            if time.monotonic() > deadline_s:
                raise AssertionError(f"still running; the screen:\n{self.text}")
        self.child.wait()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)

    def close_window(self) -> int:
        """Take the terminal away and return the program's exit code."""
        pty = self.child.ptyproc
        pty.fileobj.close()
        pty.closed = True  # or pexpect would close it once more
        return int(self.child.wait())

    def _shows(self, text: str) -> bool:
        return text in self.text

    def _read(self, timeout_s: float) -> bool:
        try:
            data = self.child.read_nonblocking(65_536, timeout=timeout_s)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.bytes += data
        self._stream.feed(data)
        return True
