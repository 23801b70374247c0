"""Blanks at the ends of lines, and in blank lines, stay as in the file."""

import pytest

from tests.tools.matching.editing import check, edited, refusal, repairs


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a \nb\nc\n", "a\nb  \n", "a\nB  \n", "a \nB\nc\n"),
        ("a \nb\n", "a\nb  \nextra", "", None),
        ("a \n \nb \n", "a\n\nb\n", "", ""),
        ("x\n   \ny\n", "\n\n", "\n", None),
        ("a\n\nb\n", "a  \n  \n", "c  \n  \n", "c\n\nb\n"),
        # Not all lines of new share the blanks of old: they may be intended.
        ("a\nb\n", "b  \n", "c  \nb\n", None),
        ("a\nb\n", "b  \n", "c\nb\n", "a\nc\nb\n"),
    ],
)
def test_only_blanks_that_the_model_added_are_lost(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """Unchanged lines are the file's own; the others lose the blanks added by the model."""
    check(text, old, new, expected)


def test_lines_that_only_hold_blanks_stay_as_they_are() -> None:
    text = "if a:\n    b\n    \n    c\n"

    assert edited(text, "    b\n\n    c\n", "    b\n\n    d\n") == text.replace("c", "d")
    why = refusal(text, "    b\n\n    c\n", "    b\n\n\n    d\n")
    assert "blank lines there hold blanks" in why


def test_the_repair_is_named() -> None:
    assert repairs("a\nb\n", "a  \n", "c  \n") == "blanks at line ends"
