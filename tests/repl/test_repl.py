"""The REPL in a real terminal."""

import json
import os
import re
import signal
import stat
import tempfile
from functools import partial
from pathlib import Path

import pytest

from agent_cli.system.temporary_files import remove_left_folders
from tests.e2e.program import processes_with
from tests.repl.terminal import NewTerminal, Terminal, editor
from tests.waiting import is_alive, wait_until

CTRL_C, CTRL_D, CTRL_J, ALT_ENTER = "\x03", "\x04", "\n", "\x1b\r"


def stands_at_the_cursor(terminal: Terminal, row: str) -> bool:
    """Return whether the cursor is on this row."""
    return terminal.last_row == row


def sent() -> list[str]:
    """Return the prompts the model got."""
    path = Path("prompts.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_prompt_is_shown_before_the_program_has_loaded() -> None:
    """S1-29, S1c-9: exactly `you> `, before the program has begun to load."""
    with Terminal(AWAIT_BUILT="1") as terminal:
        terminal.until_prompt()
        first = terminal.text
        Path("built").touch()
        terminal.until_loaded()

        assert b"you> " in terminal.bytes
        assert first == "you>"
        greeting = "tools: bash, note\nMCP servers: docs\nlogs: agent.log\n"
        terminal.until(lambda: terminal.transcript == greeting)


def test_heavy_modules_are_not_imported_before_the_first_prompt() -> None:
    """When the program is built, only the modules that the prompt needs have been imported."""
    with NewTerminal() as terminal:
        terminal.until("logs: agent.log")

    imported = {name.partition(".")[0] for name in Path("modules").read_text().split("\n")}
    heavy = {"anthropic", "httpx2", "mcp", "pydantic", "jsonschema", "rich", "structlog"}
    assert imported & (heavy | {"prompt_toolkit"}) == {"prompt_toolkit"}


def test_line_typed_before_the_program_has_loaded_is_answered_afterwards() -> None:
    """Type-ahead: users need not wait for imports."""
    with Terminal(AWAIT_BUILT="1") as terminal:
        terminal.until_prompt()
        terminal.send("early\r")
        terminal.until("once started: early")
        Path("built").touch()
        terminal.until("You said 'early' to model-1.")
        terminal.until_prompt()


def test_ctrl_c_while_the_program_loads_drops_the_line_and_returns_to_the_prompt() -> None:
    """Only the waiting ends; the line must not be sent later."""
    with Terminal(AWAIT_BUILT="1") as terminal:
        terminal.until_prompt()
        terminal.send("early\r")
        terminal.until("once started")
        terminal.send(CTRL_C)
        terminal.until(lambda: "once started" not in terminal.text)
        terminal.until_prompt()
        Path("built").touch()
        terminal.until("logs: agent.log")
        terminal.send("late\r")
        terminal.until("You said 'late'")

    assert sent() == ["late"]


def test_long_paste_is_shown_as_a_mark_and_sent_in_full() -> None:
    """C28: bracketed paste keeps the newlines, and nothing is run before Enter."""
    pasted = "\n".join(f"line {number}" for number in range(200))
    with Terminal() as terminal:
        terminal.until_prompt()
        terminal.send(f"look: \x1b[200~{pasted}\x1b[201~")
        terminal.until("you> look: [paste #1: 200 lines]")
        terminal.send("\x7f\x1b[200~short\x1b[201~ ")
        terminal.until("you> look: short")
        terminal.send(f"\x1b[200~{pasted}\x1b[201~\r")
        terminal.until("You said")

    assert sent() == [f"look: short {pasted}"]


def test_ctrl_c_frees_the_prompt_from_a_paste_whose_end_was_lost() -> None:
    """As when the connection of ssh breaks in the middle: every key was part of the paste."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("\x1b[200~half of a paste\r")
        terminal.send("typed\r")
        terminal.until_silent(0.2)
        terminal.send("\x03")
        terminal.until_silent(0.2)
        terminal.send("hello\r")
        terminal.until("You said 'hello'")

    assert sent() == ["hello"]


def test_h_and_enter_show_the_help() -> None:
    """Other commands begin with an h, too."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/h")
        terminal.until("/hooks")
        terminal.send("\r")
        terminal.until("Shift-Tab")

        assert "you> /help" in terminal.text


