"""The program in a real terminal."""

from pathlib import Path

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


def test_session_streams_replies_survives_interruptions_and_exits() -> None:
    """S1-05, S1-29, S1-30, S1c-9: streams as it arrives, survives an error, lists its commands.

    S1-22, C16: the user can tell which partial answer is void. C18: Ctrl-C closes the connection,
    the prompt is back, and the next request is valid.
    """
    gate, never = Gate(), Gate()
    with (
        serve_in_thread(
            reply("First piece, second piece.", gate=gate, hold_at=3, chunk_chars=12),
            error(400, "invalid_request_error", "refused", request_id="req_shown"),
            reply("Back again."),
            broken(reply("Half an answer"), "drop", after=4),
            reply("A whole answer."),
            reply("Never ending story", gate=never, hold_at=4),
            reply("Short story."),
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
        terminal.send("go\r")
        terminal.until("the reply so far is discarded")
        terminal.until("A whole answer.")
        terminal.until_prompt()
        terminal.send("long\r")
        terminal.until("Never")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        assert api.requests[5].disconnected.wait(60)
        terminal.until_prompt()
        terminal.send("short\r")
        terminal.until("Short story.")
        terminal.until_prompt()
        terminal.send(CTRL_D + CTRL_D)  # the run may not have ended when its answer is there
        assert terminal.exit_code() == 0
    assert api.refusals == []
    said = said_by_user(api.requests[6].body)
    assert (said[0], said[-1]) == ("hello", "short")
    assert "long" in said


def test_way_back_stands_apart_from_an_open_question() -> None:
    """The question is asked again then; its last row looked like a part of the way back."""
    call = tool_use("bash", {"command": "touch new"})
    with serve_in_thread(reply(call)) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("No")
        terminal.send(CTRL_D)
        terminal.until("press Ctrl-D again to leave")
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0
        rows = terminal.rows_at_the_end()
        at = rows.index("to resume this session:")
        assert (rows[at - 1], rows[at - 2] != "") == ("", True)


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
        terminal.send(CTRL_D + CTRL_D)  # the run may not have ended when its answer is there
        assert terminal.exit_code() == 0
        assert "this session could not be saved, so it cannot be resumed" in terminal.text
        assert "--resume" not in terminal.text


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


def test_files_are_written_changed_and_attached_as_the_person_answers() -> None:
    """No leaves a file alone and tells the model; yes writes it.

    The editor opens the whole file after the edit; the model reads the edit that ran instead.
    Threats 4 and 24: pasted text may name a file outside.
    """
    Path("a.py").write_bytes(b"one = 1\r\ntwo = 2\r\n")
    notes = Path.home() / "notes.md"
    notes.write_text("content outside")
    write = tool_use("write", {"path": "a.txt", "content": "text\n"})
    edit = tool_use("edit", {"path": "a.py", "edits": [{"old": "two = 2", "new": "two = 3"}]})
    look = editor('case "$1" in *.py) sed -i "s/two = 3/two = 4/" "$1";; esac')
    calls = (reply(write), reply("Understood."), reply(write), reply("Written."), reply(edit))
    with (
        serve_in_thread(*calls, *map(reply, ("Edited.", "Read n.", "Read y."))) as api,
        in_terminal(api, EDITOR=look) as terminal,
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
        terminal.until_prompt()
        terminal.send("three\r")
        terminal.until("Change the file first")
        answer(terminal, "e\r")
        terminal.until("Edited.")
        terminal.until_prompt()
        assert "as you edited it" in terminal.text
        for number, said in enumerate("ny", 1):
            terminal.send("see @~/notes.md\r")
            # Where the line breaks depends on the length of the path.
            terminal.until(
                lambda number=number: (  # type: ignore[misc]
                    "".join(terminal.text.split()).count("workspace?(y/n)") == number
                )
            )
            assert str(notes) in terminal.text.replace("\n", "")
            terminal.send(f"{said}\r")
            terminal.until(f"Read {said}.")
            terminal.until_prompt()

    assert Path("a.txt").read_text() == "text\n"
    assert Path("a.py").read_bytes() == b"one = 1\r\ntwo = 4\r\n"
    assert "input before it ran. Used instead" in str(api.requests[5].body)
    attached = ["content outside" in str(api.requests[at].body) for at in (6, 7)]
    assert attached == [False, True]
    assert api.refusals == []


def answer(terminal: Terminal, line: str) -> None:
    """Type *line* once the list of answers accepts Enter."""
    terminal.until("❯ ")
    terminal.send(line)


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


def test_output_of_an_own_command_waits_for_a_message_in_the_session() -> None:
    """It was lost with the program: continued with -c, the session knew nothing of it.

    `/clear` leaves it behind with its session; a rewind that takes the command back does not.
    """

    def last_said() -> str:
        return "".join(said_by_user(api.requests[-1].body)[-2:])

    def say(terminal: Terminal, line: str, shown: str) -> None:
        terminal.send(f"{line}\r")
        terminal.until(shown)
        terminal.until_prompt()

    with serve_in_thread(*[reply(f"Answer {n}.") for n in range(6)]) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            say(terminal, "hello", "Answer 0.")
            say(terminal, "!echo o''ne", "one")
            say(terminal, "!echo t''wo", "two")
            terminal.child.kill()
        run = agent_cli("-p", "-c", "why?", api=api)
        assert "takes along the output of `echo o''ne`, `echo t''wo`" in run.stderr
        assert "$ echo o''ne\none\n\nI ran this command:\n$ echo t''wo\ntwo\n\nwhy?" in last_said()
        assert agent_cli("-p", "-c", "and?", api=api).stderr == ""
        assert last_said().endswith("and?")
        assert "I ran" not in said_by_user(api.requests[-1].body)[-1]
        with in_terminal(api, "-c") as terminal:
            terminal.until_prompt()
            say(terminal, "more", "Answer 3.")
            say(terminal, "!echo th''ree", "three")
            terminal.send("/rewind 1\r")
            terminal.until("output of `echo th''ree`")
            terminal.send("\x15")  # not the prompt that is back in the input
            say(terminal, "again", "Answer 4.")
            assert "$ echo th''ree\nthree\n\nagain" in last_said()
            say(terminal, "!echo fo''ur", "four")
            say(terminal, "/clear", "waits in the session you left")
            say(terminal, "new", "Answer 5.")
            assert said_by_user(api.requests[-1].body) == ["new"]
