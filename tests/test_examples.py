"""The examples run unchanged, offline, and print their expected output."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agent_cli

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "quick_start": ["Hello! What can I do for you?"],
    "custom_tool": [
        "count {'n': 3}",
        "count {'n': 99}",
        "  failed: Invalid input for count: n: ",
        "  1 of 3",
        "  3 of 3",
        "  done: counted to 3",
        "Three it is.",
    ],
    "steering": [
        "toolResult: painted it red",
        "toolResult: Skipped",
        "user: Stop after red!",
        "assistant: Only red, then.",
        "user: And clean up.",
        "assistant: Cleaned up.",
    ],
    "custom_message": [
        "before: mail, weather",
        "history: mail, weather, user, assistant",
        "the model read: [New mail: Ann writes: lunch?]",
    ],
    "low_level_loop": [
        "['agent_start', 'turn_start', 'message_start', 'message_end', 'message_start',"
        " 'message_update', 'message_end', 'turn_end', 'agent_end']",
        "You said: Hello\n",
        "You said: Hello again\n",
        "4 messages",
    ],
    "streaming_tool": [
        "download begins",
        "  a.bin: 1 of 2",
        "  done: b.bin is complete",
        "Both are here.",
        "ended: end_turn",
    ],
    "review_bot": ["a.py: Fine.", "b.py: aborted", "c.py: An unused import."],
    "approval_screen": [
        "write {'path': 'notes.txt', 'content': 'milk\\n'}? (it changes a file) yes",
        "write {'path': 'other.txt', 'content': 'no\\n'}? (it changes a file) no",
        "Your notes are written.",
        "notes.txt\n",
    ],
}


def test_every_example_has_an_expected_output() -> None:
    """`scripted` is a shared module; `real_model` needs a key."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SAYS, "scripted", "real_model"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_public_names_only(path: Path) -> None:
    """S3-26: they import from the package root only."""
    imports = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    ours = [node for node in imports if (node.module or "").startswith("agent_cli")]

    assert {node.module for node in ours} <= {"agent_cli"}
    assert {name.name for node in ours for name in node.names} <= set(agent_cli.__all__)


@pytest.mark.parametrize("name", SAYS)
def test_example_prints_its_expected_output(name: str) -> None:
    """S3-01, S3-20, S3-21, S3-24, S0-68, S0-71: the lines in this order, nothing on stderr."""
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")
    position = 0
    for line in SAYS[name]:
        found = run.stdout.find(line, position)
        assert found >= position, (line, run.stdout)
        position = found + len(line)