def test_tab_completes_commands_and_files() -> None:
    """The choices are below the input with their help; a part of a path is enough."""
    Path("source").mkdir()
    Path("source/basket.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/us")
        terminal.until("/usage  show the tokens used so far")
        terminal.send("\t\r")
        terminal.until("no reply of the model was counted yet")
        terminal.until_prompt()
        terminal.send("look at @bskt")
        terminal.until("     source/basket.py")
        terminal.send("\t")
        terminal.until(lambda: terminal.last_row == "you> look at @source/basket.py")


def test_keys_typed_while_text_floods_in_appear_unchanged() -> None:
    """2,000 deltas a second: no key is lost, doubled or mixed into the answer."""
    draft = "every key in its place 0123456789"
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("flood 2\r")
        terminal.until("word")
        for number, key in enumerate(draft, 1):
            terminal.send(key)
            row = f"you> {draft[:number]}".rstrip()
            terminal.until(partial(stands_at_the_cursor, terminal, row))
        terminal.until("context <1%")

        terminal.until(lambda: terminal.last_row == f"you> {draft}")
        assert draft not in terminal.transcript


def test_shell_command_output_is_sent_to_the_model_unless_marked_private() -> None:
    """`!` goes with the next message, `!!` does not."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("!!echo pri''vate\r")
        terminal.until("\nprivate")
        terminal.send("!echo sha''red; exit 3\r")
        terminal.until("\nshared\n[exit code 3]")
        terminal.until_prompt()
        terminal.send("why?\r")
        terminal.until("You said")

    command = "echo sha''red; exit 3"
    assert sent() == [f"I ran this command:\n$ {command}\nshared\n[exit code 3]\n\nwhy?"]


def test_ctrl_c_stops_a_shell_command() -> None:
    """No process of it continues."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("!touch begun; sleep 1000\r")
        terminal.until(lambda: Path("begun").exists())
        terminal.until(" s · Ctrl-C stops")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until(lambda: "Ctrl-C stops" not in terminal.text)
        terminal.until_prompt()


def test_shell_command_dies_with_the_program_even_if_killed(tmp_path: Path) -> None:
    """All of it: the shell, a pipeline, and what left its group."""
    mark = f"{tmp_path.name}-mark"
    waits = f"sh -c 'sleep 600; : {mark}'"
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send(f"!touch begun; setsid {waits} & {waits} | cat\r")
        terminal.until(lambda: len(processes_with(f"sleep 600; : {mark}")) >= 3)
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.exit_code()

    wait_until(lambda: not processes_with(mark), "the command has ended")


def test_draft_in_the_editor_leaves_no_file_behind_a_killed_program(tmp_path: Path) -> None:
    """The draft may be private; the next program removes what a killed one left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = editor("touch open\nexec sleep 600")
    with Terminal(EDITOR=command, TMPDIR=str(temporary)) as terminal:
        terminal.until_loaded()
        terminal.send("a draft\x07")
        terminal.until(lambda: Path("open").exists())
        assert [file.read_text() for file in temporary.rglob("input.md")] == ["a draft"]
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.exit_code()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        remove_left_folders()

    assert list(temporary.rglob("input.md")) == []


def test_background_process_of_a_shell_command_keeps_running(tmp_path: Path) -> None:
    """As in a shell: a server started this way is used afterwards."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("!sleep 600 >/dev/null 2>&1 & echo $! > pid; exit 3\r")
        terminal.until("\n[exit code 3]")
        terminal.until_prompt()
        left = int(Path("pid").read_text())
        terminal.send("!exit 4\r")
        terminal.until("\n[exit code 4]")
        terminal.until_prompt()

        assert is_alive(left)
        terminal.send("/exit\r")
        terminal.exit_code()

    assert is_alive(left)
    os.kill(left, signal.SIGKILL)
    wait_until(lambda: not is_alive(left), "it has ended")


