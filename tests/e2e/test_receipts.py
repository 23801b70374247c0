"""Receipts of the real program: from a real run of tests to the line and the data behind a run."""

import json
from pathlib import Path

import pytest

from tests.e2e.program import agent_cli
from tests.messages_api import Reply, reply, serve_in_thread, tool_use

CHECK = tool_use("bash", {"command": "python3 -m unittest"})
TEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
LINE = "python3 -m unittest · 1 test, none failed · "


def write(path: str, content: str = "x = 1\n") -> dict[str, object]:
    return tool_use("write", {"path": path, "content": content})


@pytest.mark.parametrize(
    ("steps", "state", "edits", "is_final"),
    [
        ((write("a.py"), CHECK), "on the final state", 0, True),
        ((CHECK, write("a.py"), write("b.py")), "2 edits ago", 2, False),
        (
            (write("a.py"), CHECK, tool_use("bash", {"command": "echo > late"})),
            "files changed since",
            0,
            False,
        ),
    ],
)
def test_run_that_changed_files_ends_with_what_its_checks_found(
    steps: tuple[dict[str, object], ...], state: str, edits: int, is_final: bool
) -> None:
    Path("test_a.py").write_text(TEST)
    replies: list[Reply] = [*(reply(step) for step in steps), reply("Done.")]
    with serve_in_thread(*replies) as api:
        run = agent_cli(
            *("-p", "x", "--permission-mode", "yolo", "--output-format", "stream-json"), api=api
        )

    events = [json.loads(line) for line in run.stdout.splitlines()]
    notices = [event["text"] for event in events if event["type"] == "app.notice"]
    assert f"{LINE}{state}" in notices
    assert events[-1]["checks"] == [
        {
            "command": "python3 -m unittest",
            "tools": ["unittest"],
            "counts": {"ran": 1, "failed": 0},
            "exit_code": 0,
            "edits_since": edits,
            "is_final": is_final,
        }
    ]


def test_change_behind_a_check_in_the_same_command_is_not_called_the_final_state() -> None:
    """It may come at once, and the report of the command a while later."""
    Path("lint").write_text("#!/bin/sh\necho 'All checks passed!'\n")
    Path("lint").chmod(0o700)
    call = tool_use("bash", {"command": "./lint; echo > late"})
    with serve_in_thread(reply(write("a.py")), reply(call), reply("Done.")) as api:
        run = agent_cli(
            *("-p", "x", "--permission-mode", "yolo", "--output-format", "json"), api=api
        )

    [check] = run.result["checks"]
    assert (check["tools"], check["is_final"]) == (["ruff"], None)


def test_later_run_says_how_old_the_check_of_an_earlier_one_is() -> None:
    """Also after a resume; a run that changed nothing says nothing."""
    Path("test_a.py").write_text(TEST)
    yolo = ("--permission-mode", "yolo")
    with serve_in_thread(
        reply(CHECK), reply("Green."), reply(write("a.py")), reply("Written.")
    ) as api:
        first = agent_cli("-p", "x", *yolo, api=api)
        second = agent_cli("-p", "y", "-c", *yolo, api=api)

    assert LINE not in first.stderr
    assert f"{LINE}1 edit ago" in second.stderr
