"""Typographic characters are written as in the file."""

from tests.tables import each_row
from tests.tools.matching.editing import check, repairs


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("x = 'caf\u00e9'\n", "x = 'cafe\u0301'", "y = 'cafe\u0301s'", "y = 'caf\u00e9s'\n"),
        ("x = 'cafe\u0301'\n", "x = 'caf\u00e9'", "y = 'caf\u00e9s'", "y = 'cafe\u0301s'\n"),
        ("a — b, c\n", "a - b, c", "a - b, d", "a — b, d\n"),
        ("a — b, c\n", "a -- b, c", "a -- b, d", None),
        ("a — b, c\n", "a - b, c", "a - b, d-e", None),
        ("a - b, c\n", "a – b, c", "a – b, d", "a - b, d\n"),
        ("“a” and b\n", '"a" and b', '"a" or b', "“a” or b\n"),
        ("“a” and b\n", '"a" and b', '"a" and "b"', None),
        ('f("a")\n', "f(“a”)", "f(“it’s”)", 'f("it\'s")\n'),
        ('f("a")\n', "f(“a”)", "f(“a…”)", None),
        ("f(a, b)\n", "f(a,\u00a0b)", "f(a,\u00a0c)", "f(a, c)\n"),
        ("def f():\n    ...\n", "def f():\n    …\n", "x", None),
        ("say “hi”\nit's\n", 'say "hi"\nit\'s', 'say "hi"\nit\'s so', "say “hi”\nit's so\n"),
    ],
)
def test_typographic_characters_are_written_as_in_the_file(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """If the file and the quotation use different forms, new text in the quoted form is a guess."""
    check(text, old, new, expected)


def test_repair_of_typographic_characters_is_reported() -> None:
    assert repairs('f("a")\n', "f(“a”)", "f(“b”)") == "typographic characters"
