"""The program in a real terminal."""

from pathlib import Path

import pytest

from agent_cli.system.paths import sessions_dir
from tests.e2e.program import agent_cli, in_terminal, said_by_user
from tests.messages_api import (
    Gate,
    broken,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.repl.terminal import Terminal, editor

CTRL_C, CTRL_D = "\x03", "\x04"


def test_session_streams_replies_survives_an_error_and_exits() -> None:
    """S1-05, S1-29, S1-30, S1c-9: streams as it arrives, survives an error, lists its commands."""
    gate = Gate()
    with (
        serve_in_thread(
            reply("First piece, second piece.", gate=gate, hold_at=3, chunk_chars=12),
            error(400, "invalid_request_error", "refused", request_id="req_shown"),
            reply("Back again."),
        ) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until("tools: read, edit, write, bash, grep, glob and ")
        terminal.until("? or /help shows")
        terminal.until_prompt()
        terminal.send("hello\r")
        terminal.until("First piece,")
        assert "second piece" not in terminal.text
        gate.open()
        terminal.until("second piece.")
        terminal.until_prompt()
        terminal.send("break\r")
        terminal.until("req_shown")
        terminal.until_prompt()
        terminal.send("again\r")
        terminal.until("Back again.")
        terminal.until_prompt()
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0
    assert api.refusals == []


def test_session_that_could_not_be_saved_is_not_offered_for_a_resume() -> None:
    """As in a read-only home; root may write anywhere, so a file takes the place of the folder."""
    folder = sessions_dir()
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    with serve_in_thread(reply("Hello.")) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("hello\r")
        terminal.until("Hello.")
        terminal.until_prompt()
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0
        assert "this session could not be saved, so it cannot be resumed" in terminal.text
        assert "--resume" not in terminal.text


def test_ctrl_c_in_mid_stream_keeps_the_conversation() -> None:
    """C18: the connection is closed, the prompt is back, and the next request is valid."""
    gate = Gate()
    with (
        serve_in_thread(
            reply("Never ending story", gate=gate, hold_at=4), reply("Short story.")
        ) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("long\r")
        terminal.until("Never")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        assert api.requests[0].disconnected.wait(60)
        terminal.until_prompt()
        terminal.send("short\r")
        terminal.until("Short story.")
    assert api.refusals == []
    said = said_by_user(api.requests[1].body)
    assert (said[0], said[-1]) == ("long", "short")


def test_ctrl_c_ends_the_wait_before_a_retry() -> None:
    """A wait of minutes must not block the terminal."""
    with (
        serve_in_thread(error(429, "rate_limit_error", "slow"), reply("Now.")) as api,
        in_terminal(api, AGENT_CLI_RETRY__BASE_S="50") as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("retry 1 of 5 in ")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until_prompt()
        terminal.send("again\r")
        terminal.until("Now.")
    assert api.refusals == []


def test_user_changes_the_file_that_an_edit_would_leave() -> None:
    """The editor opens the whole file after the edit; the model reads the edit that ran instead."""
    Path("a.py").write_bytes(b"one = 1\r\ntwo = 2\r\n")
    edit = tool_use("edit", {"path": "a.py", "edits": [{"old": "two = 2", "new": "two = 3"}]})
    look = editor('case "$1" in *.py) sed -i "s/two = 3/two = 4/" "$1";; esac')
    with (
        serve_in_thread(reply(edit), reply("Understood.")) as api,
        in_terminal(api, EDITOR=look) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("one\r")
        terminal.until("Change the file first")
        answer(terminal, "e\r")
        terminal.until("Understood.")
        terminal.until_prompt()

        assert "as you edited it" in terminal.text
    assert Path("a.py").read_bytes() == b"one = 1\r\ntwo = 4\r\n"
    assert "input before it ran. Used instead" in str(api.requests[1].body)
    assert api.refusals == []


def test_write_runs_only_after_approval() -> None:
    """No leaves the file alone and tells the model; yes writes it."""
    write = tool_use("write", {"path": "a.txt", "content": "text\n"})
    with (
        serve_in_thread(reply(write), reply("Understood."), reply(write), reply("Written.")) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("one\r")
        terminal.until("allow?")
        answer(terminal, "n\r")
        terminal.until("Understood.")
        assert not Path("a.txt").exists()
        terminal.until_prompt()
        terminal.send("two\r")
        terminal.until(lambda: terminal.text.count("allow?") == 2)
        answer(terminal, "y\r")
        terminal.until("Written.")
    assert Path("a.txt").read_text() == "text\n"
    assert api.refusals == []


def answer(terminal: Terminal, line: str) -> None:
    """Type *line* once the list of answers accepts Enter."""
    terminal.until("❯ ")
    terminal.send(line)


def test_broken_stream_says_that_the_partial_text_is_discarded() -> None:
    """S1-22, C16: the user can tell which partial answer is void."""
    with (
        serve_in_thread(
            broken(reply("Half an answer"), "drop", after=4), reply("A whole answer.")
        ) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("the reply so far is discarded")
        terminal.until("A whole answer.")
        terminal.until_prompt()
    assert api.refusals == []


@pytest.mark.parametrize("answer", ["n", "y"])
def test_file_outside_that_a_prompt_names_is_attached_after_a_question(answer: str) -> None:
    """Threats 4 and 24: pasted text may name it."""
    notes = Path.home() / "notes.md"
    notes.write_text("content outside")
    with serve_in_thread(reply("Read.")) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("see @~/notes.md\r")
        # Where the line breaks depends on the length of the path.
        terminal.until(lambda: "workspace?(y/n)" in "".join(terminal.text.split()))
        assert str(notes) in terminal.text.replace("\n", "")
        terminal.send(f"{answer}\r")
        terminal.until("Read.")
        terminal.until_prompt()

    assert ("content outside" in str(api.requests[0].body)) == (answer == "y")


def test_read_only_commands_show_their_output_on_a_terminal() -> None:
    """A spinner or a table must not hide the output."""
    with serve_in_thread(*[reply("ok")] * 2) as api:
        assert agent_cli("-p", "good morning", api=api).code == 0
        for command, seen in {
            "doctor": "python",
            "config show": "model",
            "sessions list": "good morning",
            "sessions verify": "0 damaged",
            "mcp list": "no MCP servers",
            "hooks list": "no hooks",
            "trust": "trusted",
            "permissions explain bash ls": "ls",
        }.items():
            with in_terminal(api, *command.split()) as terminal:
                terminal.until(seen)
                code = terminal.exit_code()

            assert "internal error" not in terminal.text, command
            assert code in {0, 1}, command


def test_without_colours_markdown_is_drawn_with_weight_alone() -> None:
    """NO_COLOR is about colours: no mark of the source is left."""
    answer = reply("# Title\n\nSome **bold** text with `code` in it.")
    with serve_in_thread(answer) as api, in_terminal(api, NO_COLOR="1") as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("Some bold text with code in it.")
        terminal.until_prompt()

        assert "# Title" not in terminal.text
