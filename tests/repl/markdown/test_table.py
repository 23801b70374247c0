"""Markdown tables on wide and narrow terminals."""

from agent_cli.repl.markdown import THEMES, MarkdownStream
from tests.repl.markdown.rendering import rendered

HEAD = "| name | count | note |\n|:---|--:|:-:|\n"


def test_table_columns_are_as_wide_as_their_cells_and_aligned() -> None:
    """A wide character counts two; the last column is not padded."""
    assert rendered(HEAD + "| **日本** | 1 | x |\n| b | 12345678 | long note |") == [
        "name     |    count |   note",
        "---------+----------+----------",
        "**日本** |        1 |     x",
        "b        | 12345678 | long note",
    ]


def test_table_cells_are_wrapped_on_a_narrow_terminal() -> None:
    assert rendered(HEAD + "| one two three | 1 | a longer note |", 26) == [
        "name    | count |   note",
        "--------+-------+---------",
        "one two |     1 | a longer",
        "three   |       |   note",
    ]


def test_table_that_does_not_fit_lists_its_cells_one_below_the_other() -> None:
    """On 20 columns a table of four would have cells of two characters."""
    text = "| name | count | note | more |\n|--|--|--|--|\n| one | 1 |  | a long note |\n"

    assert rendered(text, 20) == ["name: one", "count: 1", "more: a long note", "---"]


def test_table_row_keeps_surplus_cells() -> None:
    """A row with too few cells is padded."""
    rows = rendered("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| 1 |")

    assert rows == ["a | b", "--+------", "1 | 2 | 3", "1 |"]


def test_escaped_bar_is_part_of_a_table_cell() -> None:
    assert rendered("| a | b |\n|---|---|\n| x \\| y | z |")[2] == "x | y | z"


def test_table_begins_at_the_last_line_of_a_paragraph_and_ends_without_bars() -> None:
    assert rendered("text\n| a |\n|---|\n| 1 |\nmore\n| b |") == [
        "text", "a", "-", "1", "more", "| b |"
    ]  # fmt: skip


def test_table_may_directly_follow_a_long_paragraph() -> None:
    """The paragraph was finished in parts by then; the head of the table was held back."""
    rows = rendered("word " * 400 + "\n" + "word\n" * 200 + "| a | b |\n|---|---|\n| 1 | 2 |")

    assert rows[-3:] == ["a | b", "--+--", "1 | 2"]


def test_lines_that_only_resemble_a_table_are_text() -> None:
    """Head and delimiter row need the same number of cells."""
    text = ["| a | b |", "|---|", "x | y"]

    assert rendered("\n".join(text)) == text


def test_long_table_is_finished_row_by_row_with_fixed_widths() -> None:
    """64 rows are measured; a later cell that is longer is wrapped in its column."""
    stream = MarkdownStream(80, THEMES["none"])

    assert stream.feed("| a | b |\n|---|---|\n" + "| 12345678 | x |\n" * 63) == []
    assert len(stream.feed("| 12345678 | x |\n")) == 66
    assert stream.feed("| 123 567890 | y |\n") == ["123      | y", "567890   |"]
    assert stream.finish() == []


def test_table_may_begin_in_a_list_item() -> None:
    """The mark gets a separate row: the columns must stay aligned."""
    assert rendered("- | a |\n  |---|\n  | 1 |") == ["-", "  a", "  -", "  1"]


def test_tail_of_an_unfinished_table_shows_its_last_rows() -> None:
    stream = MarkdownStream(80, THEMES["none"])
    stream.feed("| a |\n|---|\n" + "".join(f"| {number} |\n" for number in range(20)) + "| 2")

    assert stream.tail(3) == ["18", "19", "2"]
