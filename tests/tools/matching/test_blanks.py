"""Blanks at the ends of lines, and in blank lines, stay as in the file."""

from tests.tables import each_row
from tests.tools.matching.editing import check, edited, refusal, repairs


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("a \nb\nc\n", "a  \nb \n", "a  \nB \n", "a \nB\nc\n"),
        ("a\nb\nc\n", "a\nb  \n", "a\nB  \n", None),
        # A new line of such blanks alone is blank, if all blank lines are.
        ("a\nb\nc\n", "a  \nb  \n", "a  \n  \nB  \n", "a\n\nB\nc\n"),
        ("a\nb\nc\n", "a  \nb  \n", "a  \n   \nB  \n", None),
        ("a \nb\n", "a\nb  \nextra", "", None),
        ("a \n \nb \n", "a\n\nb\n", "", ""),
        ("x\n   \ny\n", "\n\n", "\n", None),
        ("a\n\nb\n", "a  \n  \n", "c  \n  \n", "c\n\nb\n"),
        # Not all lines of new share the blanks of old: they may be intended.
        ("a\nb\n", "b  \n", "c  \nb\n", None),
        ("a\nb\n", "b  \n", "c\nb\n", "a\nc\nb\n"),
    ],
)
def test_only_blanks_added_by_the_model_are_removed(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """Unchanged lines stay as in the file; the others lose the blanks the model added."""
    check(text, old, new, expected)


def test_lines_of_only_blanks_stay_unchanged() -> None:
    text = "if a:\n    b\n    \n    c\n"

    assert edited(text, "    b\n\n    c\n", "    b\n\n    d\n") == text.replace("c", "d")
    why = refusal(text, "    b\n\n    c\n", "    b\n\n\n    d\n")
    assert "blank lines there hold blanks" in why


def test_repair_of_blanks_at_line_ends_is_reported() -> None:
    assert repairs("a\nb\n", "a  \n", "c  \n") == "blanks at line ends"
