"""Work in a thread that changes something at its end, or never, when it is stopped before.

A thread cannot be interrupted. So it asks before its one change, and from then on the call waits
for it and says what it did.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolResult


class Claim:
    """Leave to change something: taken by the work, or withdrawn before, never both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._is_withdrawn = False

    def take(self) -> None:
        """Go past the point from which the change is made.

        Raises:
            ToolError: The call was stopped; nothing may be changed any more.
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
    """Return what *work* returns; it takes its claim before it changes anything.

    When the call is cancelled, *work* changes nothing any more, or has begun to: then the call
    waits for it and says that.

    Raises:
        ToolError: It was too late to stop; the text says so, with what *work* returned.
    """
    claim = Claim()
    run = partial(contextvars.copy_context().run, partial(work, claim))
    thread = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        if claim.withdraw():
            thread.add_done_callback(_forget)
            raise
        done = await thread
        raise ToolError(f"It was too late to stop the change: {done.text}") from None


def _forget(thread: asyncio.Future[ToolResult]) -> None:
    """Take the error of a thread that was stopped, or asyncio reports it as lost."""
    if not thread.cancelled():
        thread.exception()
