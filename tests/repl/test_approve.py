"""What a person is shown before a tool runs."""

import pytest

from agent_cli.repl.approve import preview
from agent_cli.timeline import Json


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"command": "a\nb\r", "background": True},
            ["$ a", "$ b\\r", "background: true"],
        ),
        (
            {"path": "a.py", "edits": [{"old": "x\ny", "new": "z", "all": True}, "odd"]},
            ["path: a.py", "- x", "- y", "+ z", "all: true", '"odd"'],
        ),
        ({"path": "a\u202e.py", "content": "1\n2"}, ["path: a\\u202e.py", "+ 1", "+ 2"]),
        ({"text": "two\nlines", "n": [1]}, ['text: "two\\nlines"', "n: [1]"]),
        ({"command": ["not", "text"]}, ['command: ["not", "text"]']),
        ("no object", ["input: no object"]),
    ],
)
def test_all_of_a_call_is_shown_and_nothing_stays_hidden(given: Json, shown: list[str]) -> None:
    """Commands, changes and values; what would be invisible appears as an escape."""
    assert list(preview(given)) == shown
