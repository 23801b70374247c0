"""Keep the prompt cache over a pause: repeat the last request, for one token, before it expires.

A repetition reads the cache and so renews it, for less than a fiftieth of what a loss costs. It is
worth that only if somebody comes back in time: `expected_saving` weighs the two. It is never sent
by a session that ended, after the user's limit, or twice to a cache that turned out to be gone.
"""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Literal

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import AgentEnd, AgentStart, Event
from agent_cli.contracts.provider import (
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    Retrying,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.wording import dollars
from agent_cli.policies.cache_watch import CACHE_LIFE_S
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

RENEWED_AT: Final = 0.9
"""The part of the cache's life after which it is renewed."""
IDLE_CHANCE: Final = 0.15
"""How often an idle user comes back within one more life of the cache, as measured elsewhere."""
LEAST_SAVING: Final = 50_000
"""Microdollars below which nothing is repeated."""
RUN_LIMIT_S: Final = 3_600.0
IDLE_LIMIT_S: Final = 1_800.0

_log = logger(__name__)


def expected_saving(price: Callable[[Usage], int | None], tokens: int, *, runs: bool) -> int | None:
    """Return the microdollars that one renewal of *tokens* saves on average; None if unknown.

    Args:
        price: Prices tokens of the model.
        tokens: The size of what is cached.
        runs: Whether a tool runs, whose result is sent for certain; else a user may come back.
    """
    written = price(Usage(cache_write_5m_tokens=tokens))
    read = price(Usage(cache_read_tokens=tokens))
    renewed = price(Usage(cache_read_tokens=tokens, output_tokens=1))
    if written is None or read is None or renewed is None:
        return None
    return round((1.0 if runs else IDLE_CHANCE) * (written - read)) - renewed


@dataclass(frozen=True, slots=True)
class _Cached:
    """The last request, and when its cache was last read."""

    request: ModelRequest
    tokens: int
    used_s: float


class CacheWarming:
    """The renewals of one agent's cache; `async with` ends them. Subscribe `listen` to its events.

    Attributes:
        renewals: How often the cache was renewed.
        spent: The cost of that, in microdollars.
        saved: The cost of the losses that it prevented.
    """

    def __init__(
        self,
        when: Literal["idle", "always"],
        stream: StreamFn,
        *,
        price: Price,
        session_id: Callable[[], str],
        can_repeat: Callable[[ModelRequest], bool] = lambda _request: True,
        left: Callable[[], float] = lambda: math.inf,
        on_renewed: Callable[[float], None] = lambda _at_s: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Renew nothing yet.

        Args:
            when: "always" is also while tools run.
            stream: Asks the model, counts the cost, and holds the user's limit.
            price: Prices tokens.
            session_id: Returns the id that the session's requests have now.
            can_repeat: Returns whether one token less changes nothing that the cache depends on,
                and the next request will read what is cached.
            left: Returns the microdollars that the user's limit leaves. It has to pay for two
                losses: a prompt that comes meanwhile shall not wait for this reservation.
            on_renewed: Called with the time of each renewal.
            clock: Returns the time in seconds.
        """
        self._when = when
        self._ask = stream
        self._price = price
        self._session_id = session_id
        self._can_repeat = can_repeat
        self._left = left
        self._on_renewed = on_renewed
        self._clock = clock
        self._cached: _Cached | None = None
        self._generation = 0
        self._asked_s = 0.0
        self._is_renewed = False
        self._runs = False
        self._is_off = False
        self._changed = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._watching: asyncio.Task[None] | None = None
        self.renewals = 0
        self.spent = 0
        self.saved = 0

    async def __aenter__(self) -> "CacheWarming":
        await self._group.__aenter__()
        self._watching = self._group.create_task(self._watch())
        return self

    async def __aexit__(self, *_failure: object) -> None:
        if self._watching:
            self._watching.cancel()
        await self._group.__aexit__(None, None, None)

    def listen(self, event: Event) -> None:
        """Note whether a run is going on; an event sink."""
        match event:
            case AgentStart():
                self._runs = True
            case AgentEnd():
                self._runs = False
            case _:
                pass

    def begin(self) -> None:
        """Note that a request is sent: it reads the cache itself."""
        self._keep(None)

    def note(self, request: ModelRequest, reply: Reply, sent_s: float) -> None:
        """Note the *reply* to the *request* sent at *sent_s*."""
        usage = reply.usage
        if self._is_renewed and sent_s - self._asked_s > CACHE_LIFE_S:
            read = usage.cache_read_tokens
            self.saved += self._cost(reply.model, Usage(cache_write_5m_tokens=read))
            self.saved -= self._cost(reply.model, Usage(cache_read_tokens=read))
        self._asked_s, self._is_renewed = sent_s, False
        self._keep(_Cached(request, usage.cached_tokens, sent_s))

    def lines(self) -> list[str]:
        """Return the lines of `/usage cache` about this."""
        if not self.renewals:
            return []
        times = "once" if self.renewals == 1 else f"{self.renewals} times"
        spent, saved = dollars(self.spent), dollars(self.saved)
        return [f"kept warm {times} in this run for {spent}, which saved {saved} so far"]

    async def renew(self) -> bool:
        """Repeat the last request if that is worth it; return whether the cache is renewed.

        If it is not, nothing more is sent before the next reply; if the cache was gone, or the
        server refused, never again.
        """
        cached = self._cached
        self._keep(None)
        if cached is None or not self._is_worth_it(cached):
            return False
        at_s, generation = self._clock(), self._generation
        reply = await self._reply(
            replace(cached.request, max_tokens=1, fallbacks=(), keeps_warm=True),
            limit_s=cached.used_s + CACHE_LIFE_S - at_s,
        )
        if reply is None or not reply.usage.cache_read_tokens or reply.usage.cache_write_tokens:
            self._is_off = True
            _log.info("cache not kept warm any more", model=cached.request.model.id)
            return False
        self.renewals += 1
        self.spent += reply.usage.cost_microdollars or 0
        self._is_renewed = True
        if self._generation == generation:  # no request went out meanwhile
            self._keep(replace(cached, used_s=at_s))
            self._on_renewed(at_s)
        return True

    def _keep(self, cached: _Cached | None) -> None:
        self._generation += 1
        self._cached = cached
        self._changed.set()

    async def _watch(self) -> None:
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._due_in_s()):
                    await self._changed.wait()
            except TimeoutError:
                await self.renew()

    def _due_in_s(self) -> float | None:
        if self._cached is None:
            return None
        return max(0.0, self._cached.used_s + RENEWED_AT * CACHE_LIFE_S - self._clock())

    def _is_worth_it(self, cached: _Cached) -> bool:
        now_s = self._clock()
        limit_s = RUN_LIMIT_S if self._runs else IDLE_LIMIT_S
        if (
            self._is_off
            or (self._runs and self._when != "always")
            or now_s - self._asked_s > limit_s
            or now_s - cached.used_s >= CACHE_LIFE_S  # after a sleep of the machine
            or cached.request.session_id != self._session_id()
            or not self._can_repeat(cached.request)
        ):
            return False
        model = cached.request.model.id
        saving = expected_saving(
            lambda usage: self._price(model, usage), cached.tokens, runs=self._runs
        )
        lost = self._cost(model, Usage(cache_write_5m_tokens=cached.tokens))
        return saving is not None and saving >= LEAST_SAVING and 2 * lost <= self._left()

    async def _reply(self, request: ModelRequest, *, limit_s: float) -> Reply | None:
        """Ask once; None without an answer in time. What comes later would be paid in full."""
        try:
            async with (
                asyncio.timeout(limit_s),
                aclosing(closable(self._ask(request))) as events,
            ):
                async for event in events:
                    if isinstance(event, Retrying):
                        return None
                    if isinstance(event, ReplyEnd):
                        return event.reply
        except TimeoutError:
            _log.info("cache not renewed", reason=f"no answer within {limit_s:.0f} s")
        except AgentCliError as error:
            _log.info("cache not renewed", reason=str(error))
        return None

    def _cost(self, model_id: str, usage: Usage) -> int:
        return self._price(model_id, usage) or 0
