"""Time from exec to the first `you> ` in a pty, and of --version and --help.

All in units of `python -c pass`, measured alternately in the same run: the ratio survives a loaded
machine, milliseconds do not. Run it as `python benchmarks/startup.py [ROUNDS]`.
"""

import os
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

PROMPT = b"you> "
LIMIT_S = 60
AGENT = [sys.executable, "-m", "agent_cli"]
BARE = "python -c pass"
TARGETS = {"exec -> `you> `": 14.0, "--version": 6.0, "--help": 6.0}


def until_exit(command: list[str], environment: Mapping[str, str]) -> float:
    started_s = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=LIMIT_S)
    return time.perf_counter() - started_s


def until_prompt(command: list[str], environment: Mapping[str, str]) -> float:
    started_s = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    signal.alarm(LIMIT_S)
    seen = b""
    while PROMPT not in seen:
        seen += os.read(terminal, 4096)
    elapsed_s = time.perf_counter() - started_s
    signal.alarm(0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return elapsed_s


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TERM": "xterm-256color",
            "ANTHROPIC_API_KEY": "not-used",
        }
        cases: dict[str, Callable[[], float]] = {
            BARE: lambda: until_exit([sys.executable, "-c", "pass"], environment),
            "exec -> `you> `": lambda: until_prompt(AGENT, environment),
            "--version": lambda: until_exit([*AGENT, "--version"], environment),
            "--help": lambda: until_exit([*AGENT, "--help"], environment),
        }
        for measure in cases.values():
            measure()  # compiles what was not compiled yet
        times = {name: [measure() for _ in range(1)] for name, measure in cases.items()}
        for _ in range(rounds - 1):
            for name, measure in cases.items():
                times[name].append(measure())
    bare_s = statistics.median(times[BARE])
    for name, measured in times.items():
        ratio = statistics.median(measured) / bare_s
        target = f"  (target {TARGETS[name]:g}x)" if name in TARGETS else ""
        print(f"{name:<16} {statistics.median(measured) * 1000:7.1f} ms  {ratio:5.1f}x{target}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