def test_ctrl_g_opens_the_draft_in_the_editor() -> None:
    """It comes back as saved, and is not sent."""
    with Terminal(EDITOR=editor("printf ' and more' >> \"$1\"")) as terminal:
        terminal.until_loaded()
        terminal.send("a draft")
        terminal.until(lambda: terminal.last_row == "you> a draft")
        terminal.send("\x07")
        terminal.until("you> a draft and more")

    assert sent() == []


def test_editor_with_a_window_of_its_own_is_announced_in_the_terminal() -> None:
    """The screen was blank, and keys typed there meanwhile stood where the prompt should be."""
    window = "until test -e closed; do sleep 0.02; done; printf ' and more' >> \"$1\""
    with Terminal(EDITOR=editor(window)) as terminal:
        terminal.until_loaded()
        terminal.send("a draft")
        terminal.until(lambda: terminal.last_row == "you> a draft")
        terminal.send("\x07")
        terminal.until("close your editor to go on")
        terminal.send("typed")
        terminal.until("go on typed")
        Path("closed").touch()
        terminal.until("you> a draft and moretyped")

        assert "your editor" not in terminal.text


def test_ctrl_r_searches_the_history() -> None:
    """Enter takes the found line into the input."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("find the needle\r")
        terminal.until("You said 'find the needle'")
        terminal.send("something else\r")
        terminal.until("You said 'something else'")
        terminal.until_prompt()
        terminal.send("\x12needle")
        terminal.until("you> find the needle\nhistory:")
        terminal.send("\r")
        terminal.until(lambda: terminal.last_row == "you> find the needle")

    assert sent() == ["find the needle", "something else"]


def test_the_status_line_shows_model_mode_context_and_cost() -> None:
    """Below the prompt, and updated after each reply."""
    with Terminal() as terminal:
        terminal.until("model-1 minimal · ask · MCP 1/1")
        terminal.until_prompt()
        terminal.send("hello\r")
        terminal.until("context <1% (12 tokens)")
        terminal.send("/model high\r")
        terminal.until("model-2 minimal · ask")


def test_history_is_kept_across_sessions_and_readable_only_by_its_owner() -> None:
    """Arrow-up finds it in the next session; mode 0600, because prompts hold secrets."""
    with Terminal() as terminal:
        terminal.until_prompt()
        terminal.send("remember me\r")
        terminal.until("You said 'remember me'")
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("\x1b[A")
        terminal.until(lambda: terminal.last_row == "you> remember me")

    assert stat.S_IMODE(Path("state/history").stat().st_mode) == 0o600


def test_history_that_cannot_be_written_only_causes_a_warning() -> None:
    """A read-only home must not prevent work."""
    Path("file").touch()
    with Terminal(HISTORY="file/history") as terminal:
        terminal.until("prompts are not kept for later sessions")
        terminal.until_prompt()
        terminal.send("hello\r")
        terminal.until("You said 'hello'")


def test_end_of_input_ends_the_session() -> None:
    """S1c-9: exit code 0, and the program closes normally. A job runs, so it asks first."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send(CTRL_D)
        terminal.until("press Ctrl-D again to leave; 1 job ends with the session")
        terminal.send(CTRL_D + CTRL_D)  # on a busy machine the second one may come too late

        assert (terminal.exit_code(), Path("closed").exists()) == (0, True)


def test_ctrl_c_ends_the_run_and_keeps_the_conversation() -> None:
    """C18: back at the prompt; the next message is answered."""
    with Terminal() as terminal:
        terminal.until_prompt()
        terminal.send("forever\r")
        terminal.until("working on it")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until_prompt()
        terminal.send("and now\r")
        terminal.until("You said 'and now' to model-1.")

    assert sent() == ["forever", "and now"]


def test_ctrl_c_at_an_empty_prompt_shows_a_hint_and_a_second_one_exits() -> None:
    """C18."""
    with Terminal() as terminal:
        terminal.until_loaded()
        hint = "press Ctrl-C again to leave"
        for _ in range(10):  # on a busy machine the second one may come too late
            terminal.send(CTRL_C)
            terminal.until(hint)
            terminal.send(CTRL_C)
            if terminal.ends_before(lambda: "you>" in terminal.text and hint not in terminal.text):
                break

        assert terminal.exit_code() == 0
        assert "to resume this session" not in terminal.text  # nothing was said


