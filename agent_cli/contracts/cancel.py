"""One flag that stops a run: the model call, every tool, every hook."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from agent_cli.contracts.errors import Aborted

# A person who answers by telephone notices no half second; each look reads the disk.
_LOOK_S: Final = 0.5

T = TypeVar("T")
A = TypeVar("A")


class CancelToken:
    """Set once, never cleared; a run gets a fresh one.

    Code that awaits does so inside `scope()`, which is interrupted when the token is set. Code that
    blocks a thread polls `cancelled`, which is True once `cancel()` was called.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._scopes: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}

    def cancel(self) -> None:
        """Interrupt every open scope; may be called from any thread and any number of times."""
        self.cancelled = True
        for limit, loop in tuple(self._scopes.items()):
            with suppress(RuntimeError):  # its loop was closed
                loop.call_soon_threadsafe(self._interrupt, limit)

    def _interrupt(self, limit: asyncio.Timeout) -> None:
        if limit in self._scopes and not limit.expired():
            limit.reschedule(0)

    def check(self) -> None:
        """Raise `Aborted` if the token is set; for code that has not awaited since."""
        if self.cancelled:
            raise Aborted

    async def wait(self) -> None:
        """Return when the token is set."""
        with suppress(Aborted):
            async with self.scope():
                await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def scope(self) -> AsyncGenerator[None]:
        """Run the body until it ends or the token is set.

        A token that is set in the body's last moment does not interrupt it any more: `check()`
        before work that another token stops.

        Raises:
            Aborted: The token was set before or inside; the body saw CancelledError.
        """
        # asyncio.timeout does the delicate part: distinguishing our cancellation from a caller's.
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._scopes[limit] = asyncio.get_running_loop()
                self.check()  # only now: a later cancel() finds this scope
                yield
        except TimeoutError:
            if limit.expired():
                raise Aborted from None
            raise
        finally:
            self._scopes.pop(limit, None)


async def first_answer(dialog: Callable[[], Awaitable[T]], take: Callable[[], A | None]) -> T | A:
    """Return what *dialog* does, or what *take* finds meanwhile: then the dialog is cancelled.

    An answer that was taken counts, even if the dialog ends at the same moment.

    Args:
        dialog: Asks at the terminal.
        take: Returns the answer from elsewhere, once; None while there is none.
    """
    stop, loop = CancelToken(), asyncio.get_running_loop()
    found: list[A] = []

    def look() -> None:
        if stop.cancelled:
            return
        if (answer := take()) is not None:
            found.append(answer)
            stop.cancel()
        else:
            loop.call_later(_LOOK_S, look)

    loop.call_later(_LOOK_S, look)
    try:
        async with stop.scope():
            typed = await dialog()
    except Aborted:
        if not found:  # the run was stopped, not the question answered
            raise
    else:
        if not found:
            return typed
    finally:
        stop.cancel()  # no further look
    return found[0]
