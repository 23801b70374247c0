"""A text that starts within the indentation of its first line, or after it."""

from tests.tools.matching.editing import edited, refusal


def test_a_part_of_an_indented_line_is_replaced_as_it_is() -> None:
    """Old starts after the indentation, and the lines of new have all of theirs."""
    result = edited("def f():\n        return 2\n", "return 2", "y = 3\n        return y")

    assert result == "def f():\n        y = 3\n        return y\n"


def test_lines_quoted_without_their_indentation_go_whole() -> None:
    """The rest of the line would indent the next one."""
    assert edited("a:\n    b\n    c\n", "b\n", "") == "a:\n    c\n"


def test_a_blank_line_does_not_start_within_an_indentation() -> None:
    """Old starts after the indentation of its first line, which would be left alone there."""
    why = refusal("try:\n    a()\n    b()\nx()\n", "a()\n    b()\n", "\nc()\n")

    assert "start old and new with all of it" in why
