"""Run the command line as a call in this process, in two thirds of the time of a fork.

For what the program prints, returns, writes and sends. A test about its process starts one: see
tests/forked.py.
"""

import asyncio
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from pytest import MonkeyPatch

from agent_cli.cli.main import run
from agent_cli.system import programs
from agent_cli.system.stop_signals import STOP_SIGNALS
from tests.fork_server import Tried, allow_for_tests, remember_sandboxes
from tests.forked import needs_an_interpreter

_held = set[Tried]()


def can_call(variables: Mapping[str, str]) -> bool:
    """Return whether `call` can run a program with *variables* as its environment here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_main = threading.current_thread() is threading.main_thread()
        is_same_path = variables.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
        return is_main and is_same_path and not needs_an_interpreter(variables)
    return False


def call(
    arguments: Sequence[str], variables: Mapping[str, str], stdin: str
) -> tuple[int, str, str]:
    """Run the program to its end; return its exit code and what it wrote to stdout and stderr.

    What it sets for its process is undone: streams, environment, directory and signal handlers.
    """
    with MonkeyPatch.context() as patch, ExitStack() as undone:
        for number in STOP_SIGNALS:
            undone.callback(signal.signal, number, signal.getsignal(number))
        patch.chdir(Path.cwd())
        set_environment(patch, variables)
        patch.setattr(programs._USERS, "path", None)
        patch.setattr(tempfile, "tempdir", None)
        remember_sandboxes(patch.setattr, _held)
        allow_for_tests(patch.setattr)
        with _streams(stdin) as written:
            code = run(arguments)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for file in written:
                file.seek(0)
            stdout, stderr = (file.read().decode() for file in written)
    return code, stdout, stderr


def set_environment(patch: MonkeyPatch, variables: Mapping[str, str]) -> None:
    """Make *variables* the environment."""
    for name in os.environ.keys() - variables.keys():
        patch.delenv(name)
    for name, value in variables.items():
        patch.setenv(name, value)


@contextmanager
def _streams(stdin: str) -> Generator[tuple[IO[bytes], IO[bytes]]]:
    """Make files the standard streams, descriptors included; yield those that are written."""
    with ExitStack() as undone:
        names = sys.stdin, sys.stdout, sys.stderr
        for stream in names[1:]:
            stream.flush()
        files = [undone.enter_context(tempfile.TemporaryFile()) for _ in names]
        files[0].write(stdin.encode())
        files[0].seek(0)
        for number, file in enumerate(files):
            before = os.dup(number)
            undone.callback(os.close, before)
            undone.callback(os.dup2, before, number)
            os.dup2(file.fileno(), number)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        try:
            yield files[1], files[2]
        finally:
            sys.stdin, sys.stdout, sys.stderr = names
