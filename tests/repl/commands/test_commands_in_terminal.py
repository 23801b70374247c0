"""Slash commands that need a screen, in a real terminal."""

import base64
from pathlib import Path

from tests.repl.terminal import Terminal


def ready(terminal: Terminal) -> None:
    """Wait until the program has loaded behind the prompt."""
    terminal.until("logs: agent.log")
    terminal.until_prompt()


def test_a_session_is_chosen_from_a_list_and_its_question_is_put_at_once() -> None:
    """S2-53, S4-26: its waiting call is shown; the key that chose the session does not answer."""
    with Terminal() as terminal:
        ready(terminal)
        terminal.send("/resume\r")
        terminal.until("which session?")
        assert "  Touch · " in terminal.text
        terminal.send("tou")
        terminal.until("1 of 2")
        terminal.send("\r")
        terminal.until("❯ Yes")
        terminal.send("n\r")
        terminal.until("The tool said: The user does not want this call to run.")

        assert "which session?" not in terminal.text
        assert "resumed session bb2" in terminal.text
        assert "$ touch m" in terminal.text


def test_what_is_found_is_gone_on_with() -> None:
    """`/search` offers the sessions it found; Enter resumes the first."""
    with Terminal() as terminal:
        ready(terminal)
        terminal.send("/search old\r")
        terminal.until("which session do you want to resume?")
        terminal.send("\r")
        terminal.until("resumed session aa1")


def test_the_list_is_there_from_the_start_if_it_is_asked_for() -> None:
    """`--resume` without an id; leaving the list leaves a new conversation."""
    with Terminal(FIRST_LINE="/resume") as terminal:
        terminal.until("which session?")
        terminal.send("\x1b")
        terminal.until_prompt()

        assert "resumed" not in terminal.text


def test_a_question_that_waits_is_put_at_the_start() -> None:
    """With --continue no input is needed first; Esc rejects it."""
    with Terminal(WAITING="1") as terminal:
        terminal.until("allow?")
        assert "you> Touch" in terminal.text
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until_prompt()


def test_a_prompt_that_was_taken_back_returns_to_the_input() -> None:
    """S2-53: it can be reworded at once."""
    with Terminal() as terminal:
        ready(terminal)
        terminal.send("say it badly\r")
        terminal.until("You said 'say it badly'")
        terminal.until_prompt()
        terminal.send("/rewind 1\r")
        terminal.until(lambda: terminal.last_row == "you> say it badly")


def test_copy_hands_the_answer_to_the_terminal_and_themes_can_be_changed() -> None:
    """As written, not as drawn; the bell and the clipboard move no cursor."""
    with Terminal(DISPLAY="", WAYLAND_DISPLAY="", TMUX="") as terminal:
        ready(terminal)
        terminal.send("hello\r")
        terminal.until("You said 'hello' to model-1.")
        terminal.until_prompt()
        terminal.send("/copy\r")
        terminal.until("sent 28 characters to the terminal")
        terminal.send("/theme light\r")
        terminal.until("theme: light")
        terminal.send("/theme pink\r")
        terminal.until("unknown theme pink; there are: dark, light, high-contrast, none")
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


def test_a_command_that_is_a_prompt_waits_for_the_end_of_a_run() -> None:
    """It is shown when its turn comes; the agent's changes are drawn with line numbers."""
    with Terminal() as terminal:
        ready(terminal)
        terminal.send("gated 1\r")
        terminal.until("piece 0")
        terminal.send("/review it\r")
        terminal.until("when done: /review it")
        assert "you> /review it" not in terminal.text
        terminal.send("/undo\r")
        terminal.until("/undo cannot run now")
        terminal.send("\x15/diff\r")
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
        assert "changed a.txt  +1 −1\n     1 -one\n     1 +two\n" in terminal.text
        assert "deleted /elsewhere/b.png  (binary)" in terminal.text


def test_a_long_run_rings_when_it_ends_unless_it_should_not() -> None:
    """One bell; the setting `ui.notify` is fixed at the start of the session."""
    rung: list[int] = []
    for variables in ({"LONG_S": "-1"}, {"LONG_S": "-1", "NO_BELL": "1"}, {}):
        with Terminal(**variables) as terminal:
            ready(terminal)
            terminal.send("hello\r")
            terminal.until("You said 'hello' to model-1.")
            terminal.until_prompt()
            terminal.send("exit\r")
            terminal.exit_code()
            rung.append(terminal.bytes.count(b"\x07"))

    assert rung == [1, 0, 0]
