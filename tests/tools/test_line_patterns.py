"""Searching for a pattern in growing output."""

import time
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.system.programs import find_program
from agent_cli_tools.line_patterns import LinePattern

RIPGREP = [str(find_program("rg", outside=Path("/nowhere"))), "--no-config"]


def pattern(regex: str) -> LinePattern:
    return LinePattern(regex, RIPGREP)


async def test_lines_that_match_are_numbered_from_0() -> None:
    assert await pattern("b").numbers(["abb", "c", "", "b"]) == [0, 3]
    assert await pattern("b").numbers([]) == []


async def test_what_was_tried_is_not_tried_again(tmp_path: Path) -> None:
    """A server prints for hours."""
    log, wanted = tmp_path / "1.log", pattern("ready")
    log.write_text("no\nstill ")
    assert await wanted.first_match(log) == ""

    log.write_text("ready, which was not there before\nstill not ready\n")

    assert await wanted.first_match(log) == "still not ready"


async def test_a_line_longer_than_a_look_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli_tools.line_patterns._BYTES_AT_ONCE", 10)
    log = tmp_path / "1.log"
    log.write_text("x" * 35 + "\nready\n")

    assert await pattern("^ready").first_match(log) == "ready"


async def test_a_log_that_is_gone_matches_nothing(tmp_path: Path) -> None:
    assert await pattern("x").first_match(tmp_path / "1.log") == ""


async def test_a_pattern_that_repeats_itself_costs_no_time() -> None:
    """Python's `re` would take longer than the age of the universe for this one."""
    began_s = time.process_time()

    assert await pattern("(a+)+$").numbers(["a" * 5_000 + "b"]) == []

    assert time.process_time() - began_s < 5


async def test_without_ripgrep_a_pattern_cannot_be_tried() -> None:
    with pytest.raises(ToolError, match="could not be tried"):
        await LinePattern("x", ["/nowhere/rg"]).check()
