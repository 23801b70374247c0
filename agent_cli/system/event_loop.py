"""Run the program's event loop, which ends in bounded time, and blocking work in threads."""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from agent_cli.system import stop_signals

T = TypeVar("T")

_END_LIMIT_S: Final = 2.0
_THREADS: Final = "run_loop"


class AsyncClosable(Protocol):
    """Something with connections of one event loop."""

    async def aclose(self) -> None:
        """Close them."""
        ...


async def closed_with_loop(closable: AsyncClosable) -> AsyncGenerator[None]:
    """Return a generator that closes *closable* when it is closed: by its user, or by the loop.

    A loop closes the asynchronous generators that it has begun when `asyncio.run` ends.
    """
    closing = _open_until_closed(closable)
    await anext(closing)
    return closing


async def _open_until_closed(closable: AsyncClosable) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await closable.aclose()


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* in a new event loop and return its result.

    Unlike `asyncio.run`, do not wait without a limit for tasks that swallow their cancellation and
    threads that block. They are held, and `ending.end` ends the process without them.
    """
    runner = asyncio.Runner()
    threads = ThreadPoolExecutor(thread_name_prefix=_THREADS)
    try:
        with stop_signals.held_back():
            loop = runner.get_loop()
        loop.set_default_executor(threads)
        return runner.run(main)
    finally:
        if inspect.getcoroutinestate(main) == inspect.CORO_CREATED:
            main.close()  # a signal came first, and Python would warn
        loop = runner.get_loop()
        if left := [*loop.run_until_complete(_end_tasks()), *_end_threads(threads)]:
            stop_signals.hold((runner, *left))
        else:
            try:
                runner.close()
            except BaseException:
                # A signal broke it off. Freed half closed, the loop would print an error.
                stop_signals.hold((loop,))
                raise


async def _end_tasks() -> set[asyncio.Task[Any]]:
    """Cancel the tasks that still run, and return the tasks that keep running."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return (await asyncio.wait(tasks, timeout=_END_LIMIT_S))[1] if tasks else set()


def _end_threads(threads: ThreadPoolExecutor) -> list[threading.Thread]:
    """Let idle threads end, and return the busy threads."""
    threads.shutdown(wait=False, cancel_futures=True)
    until_s = time.monotonic() + _END_LIMIT_S
    ours = [each for each in threading.enumerate() if each.name.startswith(_THREADS)]
    for each in ours:
        each.join(max(0.0, until_s - time.monotonic()))
    return [each for each in ours if each.is_alive()]


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
