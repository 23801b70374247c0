"""The check for processes that a program leaves behind, which other tests rely on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.e2e.kin import MARK, Kin
from tests.waiting import wait_until

# It starts a grandchild that stays, and says so.
PARENT = """
import subprocess, sys
variables = None if sys.argv[1] == "marked" else {}
child = subprocess.Popen(["sleep", "600"], env=variables, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["marked", "without variables"])
def orphan(request: pytest.FixtureRequest) -> Iterator[tuple[Kin, int]]:
    """Return the kin of a process that has ended, and its child that runs on."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PARENT, request.param],
        env={**os.environ, MARK: str(os.getpid())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        kin = Kin(parent.pid, str(os.getpid()))
        assert parent.stdout
        child = int(parent.stdout.readline())
        if request.param != "marked":
            kin.look()
        parent.communicate()
    yield kin, child
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def test_process_that_lost_its_parent_is_found_until_it_ends(orphan: tuple[Kin, int]) -> None:
    kin, child = orphan

    left = kin.left()
    os.kill(child, signal.SIGKILL)

    assert left == [f"{child}: sleep 600 "]
    wait_until(lambda: kin.left() == [])
