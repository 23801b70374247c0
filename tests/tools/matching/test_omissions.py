"""Blank lines around a quoted text can hide that it omits a line."""

import pytest

from agent_cli_tools.matching.omissions import can_lack
from tests.tools.matching.editing import check


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
def test_line_may_be_missing_only_if_new_ends_differently_from_old(
    old: list[str], new: list[str], can: bool
) -> None:
    assert can_lack(["c"], old, new) is can
    assert not can_lack([], old, new)


TEXT = "a\n\nb\nc\nd\n\ne\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # d may be missing at the end, or b at the start.
        ("\nb\nc\n\n", "\nB\nC\nD\n\n", None),
        ("\n  b\n  c\n\n", "\n  B\n  C\n  D\n\n", None),
        ("\n  c\n  d\n\n", "\n  B\n  d\n\n", None),
        # New continues like old, so nothing is hidden.
        ("\nb\nc\n\n", "\nB\nc\n\n", "a\n\nB\nc\nd\n\ne\n"),
    ],
)
def test_edit_that_may_omit_a_line_at_its_ends_is_refused(
    old: str, new: str, expected: str | None
) -> None:
    check(TEXT, old, new, expected)
