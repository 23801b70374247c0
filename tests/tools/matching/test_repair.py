"""A repair changes what was meant and nothing else, or nothing at all."""

import pytest

from agent_cli_tools.matching.edits import Edit, NoMatch, apply_edits

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


def edited(text: str, old: str, new: str) -> str:
    return apply_edits(text, [Edit(old, new)]).text


def repairs(text: str, old: str, new: str) -> str:
    return ", ".join(apply_edits(text, [Edit(old, new)]).repairs[0])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Both dedented, by all or by a part of the indentation.
        ("return 2\n", "if y:\n    return 3\nreturn 2\n", "        if y:\n            return 3\n"),
        ("    return 2\n", "    return 3\n", "        return 3\n"),
        ("def f(self):\n    if self.x:\n", "def h(self):\n    if self.y:\n", "    def h(self):\n"),
        # Both indented more.
        ("            return 2\n", "            return 3\n", "        return 3\n"),
        # In other blanks.
        ("\tdef f(self):\n\t\tif self.x:\n", "\tdef f(self):\n\t\tif y:\n", "        if y:\n"),
        ("  def f(self):\n    if self.x:\n", "  def f(self):\n    if y:\n", "        if y:\n"),
        # Blanks at the ends, and in blank lines.
        ("        return 2  \n  \n", "        return 3  \n  \n", "        return 3\n\n"),
        (
            "    return 2 \n\ndef g(self): \n",
            "    return 3 \n\ndef g(self): \n",
            "        return 3\n\n",
        ),
    ],
)
def test_new_lines_are_indented_as_the_file_is(old: str, new: str, expected: str) -> None:
    """The same shift is applied to every line, and only that."""
    assert expected in edited(METHOD, old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Only old was shifted, so what new means is not known.
        ("return 2\n", "        return 3\n"),
        ("            return 2\n", "        return 3\n"),
        ("def g(self):\n    return [\n", "    def g(self):\n        return (\n"),
        # The lines are shifted by different amounts.
        ("if self.x:\n  return 'one'\n".replace("'", '"'), "if self.y:\n  return 1\n"),
        # One level of indentation, halved or shifted by four, and no sign which.
        ("    return 2\n", "    x = (\n        3)\n"),
    ],
)
def test_an_open_indentation_is_refused_with_the_lines_that_are_there(old: str, new: str) -> None:
    with pytest.raises(NoMatch, match=r"(?s)(indented|indentation).*\n +\d+\t"):
        edited(METHOD, old, new)


def test_a_part_of_an_indented_line_is_replaced_as_it_is() -> None:
    """Old starts behind the indentation, and the lines of new have all of theirs."""
    result = edited(METHOD, "return 2", "y = 3\n        return y")

    assert "        y = 3\n        return y\n" in result


def test_lines_quoted_without_their_indentation_go_whole() -> None:
    """What is left of the line would indent the next one."""
    assert edited("a:\n    b\n    c\n", "b\n", "") == "a:\n    c\n"


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("12:{}", "line numbers"),
        ("12: {}", "line numbers"),
        ("12|{}", "line numbers"),
        ("12 | {}", "line numbers"),
        ("    12→{}", "line numbers"),
        ("```\n{}\n```", "a code fence"),
        ("```python\n{}\n```\n", "a code fence"),
        ("\n{}\n", "blank lines around it"),
    ],
)
def test_marks_around_both_texts_are_taken_off(form: str, name: str) -> None:
    text = "x = 1\ny = 2\n"

    old, new = (form.format(line) for line in ("y = 2", "y = 3"))

    if form.startswith("\n"):
        old, new = f"{old}\n", f"{new}\n"
    assert edited(text, old, new) == "x = 1\ny = 3\n"
    assert name in repairs(text, old, new)


def test_lines_that_stand_there_exactly_once_are_meant() -> None:
    """Elsewhere they are indented in another way."""
    text = "f {\n\tg {\n\t\th {\n\t\t}\n\t}\n}\n"

    assert edited(text, "5:\t}\n6:}", "5:\t}\n6:};") == text.removesuffix("}\n") + "};\n"


