"""What looks like a slip in the result of an exact edit is said, and nothing else."""

from agent_cli_tools.matching import Edit, apply_edits
from agent_cli_tools.misfits import slips
from tests.tables import each_row
from tests.tools.calling import Tools

CLASS = (
    "class A:\n    def f(self):\n        a()\n        b()\n\n    def g(self):\n        return 2\n"
)


def said(text: str, old: str, new: str) -> str:
    edits = [Edit(old, new)]
    return " ".join(slips(text, apply_edits(text, edits).text, edits))


@each_row(
    ("old", "new", "words"),
    [
        # Both without the indentation of the file, or only old.
        (
            "a()\n",
            "if a():\n    c()\n",
            "Edit 1 began behind the indentation of its line, and line 2",
        ),
        ("return 2\n", "        return 3\n", "and line 1 of new is indented otherwise"),
        # At the start of a line.
        ("        a()\n", "    a()\n", "indentation of lines 3, 4 fits nothing around"),
        (
            "        a()\n",
            "        a()\n            c()\n",
            "indentation of line 4 fits nothing around",
        ),
        ("        a()\n", "        a()", "joined two lines"),
    ],
)
def test_result_that_looks_like_a_slip_is_said(old: str, new: str, words: str) -> None:
    assert words in said(CLASS, old, new)


@each_row(
    ("old", "new"),
    [
        ("a()\n", "c()\n"),
        ("a()\n", "if a():\n            c()\n"),
        ("        a()\n", "        if a():\n            c()\n"),
        ("        a()\n        b()\n", "        c()"),
        ("        a()\n", ""),
    ],
)
def test_result_in_which_all_fits_is_not_commented(old: str, new: str) -> None:
    assert said(CLASS, old, new) == ""


def test_lines_that_the_places_around_have_as_well_are_not_commented() -> None:
    text = "- a\n  b\n- c\n  d\n"

    assert said(text, "  d\n", "  d\n- e\n  f\n") == ""


def test_slip_is_said_of_a_text_quoted_with_its_crlf() -> None:
    assert "joined two lines" in said("a\r\nb\r\nc\r\n", "b\r\n", "x")


async def test_answer_of_edit_says_what_looks_like_a_slip(tools: Tools) -> None:
    path = tools.file("a.py", CLASS)

    text = await tools.text(
        "edit", path="a.py", edits=[{"old": "a()\n", "new": "if a():\n    c()\n"}]
    )

    assert path.read_text() == CLASS.replace("a()\n", "if a():\n    c()\n")
    assert "began behind the indentation" in text
