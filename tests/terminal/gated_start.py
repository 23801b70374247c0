"""The program, held up after its first prompt until a file named `typed` lies beside it.

With AFTER_PARSING in the environment it is held up once its arguments are parsed.
"""

import atexit
import os
import time
from pathlib import Path
from select import select

from agent_cli.__main__ import main
from agent_cli.cli import main as command_line
from agent_cli.system import programs

LIMIT_S = 60


def wait() -> None:
    """Simulate slow imports."""
    deadline_s = time.monotonic() + LIMIT_S
    while not Path("typed").exists() and time.monotonic() < deadline_s:
        time.sleep(0.005)


def held_up(argv: list[str]) -> int:
    wait()
    return run(argv)


def held_up_later(here: Path) -> None:
    wait()
    shield_path(here)


def tell_of_a_line() -> None:
    if select([0], [], [], 0)[0]:
        print("a line is left for the shell")


if __name__ == "__main__":
    if "AFTER_PARSING" in os.environ:
        shield_path, programs.shield_path = programs.shield_path, held_up_later
    else:
        run, command_line.run = command_line.run, held_up  # type: ignore[assignment]
    atexit.register(tell_of_a_line)
    main()