def test_ctrl_c_with_a_draft_only_clears_the_draft() -> None:
    """A mistyped line must not cost the session."""
    with Terminal() as terminal:
        terminal.until_prompt()
        terminal.send("a draft")
        terminal.until("you> a draft")
        terminal.send(CTRL_C)
        terminal.until_prompt()
        terminal.send("better\r")
        terminal.until("You said 'better'")

        assert "again to leave" not in terminal.text


@pytest.mark.parametrize("prompt", ["", "forever\r"])
def test_sigterm_closes_the_program_normally(prompt: str) -> None:
    """C18: exit code 143, at the prompt and during a run."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send(prompt)
        if prompt:
            terminal.until("working on it")
        os.kill(terminal.child.pid, signal.SIGTERM)

        assert (terminal.exit_code(), Path("closed").exists()) == (143, True)


@pytest.mark.parametrize("prompt", ["", "forever\r"])
def test_closed_terminal_window_ends_the_program_normally(prompt: str) -> None:
    """No work, and no cost, continues behind a closed terminal."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send(prompt)
        if prompt:
            terminal.until("working on it")

        assert terminal.close_window() == 128 + signal.SIGHUP
        assert Path("closed").exists()


def test_compacting_can_be_interrupted() -> None:
    """A command that talks to a model is stopped like a run."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/compact forever\r")
        terminal.until(lambda: Path("compacting").exists())
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until_prompt()


def test_error_is_shown_as_one_line_and_the_prompt_returns() -> None:
    """S1-30, S1-46: an API error with its request id, and a bug whose traceback is in the log."""
    with Terminal() as terminal:
        terminal.until("logs: agent.log")
        terminal.send("fail\r")
        terminal.until("the API is overloaded (request req_1)")
        terminal.until_prompt()
        terminal.send("boom\r")
        terminal.until("RuntimeError: a bug (traceback in the log)")
        terminal.until_prompt()
        terminal.send("exit\r")

        assert terminal.exit_code() == 0
        rows = terminal.rows_at_the_end()
        assert rows[4:] == [
            *("you> fail", "", "the API is overloaded (request req_1)", ""),
            *("you> boom", "", "RuntimeError: a bug (traceback in the log)", ""),
            *("you> exit", ""),
            "job 1 (`npm run dev`) still ran; it ends with this session",
            "to resume this session:",
            "  agent-cli --resume s-1",
        ]
    assert "a bug" in Path("agent.log").read_text()


def test_settings_error_at_start_ends_the_program_and_frees_the_terminal() -> None:
    """The error goes to the caller, and the exit code is not 0."""
    with Terminal(SETTINGS_ERROR="1") as terminal:
        assert terminal.exit_code() == 1
        assert "appsettings.toml: model is not set" in terminal.text


def test_message_typed_during_a_run_is_sent_with_the_next_request() -> None:
    """S0-59, C3: shown as queued, sent in the very next request, and echoed then."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("gated 2\r")
        terminal.until("piece 0")
        terminal.send("next\r")
        terminal.until("  after this step: next")
        before = sent()
        Path("gate-0").touch()
        Path("gate-1").touch()
        terminal.until("You said 'next'")
        terminal.until(lambda: "step: next" not in terminal.text)
        terminal.until_prompt()

        assert before == ["gated 2"]
        assert "piece 0\npiece 1\n\nyou> next\n\nYou said 'next'" in terminal.transcript


