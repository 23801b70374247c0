"""Handle Ctrl-C and termination signals depending on the current state."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from agent_cli.system.stop_signals import taken

Stop: TypeAlias = Callable[[type[KeyboardInterrupt] | type[EOFError]], None]


class Interrupts:
    """During a run, both signals stop it; otherwise they end the pending question.

    `signal` is the termination signal received, if any. Another one a second later ends the process
    at once.
    """

    def __init__(self, stop_asking: Stop) -> None:
        self._stop_asking = stop_asking
        self._stop_running: Callable[[], None] | None = None
        self.signal: signal.Signals | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP while the body runs."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            with taken(self._terminate, numbers=(signal.SIGTERM, signal.SIGHUP)):
                yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Generator[None]:
        """Call *stop* when a signal comes while the body runs."""
        self._stop_running = stop
        try:
            yield
        finally:
            self._stop_running = None

    @contextmanager
    def asking(self) -> Generator[None]:
        """Let both signals end the pending question, not the run, while the body runs."""
        running, self._stop_running = self._stop_running, None
        try:
            yield
        finally:
            self._stop_running = running

    def _interrupt(self) -> None:
        if self._stop_running:
            self._stop_running()
        else:
            self._stop_asking(KeyboardInterrupt)

    def _terminate(self, number: signal.Signals) -> None:
        self.signal = self.signal or number
        if self._stop_running:
            self._stop_running()
        else:
            self._stop_asking(EOFError)
