"""Results of tools as rows."""

from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Results
from agent_cli.tooling import ToolResult

DIFF = "@@ -3,3 +3,4 @@\n same\n-old\n+new\n+\x1b[2Jmore\n same\n@@ -40 +41 @@\n-a\n+b"


def test_an_edit_is_a_diff_with_the_numbers_of_its_lines() -> None:
    """Old numbers for what went, new ones for what came; a gap between two places; cleaned."""
    result = ToolResult.of("edited", {"kind": "diff", "path": "a.py", "diff": DIFF})

    assert Results(Paint(color=False)).rows(result, is_error=False) == [
        "     3  same",
        "     4 -old",
        "     4 +new",
        "     5 +more",
        "     6  same",
        "     …",
        "    40 -a",
        "    41 +b",
    ]


def test_a_diff_is_coloured_line_by_line() -> None:
    """Red for what went, green for what came; each row ends its own colour."""
    result = ToolResult.of("edited", {"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b"})

    assert Results(Paint(color=True)).rows(result, is_error=False) == [
        "\x1b[31m     1 -a\x1b[0m",
        "\x1b[32m     1 +b\x1b[0m",
    ]


def test_long_output_of_a_command_is_folded_to_its_end_and_kept_whole() -> None:
    """`/output N` shows all of it; the end of a build says what went wrong."""
    results = Results(Paint(color=False))
    text = "\n".join(str(number) for number in range(1, 31))
    short = ToolResult.of("1\n2", {"kind": "command"})

    rows = results.rows(ToolResult.of(text, {"kind": "command"}), is_error=False)

    assert rows == ["  … 25 more lines: /output 1", "  26", "  27", "  28", "  29", "  30"]
    assert results.rows(short, is_error=False) == ["  1", "  2"]
    assert (results.output(1), results.output(None), results.output(2)) == (text, text, None)


def test_what_the_model_reads_of_a_file_is_not_printed() -> None:
    """One row says that it was read."""
    result = ToolResult.of("1\n2\n3", {"kind": "read", "path": "a", "lines": 3, "total": 3})

    assert Results(Paint(color=False)).rows(result, is_error=False) == []
