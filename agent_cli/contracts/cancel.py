"""One flag that stops a run: the model call, every tool, every hook."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from agent_cli.contracts.errors import Aborted


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
