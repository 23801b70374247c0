"""Counts in words."""

import pytest

from agent_cli.contracts.wording import counted


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (counted(0, "file"), "0 files"),
        (counted(1, "file"), "1 file"),
        (counted(2, "file"), "2 files"),
        (counted(1234, "more line"), "1,234 more lines"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(3, "entry", "entries"), "3 entries"),
    ],
)
def test_count_is_shown_with_the_singular_or_plural_noun(words: str, shown: str) -> None:
    assert words == shown
