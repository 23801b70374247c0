"""The first prompt, shown before the program is imported."""

from pathlib import Path

import pytest

from agent_cli.system.paths import user_settings_file
from tests.e2e.program import agent_cli, environment, said_by_user
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread
from tests.repl.terminal import COLUMNS, Terminal

GATED = str(Path(__file__).with_name("gated_start.py"))
CTRL_C, CTRL_D = "\x03", "\x04"


def gated(api: FakeMessagesApi | None, *arguments: str, **more: str | None) -> Terminal:
    Path("typed").unlink(missing_ok=True)  # of an earlier start
    return Terminal(GATED, *arguments, **environment(api, more))


def go_on() -> None:
    Path("typed").touch()


def prompts(terminal: Terminal) -> list[str]:
    return [row for row in terminal.text.split("\n") if row.startswith("you>")]


def marks_pastes(terminal: Terminal) -> bool:
    return terminal.bytes.rfind(b"\x1b[?2004h") > terminal.bytes.rfind(b"\x1b[?2004l")


def first_message_is_answered_while_typing(terminal: Terminal) -> None:
    """Check that keys typed before the program is loaded are in the final prompt."""
    terminal.until(lambda: terminal.last_row == "you>")
    terminal.send("next")
    terminal.until("you> next")
    go_on()
    terminal.until("Good morning.")
    terminal.until(lambda: terminal.last_row == "you> next")
    assert prompts(terminal) == ["you> Good day", "you> next"]


def test_input_editor_takes_over_the_first_prompt_and_its_text() -> None:
    """S1-05: one prompt is visible, whichever part draws it, and no key is lost."""
    with serve_in_thread() as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send("helo\x7flo")
        terminal.until("you> hello")
        go_on()
        terminal.until("? or /help")
        terminal.until(lambda: terminal.last_row == "you> hello")
        assert prompts(terminal) == ["you> hello"]


