"""The history: prompts of earlier sessions."""

from pathlib import Path

import pytest

from agent_cli.repl.live import input as input_line
from agent_cli.repl.live.input import PrivateHistory


def stored(path: Path) -> list[str]:
    """Return the prompts offered to a new session, newest first."""
    return [*PrivateHistory(path, warn=pytest.fail).load_history_strings()]


def test_history_returns_prompts_unchanged_newest_first() -> None:
    """Even lines, blanks, text like a date, and separators that are no newline in a file."""
    prompts = ["one", "two\nlines\n", "+ plus\n# 2026", "", "a\rb\u2028c", "\n# x"]
    path = Path("state/history")
    for prompt in prompts:
        PrivateHistory(path, warn=pytest.fail).store_string(prompt)

    assert stored(path) == prompts[::-1]


def test_only_the_end_of_a_large_history_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty large pastes used to delay the first prompt by half a second; no prompt is cut."""
    path = Path("history")
    for prompt in ("the first", "x" * 500, "the last"):
        PrivateHistory(path, warn=pytest.fail).store_string(prompt)
    monkeypatch.setattr(input_line, "_READ_BYTES_MAX", 300)

    assert stored(path) == ["the last"]
