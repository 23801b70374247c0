"""The rows of an approval question on a screen."""

import re

from agent_cli.repl.approval.preview import Row
from agent_cli.repl.live.paint import Paint, row_width
from agent_cli.repl.live.view import question_rows

ESCAPE = re.compile(r"\x1b\[[0-9;]*[mX]")
CHANGED = Row("    2 + return a + b", "added", ((17, 18),))


def texts(rows: list[str]) -> list[str]:
    """Return *rows* without colours and trailing blanks."""
    return [ESCAPE.sub("", row).rstrip() for row in rows]


def test_title_stands_in_a_rule_with_its_size_at_the_end() -> None:
    """A title that does not fit stands whole below the rule."""
    title = Row("Edit app.py", "title", beside="+1 −1")
    paint = Paint(color=True)

    assert texts(question_rows([title], paint, 40)) == ["── Edit app.py ─────────────── +1 −1 ──"]
    assert texts(question_rows([title], paint, 20)) == ["─" * 19, "Edit app.py", "+1 −1"]


def test_changed_words_have_a_ground_brighter_than_their_line() -> None:
    """The ground reaches the edge; without colours there is neither ground nor padding."""
    [painted] = question_rows([CHANGED], Paint(color=True), 40)
    [plain] = question_rows([CHANGED], Paint(color=False), 40)

    assert painted.endswith(f"\x1b[{39 - row_width(painted)}X\x1b[0m")
    assert "\x1b[1;38;5;255;48;5;28m+\x1b[0m" in painted
    assert plain == CHANGED.text


def test_no_character_of_a_row_is_hidden_or_begins_another_row() -> None:
    """Also where a tab moves the marks, and where the line is wider than the screen."""
    wide = Row(f"    1 - {'x' * 90}\ty", "removed", ((8, 9),))
    forged = Row("path\nallow? yes", "plain")

    assert texts(question_rows([wide, forged], Paint(color=True), 40)) == [
        wide.text.expandtabs(4),
        "path\\nallow? yes",
    ]


def test_code_on_the_ground_of_a_change_has_colours_and_keeps_its_text() -> None:
    """A tab moves tokens and marks with the text; without colours the row is plain."""
    row = Row("    1 + \tx = 1", "added", ((13, 14),), tokens=((13, 14, "number"), (9, 10, "name")))

    [painted] = question_rows([row], Paint(color=True), 40)
    [plain] = question_rows([row], Paint(color=False), 40)

    assert texts([painted]) == [plain] == ["    1 +     x = 1"]
    assert "\x1b[1;38;5;255;48;5;28m1\x1b[0m" in painted
    assert "\x1b[38;5;253;48;5;22;38;5;153mx\x1b[0m" in painted


def test_row_of_parts_has_each_part_in_its_style() -> None:
    """Verb bold, effect faint, danger amber."""
    row = Row.of([(" ! ", "warning"), ("Run", "label"), (" rm", "plain"), ("  deletes", "dim")])

    assert question_rows([row], Paint(color=False), 40) == [" ! Run rm  deletes"]
    assert question_rows([row], Paint(color=True), 40) == [
        "\x1b[33m ! \x1b[0m\x1b[1mRun\x1b[0m rm\x1b[2m  deletes\x1b[0m"
    ]
