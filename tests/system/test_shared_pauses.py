"""Calls of several processes share the pauses of a struggling server."""

import asyncio
import fcntl
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from agent_cli.system import private_files
from agent_cli.system.shared_pauses import PauseState, SharedPause


class _World:
    """A clock that only waiting moves, and a server that is down until a moment."""

    def __init__(self, path: Path, *, down_until_s: float) -> None:
        self.now = 1_000.0
        self.down_until_s = self.now + down_until_s
        self.requests: list[tuple[float, bool]] = []
        self._path = path
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        self._changed = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self._sleepers.append((self.now + seconds, event))
        self._changed.set()
        await event.wait()

    async def agent(self, calls: int) -> None:
        """Make *calls* as one process does: wait for a turn, ask, say how it went."""
        pause = SharedPause(self._path, clock=lambda: self.now, sleep=self.sleep)
        while calls:
            await pause.turn()
            is_up = self.now >= self.down_until_s
            self.requests.append((self.now, is_up))
            if is_up:
                await pause.answered()
                calls -= 1
                await self.sleep(2.0)
            else:
                await pause.failed(None)

    async def run(self, agents: int, *, calls: int) -> None:
        running = [asyncio.ensure_future(self.agent(calls)) for _ in range(agents)]
        for task in running:
            task.add_done_callback(lambda _task: self._changed.set())
        while not all(task.done() for task in running):
            # All others wait in threads or for the clock.
            busy = len([task for task in running if not task.done()])
            if len(self._sleepers) < busy:
                self._changed.clear()
                await self._changed.wait()
                continue
            self._sleepers.sort(key=lambda each: each[0])
            until, event = self._sleepers.pop(0)
            self.now = max(self.now, until)
            event.set()
            await asyncio.sleep(0)
        await asyncio.gather(*running)


async def test_outage_of_a_minute_costs_a_few_probes_however_many_agents_wait(
    tmp_path: Path,
) -> None:
    """At most one request a second, after those that were under way when it began."""
    world = _World(tmp_path / "pause.json", down_until_s=60)

    async with asyncio.timeout(60):
        await world.run(16, calls=2)

    failed = [at for at, is_up in world.requests if not is_up]
    assert len(failed) <= 16 + 10
    assert len([at for at in failed if at > 1_000]) <= 10
    answered = sorted(at for at, is_up in world.requests if is_up)
    assert len(answered) == 32
    assert answered[0] - world.down_until_s <= 17
    assert answered[15] - answered[0] >= 3  # paced, not all at once


async def test_wait_that_the_server_asks_for_holds_for_every_process(tmp_path: Path) -> None:
    now = 50.0
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    one, other = (
        SharedPause(tmp_path / "pause.json", clock=lambda: now, sleep=sleep) for _ in range(2)
    )
    await one.failed(20.0)

    await other.turn()

    assert now >= 70
    assert max(waits) <= 1


# A repository may bring the folder of the file, and so any text in it.
TOO_LARGE = dict.fromkeys(asdict(PauseState()), 10**400)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"pause_s": "x"}', "\0" * 9, "[" * 4_000, json.dumps(TOO_LARGE)],
)
async def test_damaged_file_pauses_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pause.json"
    path.write_text(content)

    async def sleep(seconds: float) -> None:
        pytest.fail(f"it waits {seconds} s")

    await SharedPause(path, sleep=sleep).turn()
    await SharedPause(tmp_path / "missing" / "pause.json", sleep=sleep).failed(1.0)


async def test_file_that_a_stopped_process_has_locked_pauses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process under SIGSTOP, or a server of files that is away, would hold each call for ever."""
    path = tmp_path / "pause.json"
    monkeypatch.setattr(private_files, "LIMIT_S", 0.05)

    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        turn = asyncio.ensure_future(SharedPause(path).turn())
        done, _ = await asyncio.wait({turn}, timeout=60)

    await turn
    assert done == {turn}


async def test_probe_whose_process_died_is_repeated_by_another(tmp_path: Path) -> None:
    now = 50.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    one, other = (
        SharedPause(tmp_path / "pause.json", clock=lambda: now, sleep=sleep) for _ in range(2)
    )
    await one.failed(None)
    await one.turn()
    began = now

    await other.turn()

    assert 30 <= now - began <= 32


@pytest.mark.parametrize("is_over", [False, True])
async def test_clock_that_was_set_back_stops_nobody(tmp_path: Path, *, is_over: bool) -> None:
    """After an outage of some seconds, all calls waited for the hour that was lost."""
    now, waits_s = 10_000.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        waits_s.append(seconds)
        now += seconds

    pause = SharedPause(tmp_path / "pause.json", clock=lambda: now, sleep=sleep)
    await pause.failed(None)
    if is_over:
        await pause.answered()
        await pause.turn()
    now -= 3_600

    await pause.turn()

    assert sum(waits_s) < 1
