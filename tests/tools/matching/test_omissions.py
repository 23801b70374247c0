"""A blank line before and after a quoted text can hide that the text lacks a line."""

import pytest

from agent_cli_tools.matching.edits import Edit, NoMatch, apply_edits
from agent_cli_tools.matching.omissions import can_lack


@pytest.mark.parametrize(
    ("old", "new", "can"),
    [
        (["a", "b"], ["x", "b"], False),
        (["a", "b"], ["x", "b", ""], False),
        (["a", "b"], ["a", "y"], True),
        (["a", "b"], ["a", "b", "c"], True),
        (["a", "b"], ["a"], True),
        (["a"], [], True),
    ],
)
def test_lines_can_lack_where_new_ends_otherwise_than_old(
    old: list[str], new: list[str], can: bool
) -> None:
    assert can_lack(["c"], old, new) is can
    assert not can_lack([], old, new)


TEXT = "a\n\nb\nc\nd\n\ne\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # d can be missing at the end, or b at the start.
        ("\nb\nc\n\n", "\nB\nC\nD\n\n", None),
        ("\n  b\n  c\n\n", "\n  B\n  C\n  D\n\n", None),
        ("\n  c\n  d\n\n", "\n  B\n  d\n\n", None),
        # New goes on as old does, so nothing is hidden.
        ("\nb\nc\n\n", "\nB\nc\n\n", "a\n\nB\nc\nd\n\ne\n"),
    ],
)
def test_a_missing_line_is_not_hidden(old: str, new: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(NoMatch):
            apply_edits(TEXT, [Edit(old, new)])
    else:
        assert apply_edits(TEXT, [Edit(old, new)]).text == expected


def test_no_line_follows_the_last_line_end() -> None:
    """A blank line there was quoted in addition, and the line end of the file stays."""
    with pytest.raises(NoMatch):
        apply_edits("a\n\nb\n", [Edit("b\n\n", "\nc\n")])


def test_a_bracket_among_blank_lines_is_not_sought_at_another_depth() -> None:
    text = "f(\n\t{\n\t}\n\tx\n\n\ty\n);\n}\n\n\nz\n"

    with pytest.raises(NoMatch, match="lacks a line"):
        apply_edits(text, [Edit("\t}\n\n\n", "\t}\n\n\tq\n\n")])


def test_a_text_that_lacks_a_line_is_not_taken_for_another_place() -> None:
    """The lines stand there exactly but for one; elsewhere they stand together, less deep."""
    text = "if x:\n    f(\n        a,\n        b,\n    )\n\nf(\n    a,\n)\n"

    with pytest.raises(NoMatch, match=r"lacks a line(?s:.*)\n +2\t    f\("):
        apply_edits(
            text, [Edit("    f(\n        a,\n    )\n", "    f(\n        a,\n        c,\n    )\n")]
        )
