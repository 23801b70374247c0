"""Keys read from a real terminal device."""

import array
import fcntl
import os
import re
import string
import termios
import time
import tty
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.repl.live.input import keyboard as module
from agent_cli.repl.live.input.keyboard import (
    ALT,
    QUESTION,
    Ground,
    GroundAnswer,
    Keyboard,
    first_guess,
    ground_of,
)
from agent_cli.settings.rules import KEY
from agent_cli.system.paths import user_settings_file
from tests.e2e.program import AGENT_CLI, environment, said_by_user
from tests.fakes import LIMIT_S
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.tables import each_row

# A terminal holds back more than this until some of it was read.
_READABLE_BYTES_MAX = 4_000
LINES = "".join(f"line {number} of it\r" for number in range(250))
WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"


@contextmanager
def typed(text: str, ahead: str = "a") -> Generator[Keyboard]:
    """Yield a keyboard on which *text* was typed after it read *ahead*, if any."""
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        with os.fdopen(slave, encoding="utf-8") as stdin:
            keyboard = Keyboard(stdin, GroundAnswer())
            for part in filter(None, (ahead, text)):
                os.write(master, part.encode())
                _wait_for(slave, min(len(part.encode()), _READABLE_BYTES_MAX))
                if part is ahead:
                    keyboard.read_keys()
            yield keyboard
    finally:
        os.close(master)


def _wait_for(terminal: int, count: int) -> None:
    """Wait until *count* bytes can be read: a kernel thread delivers them."""
    deadline, readable = time.monotonic() + LIMIT_S, array.array("i", [0])
    while readable[0] < count:
        assert time.monotonic() < deadline
        fcntl.ioctl(terminal, termios.FIONREAD, readable)


def read(text: str) -> list[KeyPress]:
    with typed(text) as keyboard:
        return keyboard.read_keys()


def test_many_lines_at_once_are_one_paste_even_over_several_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For terminals without paste marks: otherwise each line would be sent, and cost a request."""
    monkeypatch.setattr(module, "_QUIET_S", 0.5)  # for the rest, on a busy machine
    assert len(LINES) > 3 * 1024
    assert read(LINES) == [KeyPress(Keys.BracketedPaste, LINES)]


def test_paste_is_parsed_once_when_all_of_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser searches all that has come at each read: 5 MB took a quarter of a minute."""
    parsed: list[str] = []
    text = f"a\x1b[200~{'x' * 3_000}\x1b[201~b"
    with typed(text) as keyboard:
        feed = keyboard.vt100_parser.feed

        def noted(data: str) -> None:
            parsed.append(data)
            feed(data)

        monkeypatch.setattr(keyboard.vt100_parser, "feed", noted)
        keys: list[KeyPress] = []
        while len(keys) < 3:
            keys += keyboard.read_keys()

    assert [key.data for key in keys] == ["a", "x" * 3_000, "b"]
    assert next(filter(None, parsed)) == text


def test_paste_whose_end_comes_in_two_parts_ends_there() -> None:
    """Its Esc is passed on by itself when nothing follows it for a while."""
    master, slave = os.openpty()
    tty.setraw(slave)
    with os.fdopen(slave, encoding="utf-8") as stdin:
        keyboard = Keyboard(stdin, GroundAnswer())
        for part in ("\x1b[200~ab\x1b", "[201~c"):
            assert keyboard.flush_keys() == []
            os.write(master, part.encode())
            _wait_for(slave, len(part))
            keys = keyboard.read_keys()
    os.close(master)

    assert [(key.key, key.data) for key in keys] == [(Keys.BracketedPaste, "ab"), ("c", "c")]


@each_row("pressed", ["\x03", "\x03\x03"])
def test_ctrl_c_ends_a_paste_whose_end_never_comes(pressed: str) -> None:
    """A broken connection may lose the end; then all keys would be part of the paste, for good."""
    master, slave = os.openpty()
    tty.setraw(slave)
    with os.fdopen(slave, encoding="utf-8") as stdin:
        keyboard, keys = Keyboard(stdin, GroundAnswer()), list[KeyPress]()
        for part in ("\x1b[200~a\x03b", "\r", pressed, "c"):
            os.write(master, part.encode())
            _wait_for(slave, len(part))
            keys += keyboard.read_keys()
    os.close(master)

    assert [(key.key, key.data) for key in keys] == [
        (Keys.BracketedPaste, "a\x03b\r"),
        *[(Keys.ControlC, "\x03")] * len(pressed),
        ("c", "c"),
    ]


def test_two_lines_typed_ahead_stay_keys() -> None:
    """They were typed while the program was busy; Enter sends each."""
    keys = read("one\rtwo\r")

    assert [key.data for key in keys] == [*"one\rtwo\r"]
    assert [key.key for key in keys].count(Keys.ControlM) == 2


@each_row("text", ["one\rtwo\rthree", "one\rtwo\rthree\r"])
def test_three_lines_at_once_are_a_paste(text: str) -> None:
    """Each of them used to be sent, and cost a request."""
    assert read(text) == [KeyPress(Keys.BracketedPaste, text)]


def test_lines_typed_before_the_prompt_are_not_a_paste() -> None:
    """The program started slowly; all lines typed meanwhile used to become one message."""
    text = "one\rtwo\rthree\rfour"
    with typed(text, ahead="") as keyboard:
        assert [key.data for key in keyboard.read_keys()] == [*text]


def test_keys_other_than_text_end_a_paste() -> None:
    """An arrow, or Ctrl-C, keeps its meaning."""
    with typed("a\r" * 512 + "x\x03y") as keyboard:
        assert [(key.key, key.data) for key in keyboard.read_keys()] == [
            (Keys.BracketedPaste, "a\r" * 512),
            ("x", "x"),
            (Keys.ControlC, "\x03"),
            ("y", "y"),
        ]


@each_row(
    "stray",
    [
        *("\x1b[I", "\x1b[O", "\x1b[?62;22c", "\x1b[?2026;2$y", "\x1b[57358u", "\x1b[57441;2u"),
        *("\x1b[57358;1:3u", "\x1b[97;1:3u", "\x1b[9999999u"),
    ],
)
def test_sequence_that_is_no_key_is_left_out(stray: str) -> None:
    """Focus, answers to others' questions, Caps Lock: the Esc in them would stop a run."""
    assert [(key.key, key.data) for key in read(f"a{stray}b")] == [("a", "a"), ("b", "b")]


@each_row(
    ("sequence", "keys"),
    [
        ("\x1b[1;3A", [Keys.ControlUp]),
        ("\x1b[1;3B", [Keys.ControlDown]),
        ("\x1b[1;3D", [Keys.ControlLeft]),
        ("\x1b[1;9C", [Keys.ControlRight]),
        ("\x1b[5;3~", []),
        ("\x1b[1;7D", []),
    ],
)
def test_arrow_with_alt_is_one_key_and_takes_no_other_with_it(
    sequence: str, keys: list[Keys]
) -> None:
    """It was dropped with the next keys, and an Esc in it would stop a run."""
    assert [key.key for key in read(f"a{sequence}hello{sequence}")] == ["a", *keys, *"hello", *keys]


@each_row(
    ("typed", "keys"),
    [
        ("\x1bx", [ALT, "x"]),
        ("\x1bx\x1b\xe4", [ALT, "x", ALT, "\xe4"]),
        ("\x1b[120;3u", [ALT, "x"]),
        ("\x1bno", [Keys.Escape, "n", "o"]),
        ("\x1b\x03", [Keys.Escape, Keys.ControlC]),
        ("\x1b\x1bx", [Keys.Escape, ALT, "x"]),
    ],
)
def test_one_character_read_with_an_escape_is_that_key_with_alt(
    typed: str, keys: Sequence[KeyPress | str]
) -> None:
    """More text was typed after Esc, or sent by a program that drives this one."""
    expected = [key if isinstance(key, KeyPress) else KeyPress(key, key) for key in keys]
    read_keys = [key if key == ALT else KeyPress(key.key, key.key) for key in read(typed)]

    assert read_keys == expected


@each_row(
    ("sequence", "keys"),
    [
        ("\x1b[99;5u", [Keys.ControlC]),
        ("\x1b[99;69u", [Keys.ControlC]),  # with Caps Lock
        ("\x1b[27u", [Keys.Escape]),
        ("\x1b[13u", [Keys.ControlM]),
        ("\x1b[13;1:1u", [Keys.ControlM]),
        ("\x1b[127u", [Keys.ControlH]),
        ("\x1b[9;2u", [Keys.BackTab]),
        ("\x1b[98;3u", [Keys.Escape, "b"]),
        ("\x1b[228u", ["\xe4"]),
        ("\x1b[97:65;2u", ["A"]),
        ("\x1b[98;7u", [Keys.Escape, Keys.ControlB]),
    ],
)
def test_key_in_the_form_of_kitty_is_that_key(sequence: str, keys: list[str]) -> None:
    """A program that crashed left the mode on; without Ctrl-C nobody could stop a run."""
    assert [key.key for key in read(sequence)] == keys


@each_row(
    ("sequence", "typed"),
    [
        ("\x1b[97;2u", "A"),
        ("\x1b[97:65;2u", "A"),
        ("\x1b[49:33;2u", "!"),
        ("\x1b[223:7838;2u", "\u1e9e"),
        ("\x1b[223;2u", "\xdf"),  # its capital would be two letters
        ("\x1b[228:196:97;66u", "\xc4"),
        ("\x1b[97:1114112;2u", "A"),
        ("\x1b[97:57358;2u", "A"),
    ],
)
def test_shifted_key_in_the_form_of_kitty_types_the_shifted_character(
    sequence: str, typed: str
) -> None:
    """A letter came small, and one without a single capital ended the program."""
    assert [(key.key, key.data) for key in read(sequence)] == [(typed, typed)]


@each_row("text", ["\x1b[A", "\x1b[1;5D", "\x1bbc", "\x1b[200~\x1b[I\x1b[201~", "[I"])
def test_known_keys_and_pastes_pass_unchanged(text: str) -> None:
    assert "".join(key.data for key in read(text)) in (text, "\x1b[I")


def expecting() -> tuple[GroundAnswer, list[Ground]]:
    got: list[Ground] = []
    answer = GroundAnswer(lambda: 0.0)
    answer.expect(got.append)
    return answer, got


@each_row("text", [WHITE, WHITE.replace("\x1b\\", "\x07")])
def test_answer_between_keys_is_taken_out_however_it_is_cut(text: str) -> None:
    """Two cuts anywhere, also within the answer and with a pause after its Esc."""
    whole = f"ab{text}c"
    for first in range(len(whole)):
        for second in range(first, len(whole)):
            answer, got = expecting()
            parts = (whole[:first], whole[first:second], whole[second:])

            keys = "".join(answer.keys_in(part) for part in parts)

            assert (keys, got, answer.wait_s) == ("abc", ["light"], 0.0)


def test_answer_that_pauses_after_its_escape_leaves_only_that_key() -> None:
    answer, got = expecting()

    keys = [answer.keys_in("a\x1b"), answer.released(), answer.keys_in(f"{WHITE[1:]}b")]

    assert (keys, got) == (["a", "\x1b", "b"], ["light"])


@each_row(
    "keys", ["\x1b", "\x1b]", "\x1b[A", "\x1bb", "]11;rgb:f/f/f\x07", "\x1b]0;title\x07", "é\x1b"]
)
def test_other_keys_pass(keys: str) -> None:
    answer, got = expecting()

    passed = "".join(answer.keys_in(key) for key in keys) + answer.released()

    assert (passed, got) == (keys, [])


@each_row(
    ("color", "ground"),
    [
        ("rgb:ffff/ffff/ffff", "light"),
        ("rgb:fd/f6/e3", "light"),
        ("rgba:0000/2b2b/3636/ffff", "dark"),
        ("rgb:0/0/8", "dark"),
        ("#eeeeee", "light"),
        ("#1e1e1e", "dark"),
        ("rgb:/", None),
        ("fff", None),
    ],
)
def test_color_is_light_or_dark_by_how_bright_it_looks(color: str, ground: Ground | None) -> None:
    assert ground_of(color) == ground


@each_row(("variable", "ground"), [("0;15", "light"), ("0;default;7", "light"), ("15;0", "dark")])
def test_variable_of_the_terminal_counts_until_it_answers(variable: str, ground: Ground) -> None:
    assert first_guess({"COLORFGBG": variable}) == ground
    assert first_guess({}) == "dark"


def test_terminal_is_asked_behind_the_prompt_and_its_answer_changes_the_colors_only() -> None:
    """The answer arrives among keys, and never stands in the input."""
    with Terminal() as terminal:
        terminal.until(lambda: QUESTION.encode() in terminal.bytes)
        terminal.send(f"/the{WHITE}me\r")
        terminal.until("theme, now auto, here light:")

        assert terminal.bytes.count(QUESTION.encode()) == 1
        assert "rgb" not in terminal.text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"AGENT_CLI_UI__THEME": "dark"}])
def test_terminal_is_not_asked_if_the_answer_would_change_nothing(
    variables: dict[str, str],
) -> None:
    with Terminal(AGENT_CLI, **environment(None, {**variables})) as terminal:
        terminal.until("? or /help")
        terminal.send("x")
        terminal.until("you> x")

        assert QUESTION.encode() not in terminal.bytes


@contextmanager
def changed(keys: Mapping[str, str]) -> Generator[Keyboard]:
    """Yield a keyboard on which the user has changed *keys*."""
    master, slave = os.openpty()
    try:
        with os.fdopen(slave, encoding="utf-8") as stdin:
            yield Keyboard(stdin, GroundAnswer(), keys)
    finally:
        os.close(master)


ENTER, NEW_LINE = KeyPress(Keys.ControlM, "\r"), KeyPress(Keys.ControlJ, "\n")
ESCAPE = KeyPress(Keys.Escape, "\x1b")
SWAPPED = {"enter": "shift-enter", "alt-enter": "enter"}


@each_row(
    ("keys", "pressed", "meant"),
    [
        (SWAPPED, [ENTER], [Keys.ControlJ]),
        (SWAPPED, [NEW_LINE], [Keys.ControlJ]),
        (SWAPPED, [ESCAPE, ENTER], [Keys.ControlM]),
        ({"enter": "shift-enter"}, [ESCAPE, ENTER], [Keys.Escape, Keys.ControlM]),
        ({"enter": "ctrl-j", "ctrl-j": "enter"}, [ENTER, NEW_LINE], [Keys.ControlJ, Keys.ControlM]),
        ({"esc": "ctrl-g"}, [ESCAPE], [Keys.ControlG]),
        ({"esc": "ctrl-g"}, [ALT, KeyPress("p")], [Keys.Escape, "p"]),
        ({"alt-p": "ctrl-o"}, [KeyPress("a"), ALT, KeyPress("p")], ["a", Keys.ControlO]),
        ({"ctrl-y": "alt-enter"}, [KeyPress(Keys.ControlY)], [Keys.Escape, Keys.ControlM]),
        ({"ctrl-b": "none"}, [KeyPress(Keys.ControlB), KeyPress("b")], ["b"]),
        ({"shift-up": "f5"}, [KeyPress(Keys.ShiftUp)], [Keys.F5]),
        ({"tab": "down"}, [KeyPress(Keys.BracketedPaste, "\t")], [Keys.BracketedPaste]),
    ],
)
def test_changed_key_does_the_work_of_another(
    keys: Mapping[str, str], pressed: Sequence[KeyPress], meant: Sequence[Keys | str]
) -> None:
    """Once: two keys can change places."""
    with changed(keys) as keyboard:
        assert [key.key for key in keyboard.meant(pressed)] == meant


def test_enter_answers_where_it_must() -> None:
    """At a question another work would leave it without an answer."""
    with changed(SWAPPED) as keyboard:
        keyboard.keeps_enter = lambda: True

        assert keyboard.meant([ENTER]) == [ENTER]


def test_each_key_that_has_a_name_is_one_that_terminals_send() -> None:
    """The pattern of the names is in the settings, which know nothing of terminals."""
    moves = ("up", "down", "left", "right", "home", "end", "insert", "delete", "pageup", "pagedown")
    names = [
        *(f"ctrl-{letter}" for letter in string.ascii_lowercase),
        *(f"alt-{each}" for each in string.ascii_lowercase + string.digits),
        *(f"f{number}" for number in range(1, 25)),
        *("esc", "enter", "alt-enter", "shift-enter", "backspace", "alt-backspace"),
        *("tab", "shift-tab"),
        *(f"{modifier}{move}" for modifier in ("", "ctrl-", "shift-") for move in moves),
    ]

    assert [name for name in names if not re.fullmatch(KEY, name)] == []
    with changed(dict.fromkeys(names, "esc")) as keyboard:
        assert len(keyboard.meant([ESCAPE])) == 1
    for wrong in ("ctrl-1", "f25", "f0", "a", "ctrl-enter", "alt-up", "shift-a", "none", ""):
        assert not re.fullmatch(KEY, wrong)


def test_enter_begins_a_line_and_alt_enter_sends_at_a_terminal() -> None:
    """And a question is answered by Enter all the same."""
    settings = user_settings_file()
    settings.parent.mkdir(parents=True)
    settings.write_text('[ui.keys]\nenter = "shift-enter"\nalt-enter = "enter"\n')
    script = reply(tool_use("bash", {"command": "touch made"})), reply("Done.")
    with (
        serve_in_thread(*script) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until("tools: ")
        terminal.send("one\r")
        terminal.send("two\x1b\r")
        terminal.until("❯ 1 Yes")
        terminal.read_for(0.5)
        terminal.send("\r")
        terminal.until("Done.")
        [said, *_] = said_by_user(api.requests[0].body)

    assert said == "one\ntwo"
    assert Path("made").exists()