@pytest.mark.parametrize("text", ["early", "long " * (COLUMNS // 2)], ids=["short", "wrapped"])
def test_line_entered_at_the_first_prompt_is_sent_and_shown_once(text: str) -> None:
    """The terminal echoed it, on any number of rows; the screen shows it in its place."""
    with serve_in_thread(reply("Good morning.")) as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send(f"{text}\rnext")
        terminal.until(lambda: terminal.last_row == "next")
        go_on()
        terminal.until("Good morning.")
        terminal.until(lambda: terminal.last_row == "you> next")
        assert [row[:9] for row in prompts(terminal)] == [f"you> {text[:4]}", "you> next"]
    assert said_by_user(api.requests[0].body) == [text.strip()]


@pytest.mark.parametrize("rest", ["", "two\x1b[201~"], ids=["whole", "in parts"])
def test_lines_pasted_at_the_first_prompt_are_one_prompt(rest: str) -> None:
    """Each was sent on its own: many paste as soon as they see the prompt, and so do programs."""
    with serve_in_thread(reply("Good morning.")) as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        assert marks_pastes(terminal)
        terminal.send("\x1b[200~one\r" + ("" if rest else "two\x1b[201~"))
        terminal.until("one")
        go_on()
        terminal.until("? or /help")
        terminal.send(rest)
        terminal.until("you> one\n     two")
        assert prompts(terminal) == ["you> one"]
        terminal.send("\r")
        terminal.until("Good morning.")
    assert said_by_user(api.requests[0].body) == ["one\ntwo"]


def test_pastes_are_marked_no_longer_where_the_shell_follows() -> None:
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("max_rounds = ")
    with gated(None) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send("\x1b[200~one\rtwo\x1b[201~")
        terminal.until("two")
        go_on()
        assert terminal.exit_code() == 2
        assert not marks_pastes(terminal)


def test_text_typed_at_the_first_prompt_does_not_answer_the_trust_question() -> None:
    """Threat 10: a prompt that begins with y is not a yes."""
    Path("appsettings.toml").write_text("max_rounds = 7")
    with serve_in_thread() as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send("y\r")
        terminal.until(lambda: terminal.last_row == "")
        go_on()
        terminal.until("Trust them, until they change? [y/N]")
        terminal.send("\r")
        terminal.until("appsettings.toml ignored")


TRUST = "Trust them, until they change? [y/N]"


def asked_about_trust(terminal: Terminal, typed: str = "", last_row: str = "you>") -> None:
    """Type *typed* at the first prompt, and wait for the question."""
    terminal.until(lambda: terminal.last_row == "you>")
    terminal.send(typed)
    terminal.until(lambda: terminal.last_row == last_row)
    go_on()
    terminal.until(TRUST)


def test_what_was_typed_before_the_trust_question_is_sent_and_typed_on() -> None:
    """It was echoed as a prompt, and never sent; the unfinished word was lost as well."""
    Path("appsettings.toml").write_text("max_rounds = 7")
    with serve_in_thread(reply("Good morning.")) as api, gated(api) as terminal:
        asked_about_trust(terminal, "early\rnext", "next")
        terminal.send("y\r")
        terminal.until("Good morning.")
        terminal.until(lambda: terminal.last_row == "you> next")
        assert "ignored" not in terminal.text
    assert said_by_user(api.requests[0].body) == ["early"]


def test_screen_reader_mode_sends_what_was_typed_before_the_trust_question() -> None:
    Path("appsettings.toml").write_text("max_rounds = 7")
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("[ui]\nscreen_reader = true")
    with serve_in_thread(reply("Good morning.")) as api, gated(api) as terminal:
        asked_about_trust(terminal, "early\rnext", "next")
        terminal.send("n\r")
        terminal.until("Good morning.")
        terminal.until_prompt()
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0
    assert said_by_user(api.requests[0].body) == ["early"]


@pytest.mark.parametrize(
    ("typed", "rows"),
    [("fix the test\r", "you> fix the test"), ("y\r1\r", "you> y\n     1")],
    ids=["a prompt", "pasted lines"],
)
def test_text_meant_for_the_prompt_does_not_answer_the_trust_question(
    typed: str, rows: str
) -> None:
    """Threat 10: nor does a prompt say no for good; it is kept, and not sent by itself."""
    Path("appsettings.toml").write_text("max_rounds = 7")
    with serve_in_thread() as api, gated(api) as terminal:
        asked_about_trust(terminal)
        terminal.send(typed)
        terminal.until(lambda: terminal.text.count(TRUST) == 2)
        terminal.send("n\r")
        terminal.until("appsettings.toml ignored")
        terminal.until(lambda: rows in terminal.text)
    assert api.requests == []


def test_end_of_the_input_at_the_trust_question_is_no_answer() -> None:
    """Nobody has decided: the next start asks again."""
    Path("appsettings.toml").write_text("max_rounds = 7")
    for _start in range(2):
        with serve_in_thread() as api, gated(api) as terminal:
            asked_about_trust(terminal)
            terminal.send(CTRL_D)
            terminal.until("appsettings.toml ignored")


def test_startup_error_replaces_the_first_prompt() -> None:
    """Nothing looks like a prompt any more, and the shell does not get the typed line."""
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("max_rounds =")
    with serve_in_thread() as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send("rm -rf x\r")
        terminal.until(lambda: terminal.last_row == "")
        go_on()
        assert terminal.exit_code() == 2
        assert terminal.text.count("agent-cli:") == 1
        assert "left for the shell" not in terminal.text


def test_ctrl_c_at_the_first_prompt_leaves_a_clean_row() -> None:
    """S1-29: exit code 130, and no traceback."""
    with serve_in_thread() as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send(CTRL_C)
        assert terminal.exit_code() == 130
        assert terminal.text == ""


def test_screen_reader_mode_from_settings_gets_the_plain_prompt() -> None:
    """So early, only arguments and the terminal are known."""
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("[ui]\nscreen_reader = true")
    with serve_in_thread() as api, gated(api) as terminal:
        go_on()
        terminal.until("tools: ")
        terminal.until_prompt()
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0


def test_screen_reader_mode_loses_no_line_entered_at_the_first_prompt() -> None:
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("[ui]\nscreen_reader = true")
    with serve_in_thread(reply("ok")) as api, gated(api) as terminal:
        terminal.until("you>")
        terminal.send("go\rand th")
        terminal.until("and th")
        go_on()
        terminal.until("ok")
        terminal.until_prompt()
        terminal.send(CTRL_D)
        assert terminal.exit_code() == 0

    assert said_by_user(api.requests[-1].body) == ["go"]


@pytest.mark.parametrize("end", ["\r", ""], ids=["sent", "without Enter"])
def test_screen_reader_mode_sends_a_paste_at_the_first_prompt_as_one_prompt(end: str) -> None:
    """Each of its lines was sent on its own, and the last one was lost without Enter."""
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text("[ui]\nscreen_reader = true")
    with serve_in_thread(reply("ok then")) as api, gated(api) as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        terminal.send(f"\x1b[200~one\rtwo\rthree\x1b[201~{end}")
        terminal.until("three")
        go_on()
        terminal.until("three\\" if not end else "ok then")
        assert len(api.requests) == (1 if end else 0)
        terminal.send("" if end else "\r")
        terminal.until("ok then")

    assert said_by_user(api.requests[-1].body) == ["one\ntwo\nthree"]


@pytest.mark.parametrize("end", ["\r", ""], ids=["sent", "without Enter"])
def test_paste_at_a_prompt_without_a_screen_is_one_prompt(end: str) -> None:
    """Each line was sent as a prompt, the first ones without the rest; Ctrl-D behind it counts."""
    with serve_in_thread(reply("ok then")) as api, gated(api, TERM="dumb") as terminal:
        go_on()
        terminal.until("tools: ")
        terminal.until_prompt()
        terminal.send(f"one\rtwo\rthree{end}")
        terminal.until("three" if not end else "ok then")
        terminal.send("" if end else " and four\r")
        terminal.until("ok then")
        terminal.send("/help\r\x04")

        assert terminal.exit_code() == 0
        assert "/compact" in terminal.text

    rest = "" if end else " and four"
    assert said_by_user(api.requests[-1].body) == [f"one\ntwo\nthree{rest}"]


def test_dumb_terminal_shows_no_first_prompt() -> None:
    """It could not be erased there, and would be left above the prompt of the plain session."""
    with serve_in_thread() as api, gated(api, TERM="dumb") as terminal:
        go_on()
        terminal.until("tools: ")
        terminal.until_prompt()
        assert len(prompts(terminal)) == 1


@pytest.mark.parametrize("argument", ["--version", "sessions", "config example", "-p"])
def test_command_without_a_screen_shows_no_first_prompt(argument: str) -> None:
    """No screen would take it over."""
    with gated(None, argument) as terminal:
        go_on()
        terminal.exit_code()
        assert b"you>" not in terminal.bytes


def test_first_prompt_is_shown_before_a_first_message_is_parsed() -> None:
    """S1-05: settings are not imported yet; no command has three words."""
    with serve_in_thread(reply("Good morning.")) as api, gated(api, "a good day") as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        go_on()
        terminal.until("Good morning.")
    assert said_by_user(api.requests[0].body) == ["a good day"]


@pytest.mark.parametrize("arguments", [("Good day",), ("--permission-mode", "plan", "Good day")])
def test_first_prompt_is_shown_while_a_first_message_is_sent(arguments: tuple[str, ...]) -> None:
    """S1-05: keys typed meanwhile are in the next prompt, and none is lost."""
    with (
        serve_in_thread(reply("Good morning.")) as api,
        gated(api, *arguments, AFTER_PARSING="1") as terminal,
    ):
        first_message_is_answered_while_typing(terminal)


def test_first_prompt_is_shown_for_a_continued_session() -> None:
    """S1-05: the row below the old conversation is the first prompt's."""
    with serve_in_thread(reply("Good morning.")) as api:
        assert agent_cli("-p", "Good day", api=api).code == 0
        with gated(api, "-c") as terminal:
            first_message_is_answered_while_typing(terminal)


def test_continue_without_a_session_replaces_the_first_prompt_with_an_error() -> None:
    with serve_in_thread() as api, gated(api, "-c") as terminal:
        terminal.until(lambda: terminal.last_row == "you>")
        go_on()
        assert terminal.exit_code() != 0
        assert prompts(terminal) == []
