"""Output to stderr while a live screen is open: nothing is written through its rows."""

import sys
from pathlib import Path

from tests.repl.terminal import SCRIPTED, NewTerminal, Terminal


def test_stderr_line_is_shown_above_the_prompt_without_leftover_rows() -> None:
    """Rows like `⠼ thinking 2 s` and `you> error: ...` used to stay for good."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("warns the disk is slow\r")
        terminal.until("\nwarning: the disk is slow\n")
        terminal.until("waiting for the model")
        Path("warned").touch()
        terminal.until("Warned.")
        terminal.until_prompt()

        rows = terminal.transcript.split("\n")
        assert [row for row in rows if "Ctrl-C stops" in row] == []
        assert [row for row in rows if "slow" in row] == [
            "you> warns the disk is slow",
            "warning: the disk is slow",
        ]


def test_warnings_also_go_to_stderr_redirected_to_a_file() -> None:
    """`2>err.txt` used to stay empty; the user at the screen still sees them."""
    command = f"{sys.executable} {SCRIPTED} repl 2>err.txt"
    with NewTerminal("sh", "-c", command) as terminal:
        terminal.until_loaded()
        terminal.send("/thikning\r")
        terminal.until("unknown command /thikning")
        terminal.until_prompt()
        terminal.send("fail\r")
        terminal.until("the API is overloaded")
        terminal.until_prompt()

        told = Path("err.txt").read_text().splitlines()

    assert len(told) == 2
    assert "/thikning" in told[0]
    assert "the API is overloaded" in told[1]


def test_partial_answer_stays_on_the_screen_when_ctrl_d_ends_the_session() -> None:
    """Ctrl-D during a run used to drop the partial answer and the rows of running tools."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("forever\r")
        terminal.until("working on it")
        terminal.send("\x04")

        assert terminal.exit_code() == 0
        rows = terminal.text.split("\n")
        left = rows[rows.index("you> forever") :]
        assert left[:4] == ["you> forever", "", "working on it", ""]
        assert "interrupted" in left
