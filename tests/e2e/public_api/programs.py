"""Random programs over the public API: agents, streams, listeners that call back in, imports of
histories, in several event loops, threads and tasks at once, with the real provider over HTTP.
"""

import asyncio
import gc
import itertools
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from agent_cli import Event
from tests.e2e.public_api.findings import Findings
from tests.e2e.public_api.ledger import Ledger
from tests.e2e.public_api.server import Server
from tests.e2e.public_api.watched import NOT_FOR_LISTENERS, Watched
from tests.e2e.public_api.world import LIMIT_S, World
from tests.messages_api import FakeMessagesApi, serve_in_thread

_A_WORLD: Final = 100
_A_ROUND: Final = 50
_CLOSED: Final = "Event loop is closed"
_ABANDONED_SHARE: Final = 0.1


def live(seed: int, count: int) -> Findings:
    """Do at least *count* operations in one world after the other; return what came of them.

    Programs of an odd seed also close event loops under their runs.
    """
    findings, abandons = Findings(), bool(seed % 2)
    ledger = Ledger(findings)
    server = Server(seed, ledger)
    with (
        _leftovers_counted(findings, abandons=abandons),
        serve_in_thread(answer=server.answer) as api,
    ):
        number = 0
        while findings.operations.total() < count and not findings.violations:
            number += 1
            world = World(seed * 1_000_003 + number, api.base_url, server, ledger)
            for _ in range(_A_WORLD // _A_ROUND):
                _round(world, abandons=abandons)
            asyncio.run(world.settle())
            _account(findings, api)
    return findings


@contextmanager
def _leftovers_counted(findings: Findings, *, abandons: bool) -> Generator[None]:
    """Hear of objects that Python cannot end, or that were never closed: there should be none.

    Nothing can close the connections of an event loop that was closed under its runs, nor end the
    coroutines; so programs that do that have such leftovers.
    """

    def hook(unraisable: Any) -> None:
        if abandons and _is_of_closed_loop(unraisable.exc_value, unraisable.object):
            findings.count(findings.facts, "left in closed loops")
        else:
            findings.violate(f"unraisable: {unraisable.exc_value!r} in {unraisable.object!r}")

    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before


def _is_of_closed_loop(problem: object, owner: object) -> bool:
    if isinstance(problem, ResourceWarning):
        return "unclosed" in str(problem)
    if isinstance(problem, RuntimeWarning):
        return "never awaited" in str(problem) and NOT_FOR_LISTENERS not in str(problem)
    code = getattr(owner, "cr_code", getattr(owner, "ag_code", None))
    is_library = "site-packages" in getattr(code, "co_filename", "")
    return isinstance(problem, RuntimeError) and (is_library or str(problem) == _CLOSED)


def _round(world: World, *, abandons: bool) -> None:
    """Do some operations: in a new event loop, in two threads, or in a loop that is closed."""
    chance = world.dice.random()
    if abandons and chance < _ABANDONED_SHARE:
        _abandon(world)
    elif chance < 0.5:
        asyncio.run(_work(world, _A_ROUND))
    else:
        threads = [
            threading.Thread(target=asyncio.run, args=(_work(world, _A_ROUND // 2),), daemon=True)
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S * 2)
            if thread.is_alive():
                world.findings.violate("a thread hangs")


async def _work(world: World, count: int) -> None:
    """Do *count* operations; nothing may fail behind their backs."""
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, found: world.findings.violate(f"unseen: {found!r}")
    )
    await world.work(count)


def _abandon(world: World) -> None:
    """Close an event loop while its runs go on, as a program does that has no more use for it."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _found: None)  # tasks are destroyed
    limit, watched = world.dice.randint(1, 40), world.dice.choice(world.watched)
    loop.run_until_complete(_some_events(world, watched, limit))
    loop.close()
    world.findings.count(world.findings.facts, "abandoned loops")


async def _some_events(world: World, watched: Watched, limit: int) -> None:
    """Begin to work; return after *limit* events of *watched*, or when the work is done."""
    work = asyncio.ensure_future(world.work(_A_ROUND))
    enough = asyncio.Event()
    left = itertools.count(limit, -1)

    def listener(_event: Event) -> None:
        if next(left) == 0:
            enough.set()

    watched.agent.subscribe(listener)
    seen = asyncio.ensure_future(enough.wait())
    await asyncio.wait([work, seen], return_when=asyncio.FIRST_COMPLETED)
    watched.agent.unsubscribe(listener)


def _account(findings: Findings, api: FakeMessagesApi) -> None:
    findings.count(findings.facts, "requests", len(api.requests))
    for refusal in api.refusals:
        findings.violate(f"invalid request: {refusal}")
    api.requests.clear()
    api.posted.clear()
    api.refusals.clear()
