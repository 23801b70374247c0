"""The history: prompts of earlier sessions."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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


def test_long_prompts_of_two_sessions_do_not_mix(tmp_path: Path) -> None:
    """One began in the middle of another, which lost its end."""
    path = tmp_path / "history"
    sessions = [PrivateHistory(path, warn=pytest.fail) for _ in range(2)]
    prompts = ["\n".join([name * 60] * 300) for name in "ab"]

    with ThreadPoolExecutor() as pool:
        for session, prompt in zip(sessions, prompts, strict=True):
            for _ in range(25):
                pool.submit(session.store_string, prompt)

    assert Counter(stored(path)) == dict.fromkeys(prompts, 25)
