"""SIGINT, SIGTERM and SIGHUP end every entry point with the documented code, at any moment."""

import os
import pty
import random
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.program import AGENT_CLI, environment
from tests.fakes import LIMIT_S
from tests.forked import start
from tests.messages_api import ReceivedRequest, reply, serve_in_thread
from tests.messages_api.script import Answer
from tests.waiting import wait_until

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENTRIES = {
    "-p": ("-p", "hi"),
    "batch": ("batch", "tasks.jsonl"),
    "mcp serve": ("mcp", "serve"),
    "acp": ("acp",),
    "repl": (),
}
MOMENTS = 200
LIFE_S = 4.0
"""Random moments lie in the first seconds; the servers and the REPL would live on."""


@dataclass
class Fate:
    """The outcome of one program: exit code, both streams, and whether it was killed by us."""

    code: int
    output: str


def expected(entry: str, number: int) -> set[int]:
    """Return the documented codes: 128 + the signal, or 0 once the result is written."""
    # At the REPL's prompt Ctrl-C is a key: it is pressed until the program leaves.
    ends = entry in ("-p", "batch") or (entry, number) == ("repl", signal.SIGINT)
    return {128 + number, 0} if ends else {128 + number}


def is_begun(pid: int) -> bool:
    """Return whether *pid* has run its first instruction: it blocks or catches SIGTERM.

    A fork of newer C libraries blocks all signals for a moment before anything of ours runs.
    """
    ours, another = (1 << (number - 1) for number in (signal.SIGTERM, signal.SIGUSR2))
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("SigBlk:", "SigCgt:")):
            mask = int(line.split()[1], 16)
            if mask & ours and not mask & another:
                return True
    return False


@contextmanager
def new_program(entry: str, variables: dict[str, str]) -> Generator["subprocess.Popen[bytes]"]:
    """Start a new interpreter whose client keeps its side of the pipes or the terminal open."""
    command = [AGENT_CLI, *ENTRIES[entry]]
    if entry != "repl":
        stdin = (
            subprocess.DEVNULL if expected(entry, signal.SIGTERM) == {0, 143} else subprocess.PIPE
        )
        with subprocess.Popen(
            command, env=variables, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            yield process
        return
    ours, theirs = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.PIPE)
    with subprocess.Popen(
        command, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        process.stdout = reader.stdout
        yield process
    os.close(ours)
    reader.kill()
    reader.wait()


def end_of(process: "subprocess.Popen[bytes]", number: int, *, again: bool) -> Fate:
    """Send the signal, *again* each second, and wait for the end."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        process.send_signal(number)
        try:
            code = process.wait(1.5 if again else LIMIT_S)
        except subprocess.TimeoutExpired:
            continue
        output = b"" if process.stdout is None or again else process.stdout.read()
        return Fate(code, output.decode(errors="replace"))
    process.kill()
    return Fate(process.wait(), "hung")


def folder_with_tasks(folder: Path) -> Path:
    folder.mkdir()
    tasks = '{"id": "a", "prompt": "hi"}\n{"id": "b", "prompt": "ho"}\n'
    (folder / "tasks.jsonl").write_text(tasks)
    return folder


def answering(_request: ReceivedRequest) -> Answer:
    return reply("Hello there")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("entry", ["mcp serve", "acp"])
def test_server_ends_on_a_signal_while_its_client_stays(entry: str, number: signal.Signals) -> None:
    """The client keeps its side of the pipes open, and has sent nothing."""
    moment_s = random.Random(f"{entry} {number}").random() / 2
    with start(AGENT_CLI, *ENTRIES[entry], environment=environment(None, {})) as program:
        wait_until(lambda: program.poll() is not None or is_begun(program.pid))
        time.sleep(moment_s)  # a moment of its life, not a wait for something
        program.send_signal(number)

        assert program.wait(LIMIT_S) == 128 + number


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_signal_at_a_random_moment_ends_the_program_with_its_code(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first instruction of the program to its last, in new interpreters."""
    dice = random.Random(entry)
    faults: list[str] = []
    with serve_in_thread(answer=answering) as api:
        for turn in range(MOMENTS // len(ENTRIES)):
            monkeypatch.chdir(folder_with_tasks(tmp_path / str(turn)))
            number, moment_s = dice.choice(NUMBERS), dice.random() ** 2 * LIFE_S
            with new_program(entry, environment(api, {})) as process:
                while process.poll() is None and not is_begun(process.pid):
                    time.sleep(0.0005)
                time.sleep(moment_s)
                again = (entry, number) == ("repl", signal.SIGINT)
                fate = end_of(process, number, again=again)
            is_noisy = "Traceback" in fate.output or "Exception ignored" in fate.output
            if fate.code not in expected(entry, number) or is_noisy:
                faults.append(f"{number.name} after {moment_s:.3f} s: {fate}")

    assert not faults
