"""Blank lines around a quoted text can hide that it omits a line."""

from tests.tables import each_row
from tests.tools.matching.editing import check, refusal

TEXT = "a\n\nb\nc\nd\n\ne\n"


@each_row(
    ("old", "new", "expected"),
    [
        # d may be missing at the end, or b at the start.
        ("\nb\nc\n\n", "\nB\nC\nD\n\n", None),
        ("\n  b\n  c\n\n", "\n  B\n  C\n  D\n\n", None),
        ("\n  c\n  d\n\n", "\n  B\n  d\n\n", None),
        ("\nb\nc\n\n", "\n\n", None),
        # New continues like old, so nothing is hidden.
        ("\nb\nc\n\n", "\nB\nc\n\n", "a\n\nB\nc\nd\n\ne\n"),
    ],
)
def test_edit_that_may_omit_a_line_at_its_ends_is_refused(
    old: str, new: str, expected: str | None
) -> None:
    check(TEXT, old, new, expected)


def test_blank_lines_are_not_taken_off_where_the_text_with_them_stands_too() -> None:
    """With them, it stands at the second place, with another indentation."""
    text = "f {\n        a()\n        b()\n}\n\n    a()\n\nc()\n"

    assert "indented" in refusal(text, "\n        a()\n\n", "\n        d(\n        e)\n\n")
