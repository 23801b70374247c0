"""Whether an agent is busy, known in one place.

    idle ── claim ──> busy ── release ──> idle

A run, or a change of the conversation, claims the slot before anything of it is published or
recorded, and releases it when the last listener has seen its last event. Whoever comes in between,
a listener included, is refused or stops it through its token. Any thread may ask.
"""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentBusy


class RunSlot:
    """Holds one run or change at a time, and its cancel token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token: CancelToken | None = None
        self._interruption: BaseException | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @contextmanager
    def claimed(self) -> Generator[CancelToken]:
        """Hold the slot for the body, with a new token.

        Raises:
            AgentBusy: It is held.
        """
        token = CancelToken()
        with self._lock:
            self.require_free()
            self._token = token
        try:
            yield token
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
            interruption, self._interruption = self._interruption, None
            self._token = None
        for loop, released in waiters:
            with suppress(RuntimeError):  # its loop was closed
                loop.call_soon_threadsafe(released.set)
        if interruption:
            raise interruption

    def require_free(self) -> None:
        """Raise `AgentBusy` if the slot is held."""
        if self._token:
            raise AgentBusy("a run is going on: use steer() or follow_up(), or abort() it first")

    def cancel(self) -> None:
        """Set the holder's token, if there is a holder."""
        if token := self._token:
            token.cancel()

    def interrupt(self, interruption: BaseException) -> None:
        """Cancel the holder and raise *interruption* when it has ended; at once without one."""
        with self._lock:
            token = self._token
            if token:
                self._interruption = interruption
        if token is None:
            raise interruption
        token.cancel()

    async def wait(self) -> None:
        """Return when the slot is free."""
        with self._lock:
            if self._token is None:
                return
            # An event for each wait, because an event is bound to one event loop.
            waiter = (asyncio.get_running_loop(), asyncio.Event())
            self._waiters.append(waiter)
        await waiter[1].wait()