@pytest.mark.parametrize(
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
def test_no_blank_line_is_moved(old: str, new: str) -> None:
    """Where old and new differ in the blank lines at their ends, which are in the file is open."""
    text = "x = 1\n\n\ny = 2\n\n\nz = 3\n"

    with pytest.raises(NoMatch):
        edited(text, old, new)


def test_a_blank_line_around_both_is_taken_off_beside_one_that_is_there() -> None:
    text = "x = 1\n\ny = 2\n\nz = 3\n" + "w\n" * 4

    assert edited(text, "\ny = 2\n\n\n", "\ny = 4\n\n\n") == text.replace("2", "4")


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("if a < b & c:\n", "if a &lt; b &amp; c:", "if a &gt; b:", "if a > b:\n"),
        ("if a < b:\n", "if a &lt; b:", "if a <= b &amp;&amp; c:", None),
        (r"x = '\d'", r"'\\d'", r"'\\w'", r"x = '\w'"),
        (r"x = '\d'", r"'\\d'", r"'\w'", None),
        ('say("a", "b")\n', r"say(\"a\", \"b\")", r"say(\"c\")", 'say("c")\n'),
        ("a\nb\n", r"a\nb", r"a\nc", "a\nc\n"),
    ],
)
def test_escapes_are_undone_in_both_texts_or_not_at_all(
    text: str, old: str, new: str, expected: str | None
) -> None:
    if expected is None:
        with pytest.raises(NoMatch):
            edited(text, old, new)
    else:
        assert edited(text, old, new) == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("x = 'caf\u00e9'\n", "x = 'cafe\u0301'", "y = 'cafe\u0301s'", "y = 'caf\u00e9s'\n"),
        ("x = 'cafe\u0301'\n", "x = 'caf\u00e9'", "y = 'caf\u00e9s'", "y = 'cafe\u0301s'\n"),
        ("a — b, c\n", "a - b, c", "a - b, d", "a — b, d\n"),
        ("a — b, c\n", "a -- b, c", "a -- b, d", "a — b, d\n"),
        ("a — b, c\n", "a - b, c", "a - b, d-e", None),
        ("a - b, c\n", "a – b, c", "a – b, d", "a - b, d\n"),
        ("“a” and b\n", '"a" and b', '"a" or b', "“a” or b\n"),
        ('f("a")\n', "f(“a”)", "f(“it’s”)", 'f("it\'s")\n'),
        ('f("a")\n', "f(“a”)", "f(“a…”)", None),
        ("“a” and b\n", '"a" and b', '"a" and "b"', None),
        ("f(a, b)\n", "f(a,\u00a0b)", "f(a,\u00a0c)", "f(a, c)\n"),
        ("def f():\n    ...\n", "def f():\n    …\n", "x", None),
    ],
)
def test_typographic_characters_are_written_as_the_file_has_them(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """Where the file has another form than the quotation, new text in that form is a guess."""
    if expected is None:
        with pytest.raises(NoMatch):
            edited(text, old, new)
    else:
        assert edited(text, old, new) == expected


def test_lines_that_only_hold_blanks_stay_as_they_are() -> None:
    text = "if a:\n    b\n    \n    c\n"

    assert edited(text, "    b\n\n    c\n", "    b\n\n    d\n") == text.replace("c", "d")
    with pytest.raises(NoMatch, match="blank lines there hold blanks"):
        edited(text, "    b\n\n    c\n", "    b\n\n\n    d\n")


def test_blanks_in_a_blank_line_do_not_make_another_place_likelier() -> None:
    text = "a()\n\nb()\n\nx()\ny()\n\na()\n\n# no\nb()\n"

    assert edited(text, "a()\n    \nb()\n", "c()\n    \nb()\n").startswith("c()\n\nb()\n")


def test_with_all_only_exact_places_are_replaced() -> None:
    with pytest.raises(NoMatch, match=r"nearly 2 times \(lines 1, 3\)"):
        apply_edits("a\nb\n a\n", [Edit("a ", "c", all=True)])
