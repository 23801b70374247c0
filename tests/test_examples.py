"""The examples run as they stand, offline, and say what they are meant to say."""

import subprocess
import sys
from pathlib import Path

import pytest

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
        "context: mail, weather, user",
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
}


def test_every_example_is_run() -> None:
    """`scripted` is what they share."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SAYS, "scripted"}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_says_what_it_is_meant_to(name: str) -> None:
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
