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


async def test_matching_lines_are_numbered_from_0() -> None:
    assert await pattern("b").numbers(["abb", "c", "", "b"]) == [0, 3]
    assert await pattern("b").numbers([]) == []


async def test_text_already_searched_is_not_searched_again(tmp_path: Path) -> None:
    """A server prints for hours."""
    log, wanted = tmp_path / "1.log", pattern("ready")
    log.write_text("no\nstill ")
    assert await wanted.first_match(log) == ""

    log.write_text("ready, which was not there before\nstill not ready\n")

    assert await wanted.first_match(log) == "still not ready"


async def test_line_longer_than_the_block_size_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli_tools.line_patterns._BYTES_AT_ONCE", 10)
    log = tmp_path / "1.log"
    log.write_text("x" * 35 + "\nready\n")

    assert await pattern("^ready").first_match(log) == "ready"


async def test_missing_log_matches_nothing(tmp_path: Path) -> None:
    assert await pattern("x").first_match(tmp_path / "1.log") == ""


async def test_pattern_with_nested_repetition_does_not_hang() -> None:
    """Python's `re` would take longer than the age of the universe for this one."""
    began_s = time.process_time()

    assert await pattern("(a+)+$").numbers(["a" * 5_000 + "b"]) == []

    assert time.process_time() - began_s < 5


async def test_without_ripgrep_checking_a_pattern_is_an_error() -> None:
    with pytest.raises(ToolError, match="could not be tried"):
        await LinePattern("x", ["/nowhere/rg"]).check()
