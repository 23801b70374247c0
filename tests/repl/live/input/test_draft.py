"""The draft, the line being typed, with its keys."""

from pathlib import Path

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.filters import Never
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.output import DummyOutput

from agent_cli.repl.live.input.draft import Draft

MARK = "[paste #1: 5,000 lines]"
PASTE = "\n" * 5_000
UP, DOWN = "\x1b[A", "\x1b[B"
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
    line.paste(PASTE)

    assert await typed(line, f"x{LEFT}{LEFT}y") == f"y{MARK}x"
    assert await typed(line, f"\x05{BACKSPACE}{BACKSPACE}") == "y"
    assert await typed(line, UNDO) == f"y{MARK}"
    assert await typed(line, f"\x05{DELETE_WORD}") == "y"
    assert await typed(line, UNDO) == f"y{MARK}"
    assert line.text == f"y{PASTE}"


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
    line.paste("a\nb\n" * 2_500)
    typed_text, sent_text = line.buffer.text, line.text.strip()
    line.clear()

    line.put_back(sent_text)

    assert (line.buffer.text, line.text.strip()) == (typed_text, sent_text)


async def test_forward_delete_removes_a_paste_mark_as_a_whole() -> None:
    """Two steps to the left are before the mark, not inside."""
    line = draft()
    line.paste(PASTE)
    line.insert("!")

    assert await typed(line, f"{LEFT}{LEFT}\x04") == "!"


def test_cleared_draft_is_kept_in_the_history_in_full() -> None:
    """S6: no typed text is lost; invalid bytes cannot keep it from being stored."""
    line = draft()
    line.paste(PASTE)
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

    line.paste("1\r\n2\r3\x1b[31mred\0")

    assert line.buffer.text == "1\n2\n3\x1b[31mred\0"


def test_text_put_back_comes_before_text_typed_meanwhile() -> None:
    """Neither is lost."""
    line = draft()
    line.insert("new")

    line.put_back("old")

    assert (line.buffer.text, line.buffer.cursor_position) == ("old\nnew", 7)


@pytest.mark.parametrize(
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
