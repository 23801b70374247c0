"""Latency from key press to screen while 2,000 deltas a second stream: the program in a terminal.

Bar: 50 ms at the 95th percentile. The same keys at an idle prompt are measured first, in the same
run, so that a slow machine can be told from a slow program. The test server has its own process.
"""

import multiprocessing
import os
import random
import select
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pexpect
import pyte

from benchmarks._program import COMMAND, empty_home
from tests.messages_api import Gate, reply, serve_in_thread

DELTAS_PER_S = 2_000
DELTA_CHARS = 20
STREAM_S = 25
KEYS = 150
BAR_MS = 50
ROWS, COLUMNS = 40, 100
LIMIT_S = 60
TEXT = "Some *text* with `code` in it, and a bit more of it to read.\n\n- one\n- two **bold**\n\n"


def serve(pipe: Connection) -> None:
    """Stream an endless answer; the clock opens the gate."""
    gate = Gate()
    length = DELTAS_PER_S * DELTA_CHARS * STREAM_S
    answer = (TEXT * (length // len(TEXT) + 1))[:length]
    with serve_in_thread(reply(answer, chunk_chars=DELTA_CHARS, gate=gate)) as api:
        pipe.send(api.base_url)
        api.wait_for_requests(1, limit_s=LIMIT_S)
        begun_s, opened = time.perf_counter(), 0
        while not pipe.poll(0.005):
            due = int((time.perf_counter() - begun_s) * DELTAS_PER_S)
            gate.open(due - opened)
            opened = due


class Screen:
    """The program's terminal; `typed` sends a key and returns the ms until it was seen."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._child: Any = pexpect.spawn(  # Any: pexpect ships no types
            COMMAND, [], env=environment, cwd=environment["HOME"], dimensions=(ROWS, COLUMNS)
        )
        self.bytes = 0

    def send(self, keys: str) -> None:
        os.write(self._child.child_fd, keys.encode())

    def until(self, seen: Callable[[], bool]) -> float:
        """Return the time at which the output that made *seen* true had been read."""
        read_at_s = time.perf_counter()
        deadline_s = read_at_s + LIMIT_S
        while not seen():
            assert time.perf_counter() < deadline_s, "\n".join(self._screen.display)
            if select.select([self._child.child_fd], [], [], 0.01)[0]:
                data = os.read(self._child.child_fd, 65_536)
                read_at_s = time.perf_counter()
                self._stream.feed(data)
                self.bytes += len(data)
        return read_at_s

    def typed(self, key: str, row: str) -> float:
        sent_at_s = time.perf_counter()
        self.send(key)
        return (self.until(lambda: self.input_row() == row) - sent_at_s) * 1_000

    def input_row(self) -> str:
        return str(self._screen.display[self._screen.cursor.y]).rstrip()

    def shows(self, text: str) -> bool:
        return any(text in row for row in self._screen.display)

    def close(self) -> None:
        self._child.close(force=True)


def latencies_ms(screen: Screen) -> list[float]:
    """Type letters and erase them, at the pace of a quick typist."""
    pause_s = random.Random(1)
    found: list[float] = []
    end_s = time.perf_counter() + STREAM_S - 3
    while len(found) < 2 * KEYS and time.perf_counter() < end_s:
        for key, row in (("k", "you> k"), ("\x7f", "you>")):
            found.append(screen.typed(key, row))
            resume_s = time.perf_counter() + pause_s.uniform(0.01, 0.06)
            screen.until(lambda resume_s=resume_s: time.perf_counter() > resume_s)  # type: ignore[misc]
    return found


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,))
    server.start()
    with empty_home() as environment:
        screen = Screen(environment | {"ANTHROPIC_BASE_URL": ours.recv()})
        try:
            screen.until(lambda: screen.shows("MCP servers"))
            screen.until(lambda: screen.input_row() == "you>")
            idle = latencies_ms(screen)
            screen.send("go\r")
            screen.until(lambda: screen.shows("bold"))
            begun_s, already = time.perf_counter(), screen.bytes
            busy = latencies_ms(screen)
            passed_s, written = time.perf_counter() - begun_s, screen.bytes - already
        finally:
            screen.close()
            ours.send("stop")
            server.join()
    print(f"idle: p50 {statistics.median(idle):.1f} ms, p95 {p95(idle):.1f} ms")
    print(
        f"streaming {DELTAS_PER_S:,} deltas/s: p50 {statistics.median(busy):.1f} ms, "
        f"p95 {p95(busy):.1f} ms (bar: {BAR_MS}), max {max(busy):.0f} ms; "
        f"{written / passed_s / 1_000:.0f} kB/s to the screen"
    )
    print(f"p95 is {p95(busy) / p95(idle):.1f} x the idle one")


if __name__ == "__main__":
    main()
