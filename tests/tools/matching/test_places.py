"""The place of an edit; an ambiguous one is never guessed."""

from tests.tables import each_row
from tests.tools.matching.editing import check, edited, refusal, repairs

TEXT = 'def f():\n    if x:\n        return "one"\n    return 2\n\n\ndef g():\n    return "two"\n'


def test_only_the_text_found_changes() -> None:
    assert edited("x = 1  \ny = “2”\n", "1", "3") == "x = 3  \ny = “2”\n"


@each_row(
    ("text", "old", "new", "expected"),
    [
        # Without its indentation, or with a part.
        (
            "class A:\n    B = 1\n",
            "B = 1\n",
            "B = 1\n\n\nclass C: ...\n",
            "class A:\n    B = 1\n\n\nclass C: ...\n",
        ),
        ("a:\n    b\n", "  b\n", "  c\n    d\n", "a:\n    c\n    d\n"),
        ("a:\n    b\n    c\n", "b\n", "", "a:\n        c\n"),
        ("a:\n    b()\nc\n", "b()\n", "\nd()\n", "a:\n    \nd()\nc\n"),
        # In the middle of a line.
        ("a = f(x)\n", "= f(", "= g(\n", "a = g(\nx)\n"),
        ("a\nbc\nd\n", "\nb", "", "ac\nd\n"),
        # What looks like a decoration.
        ("1: a\n2: b\n", "1: a\n2: b\n", "c\n", "c\n"),
        ("a = '\\\\n'\n", "'\\\\n'", "'\\n'", "a = '\\n'\n"),
        # With other line ends.
        ("a\nb", "b", "b\n", "a\nb\n"),
        ("a\nb\n", "b\n", "b", "a\nb"),
        ("a\nb\n", "b\n", "c", "a\nc"),
        ("a b\nc\n", "b\n", "c, ", "a c, c\n"),
        ("a\nb\nc\n", "b\n", "b", "a\nbc\n"),
        ("a\nb", "\nb", "", "a"),
        ("", "", "new\n", "new\n"),
    ],
)
def test_text_that_occurs_exactly_once_is_replaced_literally(
    text: str, old: str, new: str, expected: str
) -> None:
    """Whatever its lines look like; interpretation begins where there is no such text."""
    assert edited(text, old, new) == expected
    assert repairs(text, old, new) == ""


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("a\nb\nc\n", "41\tb\n", "41\td", None),
        ("a\nb\n", "41\tb\n", "41\tc", "a\nc"),
        ("a\nb", "41\tb\n", "41\tc\n", "a\nc"),
    ],
)
def test_misquoted_text_joins_no_lines(text: str, old: str, new: str, expected: str | None) -> None:
    """A line end that new lacks is removed only at the end of the file."""
    check(text, old, new, expected)


def test_text_that_occurs_several_times_is_refused_with_its_lines() -> None:
    """To take the first place would be a guess."""
    why = refusal(TEXT, "    return", "    yield")

    assert "occurs 3 times (lines 3, 4, 8)" in why
    assert "set all to true" in why


def test_overlapping_occurrences_are_counted() -> None:
    assert "2 times" in refusal("aaa", "aa", "b")


def test_occurrences_that_differ_only_in_line_endings_are_counted() -> None:
    """Unless one of them stands there as it was quoted."""
    assert "2 times" in refusal("a\r\nb\n\na\r\nb\r\n", "a\nb", "c")


def test_at_most_eight_occurrences_are_listed() -> None:
    assert "more than 8 times" in refusal("x\n" * 1000, "x", "y")


def test_with_all_every_occurrence_is_replaced() -> None:
    assert edited("a.b.a\r\na", "a", "x\ny", all=True) == "x\r\ny.b.x\r\ny\r\nx\r\ny"


def test_with_all_inexact_occurrences_are_refused() -> None:
    assert "nearly 2 times (lines 1, 3)" in refusal("a\nb\n a\n", "a ", "c", all=True)


def test_repair_that_fits_several_places_is_refused() -> None:
    assert "2 times (lines 1, 3)" in refusal("a  \nb\na   \nb\n", "a \nb", "c")


def test_exact_lines_are_preferred_to_those_with_other_indentation() -> None:
    """The same lines occur elsewhere with another indentation."""
    text = "f {\n\tg {\n\t\th {\n\t\t}\n\t}\n}\n"

    assert edited(text, "5:\t}\n6:}", "5:\t}\n6:};") == text.removesuffix("}\n") + "};\n"


def test_blank_line_quoted_after_the_last_line_is_refused() -> None:
    """That blank line does not exist, and the line end of the file stays."""
    refusal("a\n\nb\n", "b\n\n", "\nc\n")


def test_text_that_omits_a_line_is_not_matched_elsewhere() -> None:
    """The lines match exactly except for one; elsewhere they are consecutive, less indented."""
    text = "if x:\n    f(\n        a,\n        b,\n    )\n\nf(\n    a,\n)\n"
    old, new = "    f(\n        a,\n    )\n", "    f(\n        a,\n        c,\n    )\n"

    why = refusal(text, old, new)

    assert "lacks a line" in why
    assert "2\t    f(" in why


def test_bracket_among_blank_lines_is_not_matched_at_another_depth() -> None:
    text = "f(\n\t{\n\t}\n\tx\n\n\ty\n);\n}\n\n\nz\n"

    assert "lacks a line" in refusal(text, "\t}\n\n\n", "\t}\n\n\tq\n\n")


def test_blanks_in_a_blank_line_do_not_change_the_matched_place() -> None:
    text = "a()\n\nb()\n\nx()\ny()\n\na()\n\n# no\nb()\n"

    result = edited(text, "a()\n    \nb()\n", "c()\n    \nb()\n")

    assert result.startswith("c()\n\nb()\n")


@each_row("word", ["def", "return", "two"])
def test_text_with_a_changed_word_is_refused_in_every_position(word: str) -> None:
    refusal(TEXT, TEXT.replace(word, "quux", 1), "")
