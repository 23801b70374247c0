"""Run work in a thread whose single change either happens completely or, if stopped, never.

A thread cannot be interrupted. So it claims permission before its change; from then on the call
waits for it and reports the result.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolResult

T = TypeVar("T")


class Claim:
    """Permission to make the change: either taken by the work or withdrawn before, never both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._is_withdrawn = False

    def take(self) -> None:
        """Take the permission, right before the change.

        Raises:
            ToolError: The call was stopped, so nothing may be changed.
        """
        with self._lock:
            if self._is_withdrawn:
                raise ToolError("The call was stopped, so nothing was written.")
            self._is_taken = True

    def withdraw(self) -> bool:
        """Forbid the change; return False if it is too late for that."""
        with self._lock:
            self._is_withdrawn = not self._is_taken
            return self._is_withdrawn


async def in_thread(work: Callable[[Claim], ToolResult]) -> ToolResult:
    """Run *work* in a thread and return its result; it takes its claim before any change.

    If the call is cancelled, either *work* changes nothing any more, or it has begun to: then the
    call waits for it and reports that.

    Raises:
        ToolError: It was too late to stop; the message includes the result of *work*.
    """
    claim = Claim()
    thread = unstoppable(partial(work, claim))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        if claim.withdraw():
            thread.add_done_callback(_forget)
            raise
        done = await thread
        raise ToolError(f"It was too late to stop the change: {done.text}") from None


def unstoppable(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run *work* in a thread; with `asyncio.shield` it goes on if the caller is cancelled."""
    run = partial(contextvars.copy_context().run, work)
    return asyncio.get_running_loop().run_in_executor(None, run)


def _forget(thread: asyncio.Future[ToolResult]) -> None:
    """Retrieve the error of a stopped thread, which asyncio would otherwise report."""
    if not thread.cancelled():
        thread.exception()
