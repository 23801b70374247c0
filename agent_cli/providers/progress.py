"""A limit on the time without progress in a reply, even if the server sends other data.

The read timeout counts only silence; a server that keeps sending pings, comments or headers would
keep the program waiting forever.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from agent_cli.contracts.timeline import Json
from agent_cli.providers.failures import broken_off

_PROGRESS = ("message_start", "message_delta", "message_stop")


class ProgressLimit:
    """The limit of one call; it starts at once and restarts with each piece of the reply."""

    def __init__(self, limit_s: float, place: str) -> None:
        self._limit_s = limit_s
        self._place = place
        self._deadline_s = 0.0
        self._begin()

    def note(self, payload: Mapping[str, Json]) -> None:
        """Restart the limit if *event* is a piece of the reply."""
        kind = str(payload.get("type"))
        if kind in _PROGRESS or kind.startswith("content_block_"):
            self._begin()

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None]:
        """Limit the body, which waits for the server and must not yield events.

        Raises:
            CallFailed: The limit was reached.
        """
        limit = asyncio.timeout_at(self._deadline_s)
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            what = f"{self._place} sent no piece of the reply for {self._limit_s:g} s"
            raise broken_off(what) from error

    def _begin(self) -> None:
        self._deadline_s = asyncio.get_running_loop().time() + self._limit_s
