"""Keys read from a real terminal device."""

import array
import fcntl
import os
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.repl.live.input import keyboard as module
from agent_cli.repl.live.input.ground import GroundAnswer
from agent_cli.repl.live.input.keyboard import Keyboard
from tests.fakes import LIMIT_S

# A terminal holds back more than this until some of it was read.
_READABLE_BYTES_MAX = 4_000
LINES = "".join(f"line {number} of it\r" for number in range(250))


@contextmanager
def typed(text: str, ahead: str = "a") -> Generator[Keyboard]:
    """Yield a keyboard on which *text* was typed after it read *ahead*, if any."""
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        with os.fdopen(slave, encoding="utf-8") as stdin:
            keyboard = Keyboard(stdin, GroundAnswer())
            for part in filter(None, (ahead, text)):
                os.write(master, part.encode())
                _wait_for(slave, min(len(part.encode()), _READABLE_BYTES_MAX))
                if part is ahead:
                    keyboard.read_keys()
            yield keyboard
    finally:
        os.close(master)


def _wait_for(terminal: int, count: int) -> None:
    """Wait until *count* bytes can be read: a kernel thread delivers them."""
    deadline, readable = time.monotonic() + LIMIT_S, array.array("i", [0])
    while readable[0] < count:
        assert time.monotonic() < deadline
        fcntl.ioctl(terminal, termios.FIONREAD, readable)


def read(text: str) -> list[KeyPress]:
    with typed(text) as keyboard:
        return keyboard.read_keys()


def test_many_lines_at_once_are_one_paste_even_over_several_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For terminals without paste marks: otherwise each line would be sent, and cost a request."""
    monkeypatch.setattr(module, "_QUIET_S", 0.5)  # for the rest, on a busy machine
    assert len(LINES) > 3 * 1024
    assert read(LINES) == [KeyPress(Keys.BracketedPaste, LINES)]


def test_two_lines_typed_ahead_stay_keys() -> None:
    """They were typed while the program was busy; Enter sends each."""
    keys = read("one\rtwo\r")

    assert [key.data for key in keys] == [*"one\rtwo\r"]
    assert [key.key for key in keys].count(Keys.ControlM) == 2


@pytest.mark.parametrize("text", ["one\rtwo\rthree", "one\rtwo\rthree\r"])
def test_three_lines_at_once_are_a_paste(text: str) -> None:
    """Each of them used to be sent, and cost a request."""
    assert read(text) == [KeyPress(Keys.BracketedPaste, text)]


def test_lines_typed_before_the_prompt_are_not_a_paste() -> None:
    """The program started slowly; all lines typed meanwhile used to become one message."""
    text = "one\rtwo\rthree\rfour"
    with typed(text, ahead="") as keyboard:
        assert [key.data for key in keyboard.read_keys()] == [*text]


def test_keys_other_than_text_end_a_paste() -> None:
    """An arrow, or Ctrl-C, keeps its meaning."""
    with typed("a\r" * 512 + "x\x03y") as keyboard:
        assert [(key.key, key.data) for key in keyboard.read_keys()] == [
            (Keys.BracketedPaste, "a\r" * 512),
            ("x", "x"),
            (Keys.ControlC, "\x03"),
            ("y", "y"),
        ]
