"""Run blocking work in a thread that is not waited for at exit."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run *work* in a thread; the future gets what it returns or raises.

    Not `asyncio.to_thread`: somebody who leaves must not wait for an import or for a pipe that
    nobody closes, so the thread is a daemon and its result may find nobody.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        try:
            done = work()
        except BaseException as error:
            failure = error
            tell(loop, lambda: settle(lambda: future.set_exception(failure)))
        else:
            tell(loop, lambda: settle(lambda: future.set_result(done)))

    threading.Thread(target=run, name="background", daemon=True).start()
    return future


def tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call *callback* in *loop*, from any thread; a loop that was closed misses nothing."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise
