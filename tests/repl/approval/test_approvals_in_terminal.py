"""Approval questions, asked and answered in a real terminal."""

import os
import signal
from pathlib import Path

import pytest

from tests.repl.terminal import Terminal, editor


def ask(terminal: Terminal, prompt: str) -> None:
    """Send *prompt* and wait until the list of answers accepts Enter."""
    terminal.until_loaded()
    terminal.send(f"{prompt}\r")
    terminal.until("❯ 1 Yes")


def test_yes_runs_the_call_after_showing_exactly_what_runs() -> None:
    """The command, the reason for asking and the sandbox are on the screen first."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        before = Path("made").exists()
        terminal.send("y\r")
        terminal.until("The tool said: exit code 0")

        assert (before, Path("made").exists()) == (False, True)
        shown = (
            "── Run touch made ──",
            "commands can change anything",
            "sandbox: bubblewrap",
            "allow? Yes",
        )
        # A long temporary folder wraps the row that names it.
        text = " ".join(terminal.text.split())
        at = [text.find(words) for words in shown]
        assert -1 not in at
        assert at == sorted(at)


def test_a_looser_mode_says_so_at_the_open_question_and_runs_nothing_by_itself() -> None:
    """The way to plan mode leads through auto-edit, so only Enter runs the call."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send("\x1b[Z")
        terminal.until("auto-edit would not ask: Enter runs it")
        terminal.send("\x1b[Z")
        terminal.until("plan mode refuses it all the same")
        assert "would not ask" not in terminal.text
        terminal.send("\x1b[Z\x1b[Z")
        terminal.until("auto-edit would not ask: Enter runs it")
        before = Path("made").exists()
        terminal.send("\r")
        terminal.until("The tool said: exit code 0")

        assert (before, Path("made").exists()) == (False, True)


def test_a_rule_added_at_the_open_question_says_so_and_runs_nothing_by_itself() -> None:
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send("/permissions allow bash(touch *)\r")
        terminal.until("a rule allows it now: Enter runs it")
        before = Path("made").exists()
        terminal.send("\r")
        terminal.until("The tool said: exit code 0")

        assert (before, Path("made").exists()) == (False, True)


def test_command_edited_in_the_editor_runs_as_saved() -> None:
    """The command shown first does not run; the model reads the one that ran instead."""
    with Terminal(EDITOR=editor("printf 'touch other' > \"$1\"")) as terminal:
        ask(terminal, "bash touch made")
        terminal.send("e\r")
        terminal.until("exit code 0")
        terminal.until_prompt()

        assert "── Run touch other ──" in terminal.text
        assert "Used instead:" in terminal.text.replace("\n", "")
        assert not Path("made").exists()
        assert Path("other").exists()


def test_termination_ends_an_editor_that_is_open_for_an_approval() -> None:
    """Leaving used to wait until the user closed the editor; the call does not run."""
    with Terminal(EDITOR=editor("touch open\nexec sleep 600")) as terminal:
        ask(terminal, "bash touch made")
        terminal.send("e\r")
        terminal.until(lambda: Path("open").exists())
        os.kill(terminal.child.pid, signal.SIGTERM)

        assert terminal.exit_code() == 143
        assert not Path("made").exists()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("n\r", "The user does not want this call to run. Do not try it again in another form."),
        ("use make\r", "The user does not want this call to run and says: use make"),
    ],
)
def test_no_or_any_other_text_rejects_the_call(keys: str, told: str) -> None:
    """S2-33: the model reads the reason and the run continues."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send(keys)
        terminal.until("The tool said: ")
        terminal.until_prompt()

        assert told in terminal.text.replace("\n", "")
        assert not Path("made").exists()


def test_yes_for_session_asks_again_only_in_a_new_session() -> None:
    """S4-26."""
    with Terminal() as terminal:
        ask(terminal, "bash touch one")
        terminal.send("y session\r")
        terminal.until("The tool said: exit code 0")
        terminal.until_prompt()
        terminal.send("bash touch two\r")
        terminal.until(lambda: Path("two").exists())

        assert terminal.text.count("allow?") == 1
    with Terminal() as terminal:
        ask(terminal, "bash touch three")

        assert not Path("three").exists()


def test_keys_typed_before_the_question_appears_do_not_answer_it() -> None:
    """Threat 20: a sentence being typed when the question appears must not approve a command."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("bash touch made\ryyyy\r")
        terminal.until("❯ 1 Yes")
        terminal.send("n\r")
        terminal.until("The tool said: ")
        assert not Path("made").exists()


def test_command_typed_at_a_question_is_not_said_to_decline_the_call() -> None:
    """The row promised that Enter declines and tells the model why; it queued the command."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send("!echo seen")
        terminal.until("❯ Send your command, which answers nothing")
        terminal.send("\r")
        terminal.until("when done: !echo seen")
        terminal.until("❯ 1 Yes")
        terminal.send("no, echo it\r")
        terminal.until("when done")
        terminal.until_prompt()

        assert "no, echo it" in terminal.text


def test_ctrl_c_at_a_question_rejects_the_call_and_returns_to_the_prompt() -> None:
    """No further request is sent; the conversation can continue."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send("\x03")
        terminal.until("interrupted")
        terminal.until_prompt()
        assert "The tool said" not in terminal.text
        terminal.send("go on\r")
        terminal.until("You said 'go on'")

        assert not Path("made").exists()


def test_sigterm_at_a_question_leaves_the_call_undecided() -> None:
    """C18: no decision was made, so the call waits for the next session; exit code 143."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        os.kill(terminal.child.pid, signal.SIGTERM)

        assert (terminal.exit_code(), Path("closed").exists()) == (143, True)
        assert not Path("made").exists()


@pytest.mark.parametrize(
    ("typed", "kept"), [("use make, since", "use make, since"), ("no", "bash touch made")]
)
def test_half_typed_reason_is_kept_when_the_window_is_closed_at_a_question(
    typed: str, kept: str
) -> None:
    """A reason is as much work as a draft, which was kept already; a short answer is no prompt."""
    with Terminal() as terminal:
        ask(terminal, "bash touch made")
        terminal.send(typed)
        terminal.until(f"allow? {typed}")

        assert terminal.close_window() == 128 + signal.SIGHUP
        assert Path("state/history").read_text().rstrip().endswith(f"+{kept}")


def test_invisible_characters_in_a_command_are_shown_as_escapes() -> None:
    """The approved text is the one that runs: no overwriting, reordering or invisible text."""
    with Terminal() as terminal:
        ask(terminal, "bash true\u202e\u200b #")

        assert "Run true\\u202e\\u200b #" in terminal.text


def test_approved_call_runs_even_if_a_message_was_queued_before() -> None:
    """A message typed while the reply streamed used to undo a later approval."""
    for gate in ("waited", "thought", "retried", "called"):
        Path(gate).touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("phases touch made\r")
        terminal.until("writing · ")
        terminal.send("use make from now on\r")
        terminal.until("after this step: use make from now on")
        Path("written").touch()
        terminal.until("your message goes out after this answer")
        terminal.send("\r")  # nothing is marked, so a second Enter answers nothing
        terminal.send("y")
        terminal.until("❯ 1 Yes")
        assert not Path("made").exists()
        terminal.send("\r")
        terminal.until("You said 'use make from now on'")
        terminal.until_prompt()

        assert Path("made").exists()
        assert "Skipped" not in terminal.text
        assert terminal.text.index("✓ Run touch made") < terminal.text.index("You said 'use make")
