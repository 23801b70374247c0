"""Slash commands that need a screen, in a real terminal."""

import base64
import sys
from pathlib import Path

from tests.repl.terminal import SCRIPTED, NewTerminal, Terminal


def test_resume_picker_opens_a_session_and_asks_its_pending_question() -> None:
    """S2-53, S4-26: its waiting call is shown; the key that chose the session does not answer."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/resume\r")
        terminal.until("  Touch · ")
        assert "which session?" in terminal.text
        terminal.send("tou")
        terminal.until("1 of 2")
        terminal.send("\r")
        terminal.until("❯ 1 Yes")
        terminal.send("n\r")
        terminal.until("The tool said: The user does not want this call to run.")

        assert "which session?" not in terminal.text
        assert "resumed session bb2" in terminal.text
        assert "Run touch m" in terminal.text


def test_session_found_by_search_is_resumed_with_enter() -> None:
    """`/search` offers the sessions it found; Enter resumes the first."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/search old\r")
        terminal.until("which session do you want to resume?")
        terminal.send("\r")
        terminal.until("resumed session aa1")


def test_resume_option_without_an_id_opens_the_session_list_at_start() -> None:
    """`--resume` without an id; Esc leaves the list for a new conversation."""
    with Terminal(FIRST_LINE="/resume") as terminal:
        terminal.until("which session?")
        terminal.send("\x1b")
        terminal.until_prompt()

        assert "resumed" not in terminal.text


def test_question_is_shown_again_with_its_call_after_ctrl_z_and_fg() -> None:
    """The lines of the shell stood between the call and the answers to it."""
    with NewTerminal("/bin/bash", "--norc", "-i", PS1="shell> ", WAITING="1") as terminal:
        terminal.until("shell>")
        terminal.send(f"{sys.executable} {SCRIPTED} repl\r")
        terminal.until("1 Yes")
        [title] = [row for row in terminal.text.split("\n") if row.startswith("──")]
        terminal.send("\x1a")
        terminal.until("Stopped")
        terminal.until(lambda: terminal.last_row == "shell>")
        terminal.send("fg\r")
        terminal.until(lambda: terminal.text.count(title) == 2 and "1 Yes" in terminal.text)

        assert "Stopped" not in terminal.text.rpartition(title)[2]
        terminal.send("\x1b")
        terminal.until_prompt()


def test_pending_approval_is_asked_when_a_session_is_continued() -> None:
    """With --continue no input is needed first; Esc rejects the call."""
    with Terminal(WAITING="1") as terminal:
        terminal.until("allow?")
        assert "you> Touch" in terminal.text
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until_prompt()


def test_rewind_puts_the_prompt_back_into_the_input() -> None:
    """S2-53: it can be reworded at once."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("say it badly\r")
        terminal.until("You said 'say it badly'")
        terminal.until_prompt()
        terminal.send("/rewind 1\r")
        terminal.until(lambda: terminal.last_row == "you> say it badly")


def test_copy_sends_the_answer_to_the_terminal_and_theme_and_mode_can_change() -> None:
    """The answer is copied as written, not as drawn."""
    with Terminal(DISPLAY="", WAYLAND_DISPLAY="", TMUX="") as terminal:
        terminal.until_loaded()
        terminal.send("hello\r")
        terminal.until("You said 'hello' to model-1.")
        terminal.until_prompt()
        terminal.send("/copy\r")
        terminal.until("sent 28 characters to the terminal")
        terminal.send("/theme light\r")
        terminal.until("theme: light")
        terminal.send("/theme pink\r")
        terminal.until("unknown theme pink; there are: auto, dark, light, high-contrast, none")
        terminal.send("/theme\r")
        terminal.until("theme, now light:")
        terminal.send("none\r")
        terminal.until("theme: none")
        terminal.send("/mode\r")
        terminal.until("  plan: only looks around")
        terminal.send("around\r")
        terminal.until("mode: plan, only looks around")

    coded = base64.b64encode(b"You said 'hello' to model-1.")
    assert b"\x1b]52;c;" + coded + b"\x07" in terminal.bytes


def test_custom_command_typed_during_a_run_waits_for_the_run_to_end() -> None:
    """It is echoed when its turn comes; /diff runs at once and shows line numbers."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("gated 1\r")
        terminal.until("piece 0")
        terminal.send("/review it\r")
        terminal.until("when done: /review it")
        assert "you> /review it" not in terminal.text
        terminal.send("/diff\r")
        terminal.until("3 files, +2 −2")
        Path("gate-0").touch()
        terminal.until("You said 'review it' to model-1.")
        terminal.until_prompt()
        terminal.send("/diff\r")
        terminal.until("3 files, +2 −2")

        said, answered = (
            terminal.text.index(text) for text in ("you> /review it", "You said 'review it'")
        )
        assert terminal.text.index("piece 0") < said < answered
        assert "changed a.txt  +1 −1\n     1 −one\n     1 +two\n" in terminal.text
        assert "deleted /elsewhere/b.png  (binary)" in terminal.text


def test_long_run_rings_the_bell_when_it_ends_unless_turned_off() -> None:
    """One bell; the setting `ui.notify` is fixed at the start of the session."""
    rung: list[int] = []
    for variables in ({"LONG_S": "-1"}, {"LONG_S": "-1", "NO_BELL": "1"}):
        with Terminal(**variables) as terminal:
            terminal.until_loaded()
            terminal.send("hello\r")
            terminal.until("You said 'hello' to model-1.")
            terminal.until_prompt()
            terminal.send("exit\r")
            terminal.exit_code()
            rung.append(terminal.bytes.count(b"\x07"))

    assert rung == [1, 0]
