"""Tool results as rows."""

from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json, WidgetOutput
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import CUT
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Details, Results
from tests.tables import each_row

DIFF = "@@ -3,3 +3,4 @@\n same\n-old\n+new\n+\x1b[2Jmore\n same\n@@ -40 +41 @@\n-a\n+b"


def test_edit_result_is_a_diff_with_line_numbers() -> None:
    """Old numbers for removed lines, new ones for added lines; gaps marked; sanitized."""
    result = ToolResult.of("edited", {"kind": "diff", "path": "a.py", "diff": DIFF})

    assert Results(Paint(color=False), lambda: 80).result(
        result, is_error=False, was_asked=False
    ) == [
        "     3  same",
        "     4 −old",
        "     4 +new",
        "     5 +more",
        "     6  same",
        "     …",
        "    40 −a",
        "    41 +b",
    ]


def test_diff_lines_end_only_at_newlines() -> None:
    """Other separators are part of a line; git's remark on a line has no number."""
    diff = "@@ -1,2 +1,2 @@\n-a\u2028b\n same\n-old\n\\ No newline at end of file\n+new\n"

    assert Results(Paint(color=False), lambda: 80).diff(diff) == [
        "     1 −a\u2028b",
        "     1  same",
        "     3 −old",
        "       \\ No newline at end of file",
        "     2 +new",
    ]
    assert Results(Paint(color=False), lambda: 80).diff("") == []


def test_a_diff_is_coloured_line_by_line() -> None:
    """Red for removed, green for added lines; each row resets its colour."""
    result = ToolResult.of("edited", {"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b"})

    assert Results(Paint(color=True), lambda: 80).result(
        result, is_error=False, was_asked=False
    ) == [
        "\x1b[31m     1 −a\x1b[0m",
        "\x1b[32m     1 +b\x1b[0m",
    ]


def test_long_command_output_is_folded_to_its_end_and_kept_in_full() -> None:
    """`/output N` shows all of it; a build reports errors at its end."""
    results = Results(Paint(color=False), lambda: 80)
    text = "\n".join(str(number) for number in range(1, 31))
    short = ToolResult.of("1\n2", {"kind": "command"})

    rows = results.result(ToolResult.of(text, {"kind": "command"}), is_error=False, was_asked=False)

    assert rows == ["  … 25 more lines: Ctrl-O, /output 1", "  26", "  27", "  28", "  29", "  30"]
    assert results.result(short, is_error=False, was_asked=False) == ["  1", "  2"]
    assert (results.output(1), results.output(None), results.output(2)) == (text, text, None)


def test_answer_of_an_agent_is_wrapped_between_words_below_its_call() -> None:
    """The terminal broke its words at the edge; `/output` draws the same rows."""
    results = Results(Paint(color=False), lambda: 20)
    told = ToolResult.of("The limit was reached before the end.", {"agent": "general"})
    long = ToolResult.of(" ".join(["word"] * 40), {"agent": "general"})

    assert results.result(told, is_error=False, was_asked=False) == [
        "  The limit was",
        "  reached before the",
        "  end.",
    ]
    *rows, folded = results.result(long, is_error=False, was_asked=False)
    assert rows == ["  word word word"] * 5
    assert folded.startswith("  … 9 more lines")
    assert results.drawn(1) == [*["  word word word"] * 13, "  word"]


def test_folded_answer_and_diff_are_drawn_in_full_as_they_were() -> None:
    """`/output` printed the Markdown, and the diff without its colours and line numbers."""
    results = Results(Paint(color=True), lambda: 40)
    diff = "@@ -1 +1 @@\n" + "-a\n" * 9

    results.folded(results.answer("**a**\n\n" * 9), "**a**\n\n" * 9, 2, draw=results.answer)
    results.folded_diff(diff, 2)
    results.folded(["  1"] * 9, "1\n" * 9, 2)

    assert results.drawn(1) == results.answer("**a**\n\n" * 9)
    assert results.drawn(2) == results.diff(diff)
    assert (results.drawn(3), results.drawn(None), results.drawn(4)) == (None, None, None)


