"""Run blocking work in a thread that is not waited for at exit."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run *work* in a thread; the future gets its result or exception.

    Unlike `asyncio.to_thread`, it uses a daemon thread, so that the program's exit does not wait
    for an import or a blocked pipe. A result that comes too late is dropped.
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
    """Call *callback* in *loop*, from any thread; do nothing if the loop was closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise
