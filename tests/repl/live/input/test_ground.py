"""The terminal's answer about its background never becomes typed text."""

import pytest

from agent_cli.repl.live.input.ground import (
    QUESTION,
    Ground,
    GroundAnswer,
    first_guess,
    ground_of,
)
from tests.e2e.program import AGENT_CLI, environment
from tests.repl.terminal import Terminal

WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"


def expecting() -> tuple[GroundAnswer, list[Ground]]:
    got: list[Ground] = []
    answer = GroundAnswer(lambda: 0.0)
    answer.expect(got.append)
    return answer, got


@pytest.mark.parametrize("text", [WHITE, WHITE.replace("\x1b\\", "\x07")])
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


@pytest.mark.parametrize(
    "keys", ["\x1b", "\x1b]", "\x1b[A", "\x1bb", "]11;rgb:f/f/f\x07", "\x1b]0;title\x07", "é\x1b"]
)
def test_other_keys_pass(keys: str) -> None:
    answer, got = expecting()

    passed = "".join(answer.keys_in(key) for key in keys) + answer.released()

    assert (passed, got) == (keys, [])


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("variable", "ground"), [("0;15", "light"), ("0;default;7", "light"), ("15;0", "dark")]
)
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
