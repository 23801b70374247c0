"""Quoted lines with shifted indentation, and the shift back."""

import re

from tests.tables import each_row
from tests.tools.matching.editing import check, edited, refusal, repairs

METHOD = """class A:
    def f(self):
        if self.x:
            return "one"
        return 2

    def g(self):
        return [
            "it's",
        ]
"""


@each_row(
    ("old", "new", "expected"),
    [
        # Both dedented, by all or part of the indentation.
        (
            'if self.x:\n    return "one"\n',
            'if y:\n    return "one"\n',
            "        if y:\n            r",
        ),
        ("def f(self):\n    if self.x:\n", "def h(self):\n    if self.y:\n", "    def h(self):\n"),
        # Both indented more.
        ("            return 2\n", "            return 3\n", "        return 3\n"),
        # With other blanks.
        ("\tdef f(self):\n\t\tif self.x:\n", "\tdef f(self):\n\t\tif y:\n", "        if y:\n"),
        # With trailing blanks.
        (
            "    return 2 \n\ndef g(self): \n",
            "    return 3 \n\ndef g(self): \n",
            "        return 3\n\n",
        ),
    ],
)
def test_new_lines_are_indented_as_in_the_file(old: str, new: str, expected: str) -> None:
    """The same shift is applied to every line, and only that."""
    assert expected in edited(METHOD, old, new)


def test_repair_of_indentation_is_reported_with_its_shift() -> None:
    name = repairs(METHOD, "    return 2\n\ndef g(self):\n", "    return 3\n\ndef g(self):\n")

    assert name == "indentation (4 spaces added to every line)"


@each_row(
    ("old", "new"),
    [
        # Only old was shifted, so the intention of new is unknown.
        ("            return 2\n", "        return 3\n"),
        ("def g(self):\n    return [\n", "    def g(self):\n        return (\n"),
        # The lines are shifted by different amounts.
        ('if self.x:\n  return "one"\n', "if self.y:\n  return 1\n"),
        # All indentation is halved.
        ("  def f(self):\n    if self.x:\n", "  def f(self):\n    if y:\n"),
    ],
)
def test_ambiguous_indentation_is_refused_with_the_lines_of_the_file(old: str, new: str) -> None:
    assert re.search(r"(?s)(indented|indentation).*\n\d+\t", refusal(METHOD, old, new))


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("\tif x:\n\t\ty\n", "if x:\n\ty", "if x:\n\n\tz", "\tif x:\n\n\t\tz\n"),
        ("if x:\n  y\n", "    if x:\n      y", "  if x:\n      z", None),
        ("if x:\n  y\n", "    if x:\n  y", "if x:\n  z", None),
    ],
)
def test_indentation_is_repaired_only_if_all_lines_shift_alike(
    text: str, old: str, new: str, expected: str | None
) -> None:
    check(text, old, new, expected)


def test_tabs_followed_by_spaces_are_restored_as_in_the_file() -> None:
    """Eight spaces were a tab and four spaces, not two tabs."""
    text = "if a:\n\tif b:\n\t    x\n"

    result = edited(text, "    if b:\n        x\n", "    if c:\n        y\n")

    assert result == "if a:\n\tif c:\n\t    y\n"


def test_edit_with_a_multi_line_string_is_not_reindented_with_tabs() -> None:
    text = "func f() {\n\tg()\n\th()\n}\n"
    new = "    g()\n    want := `a\n    b\n`\n    h()\n"

    assert "string of several lines" in refusal(text, "    g()\n    h()\n", new)