def test_content_of_a_file_read_by_the_model_is_not_printed() -> None:
    """One row says that it was read."""
    result = ToolResult.of("1\n2\n3", {"kind": "read", "path": "a", "lines": 3, "total": 3})

    assert (
        Results(Paint(color=False), lambda: 80).result(result, is_error=False, was_asked=False)
        == []
    )


def test_progress_bar_is_shown_in_its_last_state() -> None:
    """All states of `pip` or `git clone` stood in one row, one behind the other."""
    bar = "\r\x1b[32m 12%\x1b[0m fetching\r 96% fetching\nunpacking 1\runpacking 2\r\nok\r\n"

    shown = Results(Paint(color=False), lambda: 80).result(
        ToolResult.of(bar, {"kind": "command"}), is_error=False, was_asked=False
    )

    assert shown == ["   96% fetching", "  unpacking 2", "  ok"]


def test_output_in_full_shows_a_progress_bar_in_its_last_state(tmp_path: Path) -> None:
    """The row of the call has no room for the rest, and `/output` reads that from a file."""
    file = tmp_path / "001.log"
    file.write_text("line\n" * 500 + " 1%\r 2%\rdone\n")
    results = Results(Paint(color=False), lambda: 80)
    details: Json = {"kind": "command", "spill": str(file)}

    results.result(ToolResult.of("line\n" * 50, details), is_error=False, was_asked=False)

    assert results.output(None) == "line\n" * 500 + "done\n"


def test_carriage_return_hides_nothing_of_a_failure() -> None:
    """A file whose lines end with one would be shown as its last line alone."""
    results = Results(Paint(color=False), lambda: 80)

    shown = results.result(ToolResult.of("failed\na\rb"), is_error=True, was_asked=False)

    assert shown == ["  ab"]


def test_exit_line_of_a_command_is_left_out_of_its_output() -> None:
    """The call's own row has the code and the seconds; `/output` keeps the full text."""
    results = Results(Paint(color=False), lambda: 80)

    def command(text: str, status: str | None) -> ToolResult:
        return ToolResult.of(text, {"kind": "command", "status": status})

    quiet = command("[exit 0 · 0.1 s]", "[exit 0 · 0.1 s]")
    failed = command("no such file\n[exit 1 · 0.1 s]", "[exit 1 · 0.1 s]")
    noted = command("a\n[exit 1 · 0.1 s]\nblocked: network", "[exit 1 · 0.1 s]")
    daemon = command("[exit 0 · 0.1 s · still running: x 7]", None)
    quoted = command("[exit 2 · 3.0 s]\n[exit 0 · 0.1 s]", "[exit 0 · 0.1 s]")

    assert results.result(quoted, is_error=False, was_asked=False) == ["  [exit 2 · 3.0 s]"]
    assert results.result(noted, is_error=False, was_asked=False) == ["  a", "  blocked: network"]
    assert results.result(daemon, is_error=False, was_asked=False) == [f"  {daemon.text}"]
    assert results.result(quiet, is_error=False, was_asked=False) == []
    assert results.result(failed, is_error=False, was_asked=True) == ["  no such file"]


@each_row(
    ("output", "shown"),
    [
        ("x" * 30_000, ["  … a longer line: Ctrl-O, /output 1", "  " + "x" * 397 + "…"]),
        (
            "first\n" + "x" * 30_000 + "\nlast",
            ["  … 2 more lines: Ctrl-O, /output 1", "  last"],
        ),
        ("x" * 300 + "\nlast", ["  " + "x" * 300, "  last"]),
    ],
)
def test_long_output_lines_are_folded_by_the_rows_they_fill(output: str, shown: list[str]) -> None:
    """One line of 30 kB did not count as long output, and filled 300 rows."""
    result = ToolResult.of(output, {"kind": "command"})

    results = Results(Paint(color=False), lambda: 80)

    assert results.result(result, is_error=False, was_asked=False) == shown


