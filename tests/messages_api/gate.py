"""A gate: the server waits there until the test opens it; usable from any thread."""

import asyncio
import threading


class Gate:
    """Counts permits; `open()` without a number opens it for good."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._lock = threading.Lock()
        self._permits = 0
        self._open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self, permits: int | None = None) -> None:
        """Let *permits* waits pass, or all of them from now on."""
        with self._lock:
            if permits is None:
                self._open = True
            else:
                self._permits += permits
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Take one permit, waiting for it if there is none."""
        while True:
            event = asyncio.Event()
            with self._lock:
                if self._open:
                    return
                if self._permits:
                    self._permits -= 1
                    return
                self._waiting.append((asyncio.get_running_loop(), event))
            self.reached.set()
            await event.wait()


class Pace(Gate):
    """A gate that opens after a pause each time: the reply comes piece by piece."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self._pause_s = pause_s

    async def wait(self) -> None:
        """Let one piece pass."""
        self.reached.set()
        await asyncio.sleep(self._pause_s)
