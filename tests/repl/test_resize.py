"""Resizing, in the one terminal emulator at hand that wraps old rows anew: tmux."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.repl.terminal import LIMIT_S, SCRIPTED

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
SIZES = ((60, 20), (100, 30), (40, 15), (120, 35), (80, 24))


class Tmux:
    """A server of its own with one window that runs the scripted REPL."""

    def __init__(self, socket: Path) -> None:
        self._command = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        program = f"{sys.executable} {SCRIPTED} repl"
        self("new-session", "-d", "-x", "80", "-y", "24", program)

    def __call__(self, *arguments: str) -> str:
        run = [*self._command, *arguments]
        return subprocess.run(run, capture_output=True, text=True, timeout=30, check=True).stdout

    def rows(self) -> list[str]:
        """Return the scrollback and the screen, wrapped rows joined."""
        return self("capture-pane", "-p", "-J", "-S", "-").rstrip().split("\n")

    def resize(self, columns: int, rows: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        deadline_s = time.monotonic() + LIMIT_S
        while not seen(rows := self.rows()):
            assert time.monotonic() < deadline_s, "\n".join(rows)
            time.sleep(0.02)  # tmux has nothing to wait for
        return rows


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """Yield a window, and end its server."""
    window = Tmux(tmp_path / "socket")
    try:
        yield window
    finally:
        window("kill-server")


def prompts(rows: list[str]) -> int:
    return sum(row.startswith("you> a draft") for row in rows)


def test_resizes_lose_nothing_and_leave_one_prompt(tmux: Tmux) -> None:
    """While an answer streams: every piece once, one prompt, one status line, the draft intact."""
    tmux.until(lambda rows: any("model-1" in row for row in rows))
    tmux("send-keys", "gated 40", "Enter")
    tmux.until(lambda rows: "piece 0" in rows)
    tmux("send-keys", "a draft")
    tmux.until(lambda rows: prompts(rows) == 1)
    for number in range(40):
        if number % 8 == 7:
            tmux.resize(*SIZES[number // 8])
        Path(f"gate-{number}").touch()
        shown = min(number + 1, 39)
        tmux.until(lambda rows, shown=shown: f"piece {shown}" in rows)  # type: ignore[misc]
    tmux.until(lambda rows: any("context" in row for row in rows))

    rows = tmux.until(lambda rows: prompts(rows) == 1)

    assert [row for row in rows if row.startswith("piece")] == [f"piece {n}" for n in range(40)]
    assert sum("model-1 minimal" in row for row in rows) == 1
