"""The event loop of the program, and its end, in real processes."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from agent_cli.system.event_loop import run_loop
from tests.forked import start

ROOT = Path(__file__).parents[2]
LEFT_BEHIND = {
    "nothing": "await asyncio.to_thread(str)",
    "a task that swallows its cancellation": "tasks.append(asyncio.ensure_future(swallow()))",
    "a thread that blocks": "tasks.append(asyncio.ensure_future(block())); await begun.wait()",
}
SCRIPT = """
import asyncio, atexit, threading
from agent_cli.system import stop_signals
from agent_cli.system.event_loop import run_loop

tasks = []
begun = asyncio.Event()

async def swallow():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def block():
    loop = asyncio.get_running_loop()
    def wait():
        loop.call_soon_threadsafe(begun.set)
        threading.Event().wait()
    await asyncio.to_thread(wait)

async def main():
    {left}
    await asyncio.sleep(0)
    return 3

code = run_loop(main())
atexit.register(print, "; then what was registered", end="")
print("printed", end="", flush=True)
stop_signals.end(code)
"""


def ended(script: str) -> tuple[int, str, str]:
    """Run *script* to its end; return its exit code, stdout and stderr."""
    Path("script.py").write_text(script)
    with start("script.py", environment=os.environ) as process:
        stdout, stderr = process.communicate()
        return process.wait(), stdout, stderr


@pytest.mark.parametrize("left", LEFT_BEHIND)
def test_process_ends_with_its_exit_code_despite_leftover_tasks_and_threads(left: str) -> None:
    """S0-18: all output is complete, and nothing prints a warning."""
    registered = "; then what was registered" if left == "nothing" else ""
    assert ended(SCRIPT.format(left=LEFT_BEHIND[left])) == (3, f"printed{registered}", "")


STOPPED = """
import asyncio, os, signal
from asyncio import base_events
from agent_cli.system import stop_signals
from agent_cli.system.event_loop import run_loop

def after_signal(function):
    def called(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return function(*arguments)
    return called

async def main():
    print("run")

{where} = after_signal({where})
stop_signals.raise_stopped()
try:
    run_loop(main())
except stop_signals.Stopped as stopped:
    code = stopped.code
stop_signals.end(code)
"""


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        ("base_events.BaseEventLoop.__init__", ""),
        ("asyncio.Runner.run", ""),
        ("base_events.BaseEventLoop.close", "run\n"),
    ],
)
def test_signal_beside_the_run_of_the_loop_prints_nothing(where: str, printed: str) -> None:
    """Half a loop, thrown away, and a coroutine that never ran were named on the screen."""
    assert ended(STOPPED.format(where=where)) == (143, printed, "")


def test_remaining_tasks_are_cancelled_and_may_clean_up() -> None:
    """This is as in `asyncio.run`; no thread and no task remains if all of them end."""
    cleaned: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(str)
            cleaned.append("in a thread too")

    async def main() -> str:
        tasks.append(asyncio.ensure_future(tidy()))
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: "done")

    before = {*threading.enumerate()}

    assert run_loop(main()) == "done"
    assert cleaned == ["in a thread too"]
    assert tasks[0].cancelled()
    assert {*threading.enumerate()} <= before  # those of earlier tests may end meanwhile


def test_exception_of_the_main_coroutine_is_raised_unchanged() -> None:
    async def main() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        run_loop(main())


def test_program_never_calls_asyncio_run() -> None:
    """A command with a loop of its own could wait for ever at its end.

    The proxy's loop is that of a daemon thread, for whose end nobody waits without a limit.
    """
    sources = (ROOT / "agent_cli").rglob("*.py")
    in_a_thread = ROOT / "agent_cli/host_proxy/door.py"

    found = [path for path in sources if "asyncio.run(" in path.read_text()]
    assert found == [in_a_thread]
