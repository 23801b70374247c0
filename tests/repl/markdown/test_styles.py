"""Widths of text, and where rows break."""

import sys

from prompt_toolkit.utils import get_cwidth

from agent_cli.repl.markdown.styles import cells, folded, is_narrow, wrapped
from tests.tables import each_row


def rows(text: str, width: int, *, breaks_words: bool = False) -> list[str]:
    return [text[a:b] for a, b in wrapped(text, width, breaks_words=breaks_words)]


def test_narrow_characters_take_one_cell() -> None:
    """The shortcut around the table of widths is right for every character it accepts."""
    narrow = [char for char in map(chr, range(sys.maxunicode + 1)) if is_narrow(char)]

    assert [char for char in narrow if get_cwidth(char) != 1] == []
    assert len(narrow) > 1_000


@each_row(
    ("text", "count"),
    [
        *(("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1)),
        *(("\u26a0\ufe0f", 2), ("\u26a0", 1), ("\u2b50\ufe0f", 2), ("1\ufe0f\u20e3", 2)),
        *(("🇩🇪", 2), ("🇩🇪🇫🇷", 4)),
    ],
)
def test_cells_are_counted_as_in_a_terminal(text: str, count: int) -> None:
    assert cells(text) == count


@each_row(
    ("text", "expected"),
    [
        ("one two three", ["one two", "three"]),
        ("1234567890 a", ["1234567890", "a"]),
        ("a   b", ["a   b"]),
        ("  123456789   1  ", ["123456789 ", "1  "]),
        ("a 123456789012 b", ["a", "123456789012", "b"]),
        ("123456789012 ", ["123456789012 "]),
        ("", [""]),
        ("日本語日本語日", ["日本語日本", "語日"]),
        ("日本語日本。語", ["日本語日", "本。語"]),
        ("ab 日本語日本語", ["ab 日本語", "日本語"]),
        ("日本 abcdefghijklm", ["日本", "abcdefghijklm"]),
        ("öäü é one two", ["öäü é one", "two"]),
        ("12345678 🇩🇪", ["12345678", "🇩🇪"]),
        ("1234567 🇩🇪🇫🇷", ["1234567 🇩🇪", "🇫🇷"]),
        ("one four \u26a0\ufe0f", ["one four", "\u26a0\ufe0f"]),
    ],
)
def test_rows_break_at_blanks_and_between_wide_characters(text: str, expected: list[str]) -> None:
    """A word longer than a row stays whole: the terminal wraps it, and it can be copied."""
    assert rows(text, 10) == expected


@each_row("text", ["x" * 25, "語" * 12 + "x", "ｘ" * 11])
def test_long_words_are_broken_if_breaks_words_is_set(text: str) -> None:
    """The columns of a table need this."""
    found = rows(text, 10, breaks_words=True)

    assert "".join(found) == text
    assert max(map(cells, found)) <= 10


@each_row("character", ["x", "\u0440\u0301"])
def test_endless_word_is_eventually_broken(character: str) -> None:
    """It breaks at a multiple of the width, so that no row of the terminal is half empty."""
    found = rows(character * 5_000, 30)

    assert "".join(found) == character * 5_000
    assert cells(found[0]) == 2_040


def test_long_line_is_folded_at_the_width_of_the_terminal() -> None:
    """A wide character that does not fit goes to the next row."""
    text = "ab日本語"

    assert [text[a:b] for a, b in folded(text, 5)] == ["ab日", "本語"]
    assert [*folded("abcdef", 3)] == [(0, 3), (3, 6)]
    assert [*folded("", 3)] == [(0, 0)]
