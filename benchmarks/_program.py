"""Run the installed program for a benchmark, in an empty home, against the test server."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.messages_api import ReceivedRequest

COMMAND = str(Path(sys.executable).parent / "agent-cli")


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended: its cost and its output."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    stdout: bytes


@contextmanager
def empty_home() -> Generator[dict[str, str]]:
    """Yield an environment whose home is empty and whose bytecode cache works."""
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as home:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        yield kept | {"HOME": home, "ANTHROPIC_API_KEY": "benchmark-key"}


def run(
    arguments: Sequence[str], environment: dict[str, str], cwd: str, stdin: str = ""
) -> Finished:
    """Run the program to its end and measure it alone, not its children."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [COMMAND, *arguments],
        env=environment,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin and process.stdout
    process.stdin.write(stdin.encode())
    process.stdin.close()
    stdout = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"exit code {process.returncode}"
    return Finished(_cpu_s(used), time.perf_counter() - begun, used.ru_maxrss / 1024, stdout)


def own_s(requests: Sequence[ReceivedRequest]) -> Iterator[float]:
    """Yield the seconds between two requests that the program takes, without the server's."""
    return (after.at_s - before.answered.at_s for before, after in pairwise(requests))


def _cpu_s(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime
