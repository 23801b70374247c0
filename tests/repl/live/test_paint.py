"""Truncated rows."""

import pytest

from agent_cli.repl.live.paint import cut, row_width

BOLD, OFF = "\x1b[1m", "\x1b[0m"


@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        ("thinking", 8, "thinking"),
        ("thinking", 7, "thinki…"),
        (f"{BOLD}Bash{OFF} ls", 7, f"{BOLD}Bash{OFF} ls"),
        (f"{BOLD}Bash{OFF} ls", 6, f"{BOLD}Bash{OFF} …"),
        (f"{BOLD}Bash{OFF} ls", 5, f"{BOLD}Bash{OFF}…"),
        (f"{BOLD}Bash{OFF} ls", 3, f"{BOLD}Ba…{OFF}"),
        ("漢字かな", 6, "漢字…"),
        ("漢字かな", 1, "…"),
    ],
)
def test_truncated_row_ends_between_characters_with_its_colours_reset(
    row: str, columns: int, expected: str
) -> None:
    """Otherwise the terminal would move the last character into the last column."""
    assert cut(row, columns) == expected
    assert row_width(expected) <= columns
