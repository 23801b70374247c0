"""A limit on the time without progress in a reply, even if the server sends other data.

The read timeout counts only silence; a server that keeps sending pings, comments or headers would
keep the program waiting forever.
"""

import asyncio
from types import TracebackType
from typing import Any

from agent_cli.providers.failures import broken_off


class ProgressLimit:
    """The limit of one call; it starts at once and restarts with each piece of the reply.

    `with` it around each wait for the server; the body must not yield. One timer serves all waits:
    an `asyncio.timeout` for each took a fifth of the time of a long reply.
    """

    def __init__(self, limit_s: float, stage: str) -> None:
        self._limit_s = limit_s
        self._stage = stage
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + limit_s
        self._timer: asyncio.Handle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._cancelling = 0  # requests to cancel the task that are not ours
        self._is_over = False

    def restart(self) -> None:
        """Restart the limit: a piece of the reply has come."""
        self._deadline_s = self._loop.time() + self._limit_s

    def __enter__(self) -> None:
        """Begin to wait for the server."""
        self._waiting = asyncio.current_task()
        assert self._waiting is not None
        self._cancelling = self._waiting.cancelling()
        if self._loop.time() >= self._deadline_s:
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.call_soon(self._check)
        elif self._timer is None:
            self._timer = self._loop.call_at(self._deadline_s, self._check)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End the wait.

        Raises:
            CallFailed: The limit was reached.
        """
        task, self._waiting = self._waiting, None
        if not self._is_over:
            return
        self._is_over = False
        assert task is not None
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            what = f"{self._stage} sent no piece of the reply for {self._limit_s:g} s"
            raise broken_off(what) from error

    def _check(self) -> None:
        """Cancel the wait if the limit was reached; the timer may be of an earlier piece."""
        self._timer = None
        if self._waiting is None or self._is_over:
            return
        if self._loop.time() >= self._deadline_s:
            self._is_over = True
            self._waiting.cancel()
        else:
            self._timer = self._loop.call_at(self._deadline_s, self._check)
