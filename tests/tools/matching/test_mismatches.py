"""A refusal quotes the closest text of the file."""

from tests.tables import each_row
from tests.tools.matching.editing import refusal

TEXT = 'def f():\n    if x:\n        return "one"\n    return 2\n'


def test_text_with_one_wrong_word_is_refused_with_the_closest_line() -> None:
    why = refusal(TEXT, '    if z:\n        return "one"\n', "")

    assert "The closest is line 2" in why
    assert '2\t    if x:\n3\t        return "one"' in why


@each_row(
    ("text", "old", "words"),
    [
        (TEXT, "completely different words", "The closest is line 4"),
        ("a\n\nb\n", "   ", "only blanks, like line 2"),
        ("\n", "a", "the file has no text"),
        (TEXT, "", "old is empty"),
    ],
)
def test_text_without_any_similar_line_is_refused_with_the_reason(
    text: str, old: str, words: str
) -> None:
    assert words in refusal(text, old, "x")
