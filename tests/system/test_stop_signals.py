"""The signals that end a run, sent to real processes at each stage of their lives."""

import json
import os
import signal
from pathlib import Path

import pytest

from agent_cli.headless.report import RunReport, to_line
from agent_cli.system.stop_signals import UNSTARTED, asks_for_json, unstarted
from tests.forked import PipedProgram, start
from tests.tables import each_row
from tests.waiting import ended_by_signals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IMPORTS = "import asyncio, os, sys, time\nfrom agent_cli.system import stop_signals\n"


def started(script: str) -> PipedProgram:
    """Run *script* with `asyncio`, `os`, `sys`, `time` and `stop_signals` in scope."""
    Path("script.py").write_text(IMPORTS + script)
    return start("script.py", environment=os.environ)


def ready(process: PipedProgram) -> None:
    assert process.stdout.readline() == "ready\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_before_a_run_raises_an_exception(number: signal.Signals) -> None:
    """Uncaught, it ends the program with 128 + its number, and `finally` blocks run."""
    script = """
stop_signals.raise_stopped()
try:
    print("ready", flush=True)
    while True:  # a signal right before a long sleep would not end it
        time.sleep(0.01)
finally:
    print("closed", flush=True)
"""
    with started(script) as process:
        ready(process)
        process.send_signal(number)
        out, _ = process.communicate()

    assert (process.returncode, out) == (128 + number, "closed\n")


@pytest.mark.parametrize("number", NUMBERS)
def test_signal_that_python_drops_is_known_and_stops_the_run(number: signal.Signals) -> None:
    """In a finalizer Python drops exceptions; the run that begins next is stopped at once."""
    script = """
stop_signals.raise_stopped()
class Dropping:
    def __del__(self):
        print("ready", flush=True)
        while True:  # a signal right before a long sleep would not end it
            time.sleep(0.01)
Dropping()
print(stop_signals.raised(), flush=True)
""" + TAKEN.format(wanted=1)
    with started(script) as process:
        ready(process)
        process.send_signal(number)
        out, _ = process.communicate()

    assert (process.returncode, out) == (0, f"{128 + number}\nready\n[{int(number)}]\n")


TAKEN = """
async def main():
    stopped = asyncio.Event()
    heard = []
    def stop(number):
        heard.append(int(number))
        if len(heard) >= {wanted}:
            stopped.set()
    with stop_signals.taken(stop):
        print("ready", flush=True)
        await stopped.wait()
    print(heard, flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_during_a_run_stops_the_run(number: signal.Signals) -> None:
    with started(TAKEN.format(wanted=1)) as process:
        ready(process)
        process.send_signal(number)
        out, _ = process.communicate()

    assert (process.returncode, out) == (0, f"[{int(number)}]\n")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_interrupts_no_wait_stops_the_run(number: signal.Signals) -> None:
    """As one in the last moment before the wait: another thread gets it, and the loop sleeps."""
    script = f"""
import signal, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])
""" + TAKEN.format(wanted=1)
    with started(script) as process:
        ready(process)
        process.send_signal(number)
        out, _ = process.communicate()

    assert (process.returncode, out) == (0, f"[{int(number)}]\n")


def test_two_simultaneous_signals_do_not_kill_the_process() -> None:
    """Service managers send SIGTERM and SIGHUP together; the result must still be written."""
    with started(TAKEN.format(wanted=2)) as process:
        ready(process)
        # Between two signals that it gets one by one, a busy machine may let a second pass.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
            process.send_signal(number)
        out, _ = process.communicate()

    assert process.returncode == 0
    assert sorted(out.strip("[]\n").split(", ")) == ["1", "15"]


def test_a_later_signal_ends_a_process_that_is_blocked() -> None:
    """No process reads stdout: the event loop blocks in a write and cannot react."""
    script = """
async def main():
    with stop_signals.taken(lambda number: None):
        print("ready", flush=True)
        while True:
            os.write(1, b"x" * 4096)
asyncio.run(main())
"""
    with started(script) as process:
        ready(process)

        assert ended_by_signals(process) == 143


@pytest.mark.parametrize("number", NUMBERS)
def test_signal_after_the_result_does_not_change_the_exit_code(number: signal.Signals) -> None:
    """The JSON said 0, so the process exits with 0, however long the rest takes."""
    script = """
stop_signals.end_with(0)
print("ready", flush=True)
while True:  # a signal right before a long sleep would not end it
    time.sleep(0.01)
"""
    with started(script) as process:
        ready(process)
        process.send_signal(number)

        assert process.wait() == 0


def test_ignored_sighup_does_not_stop_the_run() -> None:
    """With `nohup agent-cli -p …`, the run survives closing the terminal."""
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with started(ignoring + TAKEN.format(wanted=1)) as process:
        ready(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()

    assert out == f"[{int(signal.SIGTERM)}]\n"


@each_row(
    ("words", "asks"),
    [
        ("--output-format json --nope", True),
        ("-p hi --output-format=stream-json --model", True),
        ("--output-format text -p json", False),
        ("-p --output-format", False),
    ],
)
def test_json_output_is_recognised_in_invalid_arguments(words: str, asks: bool) -> None:
    """S1-30: a reader of JSON gets a result, even after a mistake in the options."""
    assert asks_for_json(words.split()) == asks


def test_result_of_a_run_that_did_not_begin_is_that_of_any_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is written down, and not made: the signal may have broken an import that makes it."""
    report = RunReport(stop_reason="aborted", exit_code=143)

    assert to_line(report.to_json()) == UNSTARTED % 143
    assert unstarted(["-p", "hi", "--output-format=json"], 143) == 143
    assert unstarted(["-p", "hi"], 130) == 130
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["exit_code"] == 143
