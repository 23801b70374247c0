"""The draft with its keys, and the menu of completions in a real terminal."""

from pathlib import Path

from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.filters import Never
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.output import DummyOutput

from agent_cli.repl.live.input import Draft
from tests.repl.terminal import Terminal
from tests.tables import each_row

MARK = "[paste #1: 5,000 lines]"
PASTE = "\n" * 5_000
UP, DOWN, RIGHT, DELETE = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[3~"
BACKSPACE, LEFT, UNDO, DELETE_WORD = "\x7f", "\x1b[D", "\x1f", "\x17"


def draft() -> Draft:
    line = Draft(Path("state/history"), warn=print)
    line.buffer.complete_while_typing = Never()
    return line


async def typed(line: Draft, keys: str) -> str:
    """Return the text of *line* after *keys*; F1 ends the typing."""
    ended = KeyBindings()

    @ended.add("f1")
    def end(event: KeyPressEvent) -> None:
        event.app.exit()

    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        app: Application[None] = Application(
            Layout(Window(BufferControl(line.buffer))), key_bindings=ended
        )
        app.key_processor.before_key_press += lambda _keys: line.key_pressed()
        pipe.send_text(f"{keys}\x1bOP")
        await app.run_async()
    return line.buffer.text


async def test_keys_treat_a_paste_mark_as_one_character() -> None:
    """S6: any key erases, passes over or undoes it as a whole."""
    line = draft()
    line.insert(line.pasted(PASTE))

    assert await typed(line, f"x{LEFT}{LEFT}y") == f"y{MARK}x"
    assert await typed(line, f"\x05{BACKSPACE}{BACKSPACE}") == "y"
    assert await typed(line, UNDO) == f"y{MARK}"
    assert await typed(line, f"\x05{DELETE_WORD}") == "y"
    assert await typed(line, UNDO) == f"y{MARK}"
    assert line.text == f"y{PASTE}"


@each_row(
    "letter",
    [
        "e\u0301",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e8\U0001f1ed",
        "\u2764\ufe0f",
    ],
    ids=["combining mark", "joined emoji", "flag", "variation"],
)
async def test_keys_treat_a_grapheme_cluster_as_one_character(letter: str) -> None:
    """It looks like one; half of it is another letter."""
    line = draft()

    assert await typed(line, f"a{letter}{letter}{LEFT}x") == f"a{letter}x{letter}"
    assert await typed(line, f"{BACKSPACE}{LEFT}{RIGHT}y") == f"a{letter}y{letter}"
    assert await typed(line, DELETE) == f"a{letter}y"
    assert await typed(line, f"{BACKSPACE}{BACKSPACE}") == "a"


async def test_very_long_prompt_of_the_history_is_recalled_as_a_mark() -> None:
    """One Arrow-up goes beyond it, and looking at it stores it no second time."""
    line = draft()
    long = "a\n" * 500
    for text in ("first", long):
        line.keep(text)

    assert await typed(line, "new") == "new"
    assert await typed(line, UP) == "[paste #1: 500 lines]"
    assert line.text == long
    assert await typed(line, UP) == "first"
    assert await typed(line, f"{DOWN}{DOWN}!") == "new!"
    line.clear()
    assert line.buffer.history.get_strings() == ["first", long, "new!"]


def test_text_that_is_put_back_has_its_paste_marks() -> None:
    """A queued message of 5,000 lines returns to the input as it was typed."""
    line = draft()
    line.insert(line.pasted("a\nb\n" * 2_500))
    typed_text, sent_text = line.buffer.text, line.text.strip()
    line.clear()

    line.put_back(sent_text)

    assert (line.buffer.text, line.text.strip()) == (typed_text, sent_text)


async def test_forward_delete_removes_a_paste_mark_as_a_whole() -> None:
    """Two steps to the left are before the mark, not inside."""
    line = draft()
    line.insert(line.pasted(PASTE))
    line.insert("!")

    assert await typed(line, f"{LEFT}{LEFT}\x04") == "!"


def test_cleared_draft_is_kept_in_the_history_in_full() -> None:
    """S6: no typed text is lost; invalid bytes cannot keep it from being stored."""
    line = draft()
    line.insert(line.pasted(PASTE))
    line.insert("and \udcff")

    assert line.text == f"{PASTE}and ?"
    line.clear()
    line.insert("  ")
    line.clear()

    assert line.is_empty
    assert line.buffer.history.get_strings() == [f"{PASTE}and ?"]
    assert [*line.buffer.history.load_history_strings()] == [f"{PASTE}and ?"]


async def test_draft_replaced_by_an_older_prompt_is_kept_in_the_history() -> None:
    """S6: after Arrow-up, Enter sends the older prompt; the draft must not be lost."""
    line = draft()
    line.keep("older")

    assert await typed(line, "a draft\x1b[A") == "older"
    line.clear()

    assert line.buffer.history.get_strings() == ["older", "a draft", "older"]


def test_paste_gets_newlines_as_line_ends_and_keeps_control_characters() -> None:
    """The characters of a log arrive; the screen neutralizes them."""
    line = draft()

    line.insert(line.pasted("1\r\n2\r3\x1b[31mred\0"))

    assert line.buffer.text == "1\n2\n3\x1b[31mred\0"


def test_text_put_back_comes_before_text_typed_meanwhile() -> None:
    """Neither is lost."""
    line = draft()
    line.insert("new")

    line.put_back("old")

    assert (line.buffer.text, line.buffer.cursor_position) == ("old\nnew", 7)


@each_row(
    ("now", "whole"),
    [
        ("draft", "edited"),
        ("queued\ndraft", "queued\nedited"),
        ("draft[image 1: a.png 8×6]", "[image 1: a.png 8×6]\nedited"),
        ("", "edited"),
    ],
)
def test_text_that_arrived_while_the_editor_was_open_is_kept(now: str, whole: str) -> None:
    """A stopped run returns its queued messages to the input; the edited draft replaced them."""
    line = draft()
    line.insert(now)

    line.replace("draft", "edited")

    assert line.text == whole


def test_editor_opened_on_an_empty_input_replaces_nothing() -> None:
    """A message returned meanwhile stays."""
    line = draft()
    line.put_back("queued")

    line.replace("", "edited")

    assert line.text == "queued\nedited"


def test_text_typed_before_the_program_has_loaded_is_completed() -> None:
    """A slash or an @ typed at once used to show no menu until the next key."""
    with Terminal(AWAIT_BUILT="1") as terminal:
        terminal.until_prompt()
        terminal.send("/")
        terminal.until(lambda: terminal.last_row == "you> /")
        Path("built").touch()
        terminal.until("/clear ")


def test_enter_accepts_the_only_command_completion_and_runs_the_command() -> None:
    """`/con` with one entry shown used to be "unknown command /con"."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/con")
        terminal.until("/context")
        terminal.send("\r")
        terminal.until("tokens in the next request")
        terminal.until_prompt()
        terminal.send("/mode pl")
        terminal.until("only looks around")
        terminal.send("\r")
        terminal.until("mode: plan")
        terminal.until_prompt()
        terminal.send("/diff ")
        terminal.until("the last run only")
        terminal.send("\r")  # nothing of the argument is typed
        terminal.until("3 files, +2")

        assert "/diff run" not in terminal.text
        assert "there is no command" not in terminal.text


def test_enter_takes_the_first_row_unless_another_is_chosen_or_typed_in_full() -> None:
    """Several commands and files begin as typed; the arrow goes on from the first row."""
    Path("ab.py").touch()
    Path("ab").touch()
    Path("abc.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/co")
        terminal.until("/copy")
        commands = [row.split()[0] for row in terminal.text.splitlines() if row[:6] == "     /"]
        terminal.send("\x1b[B")
        terminal.until(f"you> {commands[1]}")
        terminal.send("\x15/mode")
        terminal.until("/model")
        terminal.send("\r")
        terminal.until("mode: ask; which one?")
        terminal.send("\x1b")
        terminal.until_prompt()
        terminal.send("see @ab")
        terminal.until("     abc.py")
        terminal.send("\r")
        terminal.until("see @ab' to model-1.")
        terminal.until_prompt()
        terminal.send("see @abc")
        terminal.until("     abc.py")
        terminal.send("\r")
        terminal.until(lambda: terminal.last_row == "you> see @abc.py")


def test_enter_accepts_the_only_file_completion_without_sending() -> None:
    """Typing continues; a path that merely contains the characters is not a match."""
    Path("src").mkdir()
    Path("src/application.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("look at @appl")
        terminal.until("src/application.py")
        terminal.send("\r")
        terminal.until(lambda: terminal.last_row == "you> look at @src/application.py")
        terminal.send(" please\r")
        terminal.until("attached @src/application.py: 0 lines")
        terminal.until("please' to model-1.")
        terminal.until_prompt()
        terminal.send("ask @sppy")
        terminal.until("     src/application.py")
        terminal.send("\r")
        terminal.until("You said 'ask @sppy'")


def test_escape_closes_the_completion_menu_and_keeps_the_text() -> None:
    """The next key opens it again."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("/con")
        terminal.until("/context")
        terminal.send("\x1b")
        terminal.until(lambda: "/context" not in terminal.text)
        terminal.until(lambda: "you> /con" in map(str.rstrip, terminal.text.splitlines()))
        terminal.send("t")
        terminal.until("/context")


def test_new_file_is_offered_while_its_name_is_typed() -> None:
    """The list is refreshed when nothing in it matches, and the menu opens by itself."""
    Path("old.py").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("see @old")
        terminal.until("     old.py")
        Path("brand_new.py").touch()
        terminal.send("\x15see @brand")
        terminal.until("     brand_new.py")


def test_paths_outside_the_workspace_are_completed() -> None:
    """`@../` and `@~/`, by the prefix of a name."""
    Path.home().mkdir(exist_ok=True)
    (Path.home() / "notes.md").touch()
    (Path.home() / ".hidden").touch()
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("see @~/no")
        terminal.until("     ~/notes.md")
        terminal.send(f"\x15see @../{Path.cwd().name[:-1]}")
        terminal.until(f"     ../{Path.cwd().name}/")
        assert ".hidden" not in terminal.text


def test_undo_takes_back_a_word() -> None:
    """prompt_toolkit takes back one character, though it means to take back all that was typed."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("find the race")
        terminal.until(lambda: terminal.last_row == "you> find the race")
        terminal.send(UNDO)
        terminal.until(lambda: terminal.last_row == "you> find the")
        terminal.send(UNDO)
        terminal.until(lambda: terminal.last_row == "you> find")


def test_question_mark_at_an_empty_prompt_opens_the_help() -> None:
    """Anywhere else it is a plain question mark."""
    with Terminal() as terminal:
        terminal.until_loaded()
        terminal.send("?")
        terminal.until("Ctrl-J")
        terminal.until_prompt()
        terminal.send("why?\r")
        terminal.until("You said 'why?'")
