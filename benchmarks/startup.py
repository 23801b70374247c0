"""Time from exec to the first `you> ` in a pty and to an echoed key; of --version and --help.

All in units of `python -c pass`, measured alternately in one run: the ratio survives a loaded
machine, milliseconds do not. Run it as `python -m benchmarks.startup [ROUNDS]`.
"""

import os
import pty
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks._program import COMMAND, empty_home

PROMPT = b"you> "
KEY = b"Q"
# The editor hides the cursor while it draws; before its first frame, the terminal echoes.
EDITOR = b"\x1b[?25l"
LIMIT_S = 60
BARE = "python -c pass"
FIRST_PROMPT = "exec -> `you> `"
KEY_ECHOED = "exec -> key echoed"
TARGETS = {FIRST_PROMPT: 3.0, KEY_ECHOED: 9.0, "--version": 6.0, "--help": 6.0}


def until_exit(command: list[str], environment: dict[str, str]) -> float:
    """Return the seconds the command takes."""
    started_s = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=LIMIT_S)
    return time.perf_counter() - started_s


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from exec until the prompt was seen, and until the editor echoed a key typed then."""

    visible_s: float
    echoed_s: float


def start(environment: dict[str, str], *arguments: str) -> Start:
    """Start the REPL in a pty and press a key at the first prompt."""
    started_s = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(COMMAND, [COMMAND, *arguments], environment)
    signal.alarm(LIMIT_S)
    seen = _read_until(terminal, b"", lambda seen: PROMPT in seen)
    visible_s = time.perf_counter() - started_s
    os.write(terminal, KEY)
    _read_until(terminal, seen, lambda seen: KEY in seen.partition(EDITOR)[2])
    echoed_s = time.perf_counter() - started_s
    signal.alarm(0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return Start(visible_s, echoed_s)


def _read_until(terminal: int, seen: bytes, done: Callable[[bytes], bool]) -> bytes:
    while not done(seen):
        seen += os.read(terminal, 4096)
    return seen


def main(rounds: int) -> None:
    """Measure everything once a round and print medians."""
    with empty_home() as environment:
        environment["TERM"] = "xterm-256color"
        cases: dict[str, Callable[[], float]] = {
            BARE: lambda: until_exit([sys.executable, "-c", "pass"], environment),
            FIRST_PROMPT: lambda: start(environment).visible_s,
            KEY_ECHOED: lambda: start(environment).echoed_s,
            "--version": lambda: until_exit([COMMAND, "--version"], environment),
            "--help": lambda: until_exit([COMMAND, "--help"], environment),
        }
        for measure in cases.values():
            measure()  # compile uncompiled modules first
        measured = [{name: measure() for name, measure in cases.items()} for _ in range(rounds)]
    medians_s = {name: statistics.median(times[name] for times in measured) for name in cases}
    for name, median_s in medians_s.items():
        ratio = median_s / medians_s[BARE]
        target = f"  (target {TARGETS[name]:g}x)" if name in TARGETS else ""
        print(f"{name:<18} {median_s * 1000:7.1f} ms  {ratio:5.1f}x{target}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
