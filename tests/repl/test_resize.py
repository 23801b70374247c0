"""Resizing a terminal that rewraps old rows (tmux) and one that cuts them (xterm)."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_cli.repl.approval.preview import Row
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.shared_terminal import _BEGIN_FRAME, _END_FRAME
from agent_cli.repl.live.view import question_rows
from agent_cli.repl.markdown import THEMES, MarkdownStream
from tests.repl.markdown.documents import mixed
from tests.repl.markdown.painter import text_of
from tests.repl.terminal import LIMIT_S, SCRIPTED, Terminal

LIVE_PARTS = ("Run sleep 600", "Run sleep 601", "Ctrl-C", "you> a draft", "model-1 minimal")
SIZES = ((60, 20), (100, 30), (40, 15), (120, 35), (80, 24))


class Tmux:
    """A separate tmux server with one window that runs the scripted REPL."""

    def __init__(self, socket: Path) -> None:
        self._command = ["tmux", "-u", "-S", str(socket), "-f", "/dev/null"]
        program = f"env APPROVED=1 {sys.executable} {SCRIPTED} repl"
        keep = ["set-option", "-g", "history-limit", "50000", ";"]
        self(*keep, "new-session", "-d", "-x", "80", "-y", "24", program)

    def __call__(self, *arguments: str) -> str:
        run = [*self._command, *arguments]
        return subprocess.run(run, capture_output=True, text=True, timeout=30, check=True).stdout

    def rows(self) -> list[str]:
        """Return the scrollback and the screen, wrapped rows joined."""
        return self("capture-pane", "-p", "-J", "-S", "-").rstrip().split("\n")

    def screen(self) -> list[str]:
        """Return the wrapped rows on the screen."""
        return self("capture-pane", "-p").split("\n")

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
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    window = Tmux(tmp_path / "socket")
    try:
        yield window
    finally:
        window("kill-server")


def prompts(rows: list[str]) -> int:
    return sum(row.startswith("you> a draft") for row in rows)


def test_resizing_during_an_answer_loses_no_text_and_leaves_one_prompt(tmux: Tmux) -> None:
    """Every piece is shown once, with one prompt, one status line, and the draft intact."""
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

    # Repainted a frame after the status line, and again once the last size has settled.
    rows = tmux.until(lambda rows: prompts(rows) == 1 and "piece 0" in rows)

    assert [row for row in rows if row.startswith("piece")] == [f"piece {n}" for n in range(40)]
    assert sum("model-1 minimal" in row for row in rows) == 1


@pytest.mark.parametrize(
    "sizes", [((70, 24), (45, 20), (35, 20)), ((60, 24), (40, 24), (50, 24), (30, 20))]
)
def test_repeated_shrinking_while_commands_run_leaves_no_stale_rows(
    tmux: Tmux, sizes: tuple[tuple[int, int], ...]
) -> None:
    """On a half-empty screen, repainted rows appear once, in the scrollback too."""
    tmux.resize(100, 24)
    tmux.until(lambda rows: any("model-1" in row for row in rows))
    tmux("send-keys", f"bash sleep 600 ;; sleep 601 #{' long' * 15}", "Enter")
    tmux.until(lambda rows: any("running 2 tools" in row for row in rows))
    tmux("send-keys", "a draft that is long enough to wrap in a narrow window")
    tmux.until(lambda rows: prompts(rows) == 1)

    for columns, rows in sizes:
        tmux.resize(columns, rows)
        tmux.until(lambda _rows, columns=columns: is_cut(tmux.screen(), columns))  # type: ignore[misc]

    counts = [sum(part in row for row in tmux.rows()) for part in LIVE_PARTS]
    assert counts == [1] * len(LIVE_PARTS), "\n".join(tmux.rows())


def test_terminal_that_cuts_rows_is_repainted_in_place() -> None:
    """In plain xterm nothing above the live region is erased, and no stale row stays."""
    with Terminal(APPROVED="1", XTERM_VERSION="XTerm(390)") as terminal:
        terminal.until_prompt()
        terminal.send(f"bash sleep 600 ;; sleep 601 #{' long' * 15}\r")
        terminal.until("running 2 tools")
        terminal.send("a draft that is long enough to wrap in a narrow window")
        for columns in (70, 45, 35):
            terminal.resize(columns)
            terminal.until(lambda columns=columns: is_cut(terminal.text.split("\n"), columns))  # type: ignore[misc]
        # The prompt follows the row in the same frame, of which a part may have been read.
        terminal.until(
            lambda: (
                terminal.bytes.rfind(_END_FRAME.encode())
                > terminal.bytes.rfind(_BEGIN_FRAME.encode())
            )
        )

        rows = terminal.text.split("\n")
        assert [sum(part in row for row in rows) for part in LIVE_PARTS] == [1] * len(LIVE_PARTS)
        assert rows[0].startswith("tools: bash, note")


def is_cut(screen: list[str], columns: int) -> bool:
    """Return whether the row of the long command was cut for this width."""
    return any(
        columns - 8 < len(row) <= columns and re.search(r"Run sleep 601.*… \d+ s$", row)
        for row in screen
    )


def test_ground_of_a_changed_line_leaves_no_blank_row_in_a_narrower_window(tmux: Tmux) -> None:
    """Padding wrapped into rows of its own below each changed line, forever in the scrollback."""
    row = Row(f"    1 + {'word ' * 8}end", "added")
    Path("rows").write_text("\n".join([*question_rows([row, row], Paint(color=True), 80), "end"]))
    tmux("new-window", f"cat {Path('rows').absolute()}; exec sleep 60")
    tmux.until(lambda rows: rows[-1] == "end")

    tmux.resize(25, 24)

    tmux.until(lambda _rows: len(max(tmux.screen(), key=len)) <= 25)
    wrapped = [row.text[:25], row.text[25:50], row.text[50:]]
    shown = tmux("capture-pane", "-p", "-S", "-").rstrip().split("\n")
    assert shown == [*wrapped, *wrapped, "end"]


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        (80, 40, 12_000),
        pytest.param(40, 200, 100_000, marks=pytest.mark.slow),
        pytest.param(200, 80, 100_000, marks=pytest.mark.slow),
    ],
)
def test_scrollback_is_exact_after_a_resize_during_an_answer(
    tmux: Tmux, before: int, after: int, size: int
) -> None:
    """Every row as rendered, once, in order, and unchanged before the resize."""
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