def test_command_during_a_run_is_executed_at_once_or_waits_for_its_end() -> None:
    """A command with a chooser shows the current value instead; /clear waits."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("forever\r")
        terminal.until("working on it")
        terminal.send("/usage\r")
        terminal.until("no reply of the model was counted yet")
        terminal.until_prompt()
        terminal.send("/mode\r")
        terminal.until("  plan: only looks around")
        terminal.send("/effort\r")
        terminal.until("(of default, off, minimal, low, medium, high, xhigh)")
        terminal.send("/theme\r")
        terminal.until("theme: auto, here dark (of auto, dark, light, high-contrast, none)")
        terminal.send("\x14")
        terminal.until("thinking is shown from now on; Ctrl-T hides it")
        terminal.send("/clear\r")
        terminal.until("  when done: /clear")


def test_paused_display_shows_nothing_until_resumed_while_the_run_continues() -> None:
    """S4-29: the stream is still read meanwhile."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("gated 2\r")
        terminal.until("piece 0")
        terminal.send("/pause\r")
        terminal.until("paused, ")
        Path("gate-0").touch()
        Path("gate-1").touch()
        terminal.send("next\r")
        terminal.until(lambda: sent() == ["gated 2", "next"])
        held = terminal.text
        terminal.send("\x11")
        terminal.until("You said 'next'")
        terminal.until_prompt()

        assert "piece 1" not in held
        assert "piece 0\npiece 1\n\nyou> next\n\nYou said" in terminal.transcript


def test_keys_typed_before_the_prompt_appears_are_kept_in_order() -> None:
    """Enter included, which the terminal turns into a newline until we take over."""
    with Terminal() as terminal:
        terminal.send("first\rsecond\rdraft")
        terminal.until("You said 'first'")
        terminal.until("You said 'second'")
        terminal.until(lambda: terminal.last_row == "you> draft")

    assert sent() == ["first", "second"]


def test_background_report_appears_above_the_draft() -> None:
    """A failing server costs one line and must not damage the draft."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("half a quest")
        terminal.until("you> half a quest")
        Path("server-failed").touch()
        terminal.until("MCP server docs: it is down")
        terminal.until(lambda: terminal.last_row == "you> half a quest")
        terminal.send("ion\r")
        terminal.until("You said 'half a question'")

        assert "it is down\n\nyou> half a question\n\nYou said" in terminal.text


def test_each_tool_call_is_shown_with_its_outcome_between_the_texts() -> None:
    """S4-22, S4-23: each call has its duration, and its place between the texts."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("notes good && bad\r")
        terminal.until("The tool said")
        terminal.until_prompt()

        shown = re.sub(r"\d+\.\d s", "n s", terminal.transcript)
        shown = shown.replace(" after n s", "")  # on a slow machine
        assert shown.rstrip().split("\n")[4:] == [
            *("you> notes good && bad", "", "I take notes.", ""),
            *("✓ Note good · n s", "✗ Note bad · failed: the note is bad", ""),
            "The tool said: the note is bad",
        ]


def test_model_output_cannot_control_the_terminal() -> None:
    """Neither clipboard nor screen; the rest of it is text."""
    with Terminal() as terminal:
        terminal.until("logs: agent.log")
        terminal.send("hostile\r")
        terminal.until("abcd")

        assert b"]52" not in terminal.bytes
        assert "tools: bash, note" in terminal.text


def test_signal_while_the_program_closes_does_not_change_the_exit_code() -> None:
    """The user has left already, with success."""
    with Terminal(SLOW_CLOSING="1") as terminal:
        terminal.until("logs: agent.log")
        terminal.until_prompt()
        terminal.send("exit\r")
        terminal.until(Path("closing").exists)
        terminal.child.kill(signal.SIGTERM)
        Path("may-close").touch()

        assert terminal.exit_code() == 0


@pytest.mark.parametrize("is_patient", [True, False])
def test_slow_shutdown_is_announced_and_ctrl_c_skips_the_wait(is_patient: bool) -> None:
    """With a slow session-end hook, or a server that ignores its end, the terminal looked dead."""
    with Terminal(SLOW_CLOSING="1") as terminal:
        terminal.until_loaded()
        terminal.send("exit\r")
        terminal.until("closing: servers and hooks have a moment to end")
        if is_patient:
            Path("may-close").touch()
        else:
            terminal.send(CTRL_C)

        assert terminal.exit_code() == 0
    assert Path("closed").exists() == is_patient
