"""Rows: their width in cells, and the program's sentences wrapped between words."""

from agent_cli.repl.live.paint import cut, row_width, sentence_rows
from tests.tables import each_row

BOLD, OFF = "\x1b[1m", "\x1b[0m"


@each_row(
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


ADDRESS = "https://example.com/" + "a" * 40


@each_row(
    ("text", "rows"),
    [
        ("one two three four", ["one two", "three four"]),
        ("  an indented row stays", ["  an", "  indented", "  row", "  stays"]),
        ("ab  one two three", ["ab  one", "    two", "    three"]),
        ("a much  wider column", ["a much ", "wider", "column"]),
        ("a\n\nb", ["a", "", "b"]),
        ("  │ one two three", ["  │ one", "  │ two", "  │ three"]),
        ("  ai │ one two", ["  ai │ one", "     │ two"]),
        ("漢字かな交じり文", ["漢字かな交", "じり文"]),
        (f"see {ADDRESS} now", ["see", ADDRESS, "now"]),
        ("a\x1b[2Jb", ["ab"]),
        ("rm ~\r: ls", ["rm ~: ls"]),
        ("", [""]),
    ],
)
def test_sentence_is_wrapped_between_words(text: str, rows: list[str]) -> None:
    """Cells are counted, not characters; a URL is left whole."""
    assert sentence_rows(text, 10) == rows


@each_row("columns", [1, 2, 3, 20])
def test_each_wrapped_row_has_the_colour_and_fits_the_screen(columns: int) -> None:
    """Even on a tiny terminal, deep indentation must leave space in a row."""
    rows = sentence_rows("        deep in it", columns, "\x1b[2m")

    assert all(row.startswith("\x1b[2m") and row.endswith("\x1b[0m") for row in rows)
    assert all(row_width(row) <= max(columns, 10) for row in rows)
