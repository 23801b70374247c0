"""From Enter to the end of a run something moves on the screen, in every phase."""

import itertools
from pathlib import Path
from typing import Final

from tests.repl.terminal import Terminal
from tests.waiting import unstalled_s

STILL_S: Final = 1.0
"""The longest time without a sign of life."""
FRAMES: Final = 2
WAIT: Final = "while [ ! -e ran ]; do sleep 0.01; done"


class TimedTerminal(Terminal):
    """Notes when each piece is read, with a clock that costs as much as reading it."""

    def __init__(self) -> None:
        self.read_at_s: list[float] = []
        super().__init__()

    def _read(self, timeout_s: float) -> bool:
        before = len(self.bytes)
        runs = super()._read(timeout_s)
        if len(self.bytes) > before:
            self.read_at_s.append(unstalled_s())
        return runs


def moves(terminal: TimedTerminal, doing: str) -> None:
    """Wait until *doing* is shown as the activity, and then for some frames."""
    terminal.until(f" {doing}")
    reads = len(terminal.read_at_s)
    terminal.until(lambda: len(terminal.read_at_s) >= reads + FRAMES)
    terminal.until("Ctrl-C stops")


def longest_gap_s(terminal: TimedTerminal, since: int, until_s: float) -> float:
    """Return the longest time between two signs of life."""
    times = [*terminal.read_at_s[since:], until_s]
    return max(after - before for before, after in itertools.pairwise(times))


def test_screen_changes_every_second_of_a_run() -> None:
    """Waiting for the model, thinking, writing, retrying, and calling a tool that runs."""
    with TimedTerminal() as terminal:
        terminal.until_loaded()
        before = len(terminal.read_at_s)
        terminal.send(f"phases {WAIT}\r")
        for doing, opens in (
            ("waiting for the model · ", "waited"),
            ("thinking · ", "thought"),
            ("writing · ", "written"),
            ("retry 1 of 5 in ", "retried"),
            ("writing a command · ", "called"),
        ):
            moves(terminal, doing)
            Path(opens).touch()
        asked = len(terminal.read_at_s)
        terminal.until("❯ 1 Yes")
        gap_s = longest_gap_s(terminal, before, terminal.read_at_s[asked])
        answered = len(terminal.read_at_s)
        terminal.send("y\r")
        moves(terminal, "running a command · ")
        Path("ran").touch()
        terminal.until("The tool said: exit code 0")
        terminal.until_prompt()

        assert gap_s < STILL_S
        assert longest_gap_s(terminal, answered, unstalled_s()) < STILL_S


def test_screen_changes_every_second_of_a_slow_command() -> None:
    """A summary, and a shell escape without output."""
    with TimedTerminal() as terminal:
        terminal.until_loaded()
        terminal.send("/compact forever\r")
        moves(terminal, "/compact forever · ")
        terminal.send("\x03")
        terminal.until("interrupted")
        terminal.until_prompt()
        before = len(terminal.read_at_s)
        terminal.send(f"!{WAIT}\r")
        moves(terminal, "!while ")
        Path("ran").touch()
        terminal.until_prompt()

        assert longest_gap_s(terminal, before, unstalled_s()) < STILL_S
