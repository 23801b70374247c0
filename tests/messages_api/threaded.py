"""The server in a thread, for tests whose client is another process."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.messages_api.script import Answer, MakeAnswer
from tests.messages_api.server import CountTokens, Door, FakeMessagesApi

START_LIMIT_S = 60


@contextmanager
def serve_in_thread(
    *script: Answer | MakeAnswer,
    answer: MakeAnswer | None = None,
    key: str | None = None,
    context_window: int | None = None,
    door: Door | None = None,
    count: CountTokens | None = None,
) -> Generator[FakeMessagesApi]:
    """Run a FakeMessagesApi on a separate loop for the length of the block."""
    api = FakeMessagesApi(
        *script, answer=answer, key=key, context_window=context_window, door=door, count=count
    )
    started = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with api:
            stop.append((asyncio.get_running_loop(), asyncio.Event()))
            started.set()
            await stop[0][1].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="fake messages api")
    thread.start()
    try:
        if not started.wait(START_LIMIT_S):
            raise TimeoutError(f"the test server did not start within {START_LIMIT_S} s")
        yield api
    finally:
        if stop:
            loop, event = stop[0]
            loop.call_soon_threadsafe(event.set)
        thread.join(START_LIMIT_S)
