"""Resizing, in the one terminal emulator at hand that wraps old rows anew: tmux."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_cli.repl.markdown import THEMES, MarkdownStream
from tests.repl.markdown.documents import mixed
from tests.repl.markdown.painter import text_of
from tests.repl.terminal import LIMIT_S, SCRIPTED

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
SIZES = ((60, 20), (100, 30), (40, 15), (120, 35), (80, 24))


class Tmux:
    """A server of its own with one window that runs the scripted REPL."""

    def __init__(self, socket: Path) -> None:
        self._command = ["tmux", "-u", "-S", str(socket), "-f", "/dev/null"]
        program = f"{sys.executable} {SCRIPTED} repl"
        keep = ["set-option", "-g", "history-limit", "50000", ";"]
        self(*keep, "new-session", "-d", "-x", "80", "-y", "24", program)

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

    # Painted for good a frame after the status line, and again when the last size has settled.
    rows = tmux.until(lambda rows: prompts(rows) == 1 and "piece 0" in rows)

    assert [row for row in rows if row.startswith("piece")] == [f"piece {n}" for n in range(40)]
    assert sum("model-1 minimal" in row for row in rows) == 1


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        (80, 40, 12_000),
        pytest.param(40, 200, 100_000, marks=pytest.mark.slow),
        pytest.param(200, 80, 100_000, marks=pytest.mark.slow),
    ],
)
def test_the_scrollback_of_an_answer_that_was_resized_is_exact(
    tmux: Tmux, before: int, after: int, size: int
) -> None:
    """Every row as it was rendered, once, in order, the rows before the resize as they were."""
    half = mixed(size // 2)
    parts = (f"{half}\n\nhalf way\n\n", f"{half}\n\nthe end\n")
    Path("answer.md").write_text("gate\n".join(parts))
    tmux.resize(before, 24)
    tmux.until(lambda rows: any("model-1" in row for row in rows))
    tmux("send-keys", "document answer.md", "Enter")
    tmux.until(lambda rows: "half way" in rows)
    tmux.resize(after, 30)
    tmux.until(lambda rows: sum("model-1" in row for row in rows) == 1)
    Path("gate-0").touch()

    rows = tmux.until(lambda rows: "the end" in rows and not any("Esc stops" in r for r in rows))

    stream = MarkdownStream(before, THEMES["dark"])
    expected = stream.feed(parts[0])
    stream.resize(after)
    expected += [*stream.feed(parts[1]), *stream.finish()]
    begun = rows.index("you> document answer.md") + 2
    shown = [row.rstrip() for row in rows[begun : begun + len(expected)]]
    assert shown == [text_of(row).rstrip() for row in expected]
