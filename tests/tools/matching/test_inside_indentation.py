"""A text that starts within the indentation of its first line, or after it."""

from tests.tools.matching.editing import edited, refusal


def test_part_of_an_indented_line_is_replaced_without_reindenting() -> None:
    """Old starts after the indentation, and the lines of new have theirs in full."""
    result = edited("def f():\n        return 2\n", "return 2", "y = 3\n        return y")

    assert result == "def f():\n        y = 3\n        return y\n"


def test_deleting_a_line_quoted_without_indentation_deletes_the_whole_line() -> None:
    """The rest of the line would indent the next one."""
    assert edited("a:\n    b\n    c\n", "b\n", "") == "a:\n    c\n"


def test_blank_first_line_of_new_within_an_indentation_is_refused() -> None:
    """Old starts after the indentation of its first line, which alone would be left."""
    why = refusal("try:\n    a()\n    b()\nx()\n", "a()\n    b()\n", "\nc()\n")

    assert "start old and new with all of it" in why