def test_output_of_a_command_is_shown_in_full_although_the_model_got_an_excerpt(
    tmp_path: Path,
) -> None:
    """The note about that is for the model; a notice tells the reader."""
    file = tmp_path / "001.log"
    file.write_text("line\n" * 500)
    details: Json = {"kind": "command", "spill": str(file), "lines": 500, "status": "[exit 0]"}
    result = ToolResult.of("line\n" * 50 + f"[exit 0]{CUT}Showing 250 of 2,500]", details)
    results = Results(Paint(color=False), lambda: 80)

    rows = results.result(result, is_error=False, was_asked=False)
    in_full = results.output(None)
    file.unlink()

    assert rows == ["  … 495 more lines: Ctrl-O, /output 1", *["  line"] * 5]
    assert in_full == "line\n" * 500
    assert results.output(1) == result.text


TABLE: Json = {"columns": ["name", "cents"], "rows": [["a\x1b[2Jpple\nred", 120], ["pear", 1.5]]}


def drawn(widget: str, data: Json, fallback: str = "as text", columns: int = 60) -> list[str]:
    paint = Paint(color=False)
    details = Details(Results(paint, lambda: 80), paint, lambda: columns)
    return details.side_output(WidgetOutput("w", 0, "1", widget, data, fallback))


def test_table_widget_aligns_numbers_right_and_sanitizes_its_cells() -> None:
    """S2: a tool's data cannot draw on the screen by itself."""
    assert drawn("table", TABLE) == [
        "  name      | cents",
        "  ----------+------",
        "  apple red |   120",
        "  pear      |   1.5",
    ]


def test_table_widget_that_does_not_fit_lists_one_cell_per_row() -> None:
    assert drawn("table", TABLE, columns=12)[:2] == ["  name:", "  apple red"]


def test_long_table_widget_is_folded() -> None:
    """The full text is kept for `/output`."""
    rows = drawn("table", {"columns": ["n"], "rows": [[n] for n in range(100)]})

    assert len(rows) == 21
    assert rows[-1] == "  … 82 more lines: Ctrl-O, /output 1"


def test_diff_widget_has_line_numbers() -> None:
    assert drawn("diff", {"diff": "@@ -7 +7 @@\n-a\n+b"}) == ["     7 −a", "     7 +b"]


@each_row(
    ("data", "row"),
    [
        ({"done": 1, "total": 4}, "█████░░░░░░░░░░░░░░░  25% · 1 of 4"),
        ({"done": 9, "total": 4, "label": "x"}, "████████████████████ 100% · 9 of 4 · x"),
        ({"done": 1_500, "label": "files"}, "files 1,500"),
    ],
)
def test_progress_widget_is_a_bar_or_a_count(data: Json, row: str) -> None:
    assert drawn("progress", data) == [f"  {row}"]


@pytest.mark.parametrize(
    ("widget", "data"),
    [
        *[("hologram", {"any": "thing"}), ("", None)],
        *[("diff", {"diff": value}) for value in (3, "")],
        *[("table", value) for value in (None, "x", {"columns": [], "rows": [1]})],
        ("table", {"columns": ["a"], "rows": [["b", "c"]]}),
        ("table", {"columns": ["a"], "rows": ["b"]}),
        ("table", {"columns": ["a"] * 31, "rows": []}),
        *[("progress", {"done": value, "total": 1}) for value in (None, "1", True, -1, 10**5000)],
        *[("progress", {"done": value}) for value in (float("nan"), float("inf"), [1])],
        *[("progress", {"done": 1, "total": value}) for value in (0, -1, "4", float("nan"))],
    ],
)
def test_widget_that_cannot_be_drawn_is_shown_as_its_fallback_text(widget: str, data: Json) -> None:
    """S2: an unknown widget, or data of another shape; never an exception."""
    assert drawn(widget, data) == ["  as text"]


def test_table_widget_cells_may_hold_any_json_value() -> None:
    """Each is on one line; values that cannot be shown are an ellipsis."""
    row: list[Json] = [None, True, 10**5000, [1], float("nan"), "x" * 500]
    rows = drawn("table", {"columns": list("abcdef"), "rows": [row]}, columns=300)

    assert [cell.strip() for cell in rows[2].split("|")][:5] == ["", "yes", "…", "…", "…"]
    assert rows[2].endswith("x…")


def test_widget_without_fallback_text_is_shown_by_its_name() -> None:
    assert drawn("hologram", None, fallback="") == ["  [hologram]"]
