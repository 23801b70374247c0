"""A refusal quotes the text that the file has there instead."""

import pytest

from tests.tools.matching.editing import refusal

TEXT = 'def f():\n    if x:\n        return "one"\n    return 2\n'


def test_one_word_off_is_not_found_but_the_nearest_line_is_shown() -> None:
    why = refusal(TEXT, '    if z:\n        return "one"\n', "")

    assert "The closest is line 2" in why
    assert '     2\t    if x:\n     3\t        return "one"' in why


@pytest.mark.parametrize(
    ("text", "old", "words"),
    [
        (TEXT, "completely different words", "nor anything like it"),
        ("a\nb\n", "   ", "only blanks"),
        (TEXT, "", "old is empty"),
    ],
)
def test_nothing_alike_says_so(text: str, old: str, words: str) -> None:
    assert words in refusal(text, old, "x")
