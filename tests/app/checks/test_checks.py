"""The report of `doctor`: a table for a terminal, a line for each check on a pipe."""

from agent_cli.app.checks import Check, CheckReport
from agent_cli.terminal.views import drawn_text
from agent_cli.version import __version__

REPORT = CheckReport(
    [
        Check("key", True, "found"),
        Check("sandbox", False, "bwrap is missing: install bubblewrap"),
        Check("mcp a\x1b[2J", None, "disabled"),
    ]
)


def test_doctor_report_on_a_pipe_has_one_line_per_check() -> None:
    """S1-27: scripts search for lines that begin with FAIL."""
    assert REPORT.lines() == [
        f"agent-cli {__version__}",
        "ok    key           found",
        "FAIL  sandbox       bwrap is missing: install bubblewrap",
        "--    mcp a\\x1b[2J  disabled",
    ]
    assert REPORT.has_failures


def test_doctor_report_on_a_terminal_is_a_table_with_wrapped_results() -> None:
    """S1-27: the remedy is shown below the fault, however narrow the screen is."""
    rows = drawn_text(REPORT, width=40).splitlines()
    heading, rule, checks = drawn_text(REPORT, width=40).partition("\u2500" * 40 + "\n")

    assert rule
    assert f"agent-cli {__version__}" in " ".join(heading.split())
    marks = [row.split()[0] for row in checks.splitlines() if not row.startswith(" ")]
    assert marks == ["ok", "FAIL", "--"]
    assert all(len(row) <= 40 for row in rows)
    assert "bubblewrap" in rows[-2]
    assert "\x1b" not in "".join(rows)
