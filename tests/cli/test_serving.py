"""A secret that was taken is nowhere in the environment, and not in what /proc shows."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os
from agent_cli.cli.mcp.serving import take_variable
print(take_variable("SECRET"), os.environ.get("SECRET"), take_variable("UNSET"))
print(open("/proc/self/environ").read())
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_taken_variable_is_not_seen_by_other_programs() -> None:
    """Threat 9: any command of the agent may read /proc/PID/environ of its parent."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={"SECRET": "the-token-itself", "OTHER": "stays"},
        capture_output=True,
        text=True,
        check=True,
    )

    taken, block = ran.stdout.split("\n", 1)
    assert taken == "the-token-itself None "
    assert "the-token-itself" not in block
    assert "OTHER=stays" in block
