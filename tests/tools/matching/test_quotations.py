"""Copied decoration (line numbers, quoting, fences) is removed from both texts."""

from tests.tables import each_row
from tests.tools.matching.editing import check, edited, refusal, repairs


@each_row(
    ("form", "name"),
    [
        ("    12\t{}", "line numbers"),
        ("12:{}", "line numbers"),
        ("12: {}", "line numbers"),
        ("12|{}", "line numbers"),
        ("12 | {}", "line numbers"),
        ("    12→{}", "line numbers"),
        ("```\n{}\n```", "a code fence"),
        ("```python\n{}\n```\n", "a code fence"),
        ("\n{}\n\n", "blank lines around it"),
    ],
)
def test_decoration_around_old_and_new_is_removed(form: str, name: str) -> None:
    text = "x = 1\ny = 2\n"
    old, new = (form.format(line) for line in ("y = 2", "y = 3"))

    assert edited(text, old, new) == "x = 1\ny = 3\n"
    assert name in repairs(text, old, new)


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("a\nb\nc\n", "```\nb\n\n```", "```\nd\n\n```", "a\nd\nc\n"),
        ("a\nb\n\nc\n", "```\nb\n\n```", "```\nd\n\n```", "a\nd\n\nc\n"),
        ("a\nb\nc\n", "```\nb\n```", "```\n\n```", "a\nc\n"),
        # With the blank line, or without?
        ("a\nb\n\nc\n", "```\nb\n\n```", "```\n\n```", None),
    ],
)
def test_fence_with_two_readings_is_refused(
    text: str, old: str, new: str, expected: str | None
) -> None:
    check(text, old, new, expected)


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("200: x\n", "200: x\n", "201: x\n", "201: x\n"),
        ("x\ny\n", "1: x\n2: y", "1: z", "z\n"),
        ("x\ny\n", "1: x\n2: y", "1: z\nw", None),
        ("x\ny\n", "1\tx\n3\ty", "1\tz", None),
        ("x\ny\n", "1→x\n2→y\n", "z\n", "z\n"),
    ],
)
def test_numbers_count_as_line_numbers_only_if_consecutive_on_every_line(
    text: str, old: str, new: str, expected: str | None
) -> None:
    check(text, old, new, expected)


@each_row(
    ("old", "new"),
    [
        # A blank line on the other side of the statement: two lines of old were swapped.
        ("\ny = 2\n\n\n\n", "\n\ny = 3\n\n\n"),
        ("\ny = 2\n\n\n\n", "\n\ny = 3\n\n\n\n"),
        ("\ny = 2\n\n\n\n", "\ny = 3\n\n\n"),
        ("\ny = 2\n\n\n\n", "\n\n"),
        ("\n\n\n\ny = 2\n", "\n\n\ny = 3\n\n"),
    ],
)
def test_edit_that_would_move_blank_lines_is_refused(old: str, new: str) -> None:
    """If old and new differ in blank lines at their ends, the file's own are unknown."""
    refusal("x = 1\n\n\ny = 2\n\n\nz = 3\n", old, new)


def test_extra_blank_line_around_both_texts_is_removed_next_to_a_real_one() -> None:
    text = "x = 1\n\ny = 2\n\nz = 3\n" + "w\n" * 4

    assert edited(text, "\ny = 2\n\n\n", "\ny = 4\n\n\n") == text.replace("2", "4")


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("if a < b & c:\n", "if a &lt; b &amp; c:", "if a &gt; b:", "if a > b:\n"),
        ("if a < b:\n", "if a &lt; b:", "if a <= b &amp;&amp; c:", None),
        (r"x = '\d'", r"'\\d'", r"'\\w'", r"x = '\w'"),
        (r"x = '\d'", r"'\\d'", r"'\w'", None),
        ('a("b")\n', r"a(\"b\")", r'a("say \"c\"")', None),
        ('say("a", "b")\n', r"say(\"a\", \"b\")", r"say(\"c\")", 'say("c")\n'),
        ("a\nb\n", r"a\nb", r"a\nc", "a\nc\n"),
        ("a\n\tb\n", r"a\n\tb\n", r"a\n\tc\n", "a\n\tc\n"),
        ('a("b")\nc\n', r'a("b")\nc', r'a("b")\nd', 'a("b")\nd\n'),
        ('say("a")\nb\n', 'say(\\"a\\")\nb', 'say(\\"c\\")\nb', 'say("c")\nb\n'),
        # Of a string, or of all?
        ("a\nb\n", r"a\nb", r"a\nc('\n')", None),
        ("a\nb\n", r"a\nb", r"a\nc(`\n`)", None),
        ("a = `\nb`\n", r"a = `\nb`", r"a = `\nb`\nc", "a = `\nb`\nc\n"),
        ("a\nb\n", r"a\nb", r"a\nc('\\d')", None),
        ('say("a")\n', r"say(\"a\")", r"say(\"b\n\")", None),
    ],
)
def test_escapes_are_undone_in_both_texts_or_not_at_all(
    text: str, old: str, new: str, expected: str | None
) -> None:
    check(text, old, new, expected)


@each_row("form", ["{0}\tb\n{0}\tc", "{0}: b\n{0}: c", "a &#{0}; b"])
def test_number_of_thousands_of_digits_is_text(form: str) -> None:
    """Python refuses to read so long a number, and the edit ended with that error."""
    old = form.format("9" * 5_000)

    refusal("a\nb\nc\n", old, f"{old}!")
