"""Handle SIGINT, SIGTERM and SIGHUP: the program ends the same way at any time.

    at the start    `__main__`        the signal is held back, for some milliseconds
    before a run    `raise_stopped`   the signal is raised as an exception: nothing began
    during a run    `taken`           the run is stopped, and its result is written
    after it        `end_with`        resources are being closed; the exit code is known already

The exit code is 128 + the signal's number, never the signal itself, which would tell a script that
the program crashed. SIGINT before a run stays Python's KeyboardInterrupt. Only before `__main__`,
while Python itself starts, the signal ends the process as it does any other.
"""

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

if TYPE_CHECKING:
    import asyncio

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Service managers send SIGTERM and SIGHUP together, as one request to end.
_AGAIN_AFTER_S: Final = 1.0

_raised: Final[list[int]] = []
"""Signals that were raised as exceptions; the program goes on after one only if it was dropped."""

_Handler: TypeAlias = Callable[[int, FrameType | None], None]


class Stopped(SystemExit):
    """A signal arrived before a run began; `code` is the exit code."""

    code: int  # pyright: ignore[reportIncompatibleVariableOverride] - set once, below


def raise_stopped() -> None:
    """Raise `Stopped` or KeyboardInterrupt in the main thread when a signal arrives.

    It may arrive anywhere, such as in an import, and come out as another exception; see `raised`.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        _raised.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Stopped(exit_code_of(number))

    _install(STOP_SIGNALS, stop)
    sys.unraisablehook = _report_unless_stopped
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def held_back() -> Generator[None]:
    """Let a signal wait while the body makes something that cannot be thrown away half made."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raised() -> int | None:
    """Return the exit code of the first signal that was raised and ended nothing yet, if any."""
    return exit_code_of(_raised[0]) if _raised else None


@contextmanager
def taken(
    stop: Callable[[signal.Signals], None],
    *,
    numbers: tuple[signal.Signals, ...] = STOP_SIGNALS,
    known_code: Callable[[], int | None] = lambda: None,
) -> Generator[None]:
    """Call *stop* in the running event loop when one of *numbers* arrives while the body runs.

    The event loop cannot react while a write to a full pipe blocks it, and stopping may take long.
    So a signal that arrives a second after the first one, or later, ends the process at once, with
    the exit code that *known_code* returns once the body has its result.
    """
    import asyncio  # not for `--version`, which uses the rest

    loop = asyncio.get_running_loop()
    first_at_s: list[float] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        first_at_s.append(time.monotonic())
        if first_at_s[-1] - first_at_s[0] >= _AGAIN_AFTER_S:
            code = known_code()
            os._exit(exit_code_of(number) if code is None else code)
        loop.call_soon_threadsafe(stop, signal.Signals(number))

    before = {number: signal.getsignal(number) for number in numbers}
    _install(numbers, pass_on)
    for number in _raised:  # in a callback, where Python drops exceptions
        loop.call_soon(stop, signal.Signals(number))
    _raised.clear()
    try:
        with _waking(loop):
            yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is pass_on:  # not if the body called `end_with`
                signal.signal(number, handler)


@contextmanager
def _waking(loop: "asyncio.AbstractEventLoop") -> Generator[None]:
    """Wake *loop* when a signal arrives, so that Python calls its handler.

    A signal in the last moment before a wait, or one that another thread gets, interrupts no wait.
    """
    if (before := signal.set_wakeup_fd(-1)) != -1:  # signal handlers of the loop wake it as well
        signal.set_wakeup_fd(before)
        yield
        return
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    loop.add_reader(reading, os.read, reading, 4_096)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        loop.remove_reader(reading)
        os.close(reading)
        os.close(writing)


def end_with(code: int) -> None:
    """End the process at once with *code*, already reported, when a signal arrives."""

    def end(_number: int, _frame: FrameType | None) -> None:
        os._exit(code)

    _install(STOP_SIGNALS, end)


def _report_unless_stopped(dropped: "sys.UnraisableHookArgs") -> None:
    """Report an exception that Python drops, unless it is a signal's, which `taken` acts on."""
    if not isinstance(dropped.exc_value, Stopped | KeyboardInterrupt):
        sys.__unraisablehook__(dropped)


def exit_code_of(number: int) -> int:
    """Return the exit code of a program stopped by the signal *number*."""
    return 128 + number


# The result of a run that a signal ended before it began. It is written down, and not made from a
# report: the signal may have broken off any import, for good.

UNSTARTED: Final = (
    '{"type":"app.result","text":"","stop_reason":"aborted","rounds":0,'
    '"usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_5m_tokens":0,'
    '"cache_write_1h_tokens":0,"web_searches":0,"thinking_tokens":0},'
    '"cost_usd":0.0,"session_id":null,"exit_code":%d}'
)


def asks_for_json(argv: Sequence[str]) -> bool:
    """Return whether *argv*, valid or not, asks for JSON on stdout."""
    words = {*argv, *("=".join(pair) for pair in pairwise(argv))}
    return not words.isdisjoint({"--output-format=json", "--output-format=stream-json"})


def unstarted(argv: Sequence[str], exit_code: int) -> int:
    """Return *exit_code*; the JSON formats print a result first, because readers wait for it."""
    if asks_for_json(argv):
        with suppress(OSError, AttributeError):  # the reader is gone, or stdout was closed
            sys.stdout.write(f"{UNSTARTED % exit_code}\n")
            sys.stdout.flush()
    return exit_code


def _install(numbers: tuple[signal.Signals, ...], handler: _Handler) -> None:
    for number in numbers:
        # `nohup` ignores SIGHUP for us, so that closing the terminal does not end the run.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


# End the process at once, without waiting for what is left behind or freeing every object.

_MAKES_FOLDERS: Final = "agent_cli.system.temporary_files"
_held: Final[list[object]] = []


def hold(left_behind: Iterable[object]) -> None:
    """Keep references to running threads and tasks, for which Python would wait or warn."""
    _held.extend(left_behind)


def end(code: int) -> NoReturn:
    """End the process with the exit code *code*.

    Python would free every object first, for 40 to 80 ms after the last byte of an answer, and with
    the signal handlers reset, so that a signal would still change the exit code.
    """
    if not _held:  # something held may keep a lock that an exit function takes
        atexit._run_exitfuncs()  # the one thing that Python's own end does for others
    if _MAKES_FOLDERS in sys.modules:
        # Also after the exit functions: a thread may be making the first folder meanwhile.
        from agent_cli.system.temporary_files import remove_own_folders

        remove_own_folders()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe without a reader
            stream.flush()
    os._exit(code)
