"""Run `agent-cli -p` under code that watches what it imports."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.program import environment
from tests.messages_api import reply, serve_in_thread


def run_watched(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run *code*, which calls `main`, against a server that answers "done"."""
    with serve_in_thread(reply("done")) as api:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=environment(api, {}),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done
