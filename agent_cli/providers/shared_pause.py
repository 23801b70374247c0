"""Share the pauses of a struggling server between processes, through one small file.

After a failure that passes by itself (429, 529, 5xx, no connection), all processes with the file
wait, and one of them at a time asks again. Its success lets the others go on, one after the other.
So an outage costs one request now and then, however many agents wait, on however many machines.
"""

import asyncio
import fcntl
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from agent_cli.system.shapes import is_object

_FIRST_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 15.0
_ASKED_MAX_S: Final = 300.0
# A probe that says nothing for so long was killed, or its machine is gone.
_PROBE_S: Final = 30.0
# After a pause the waiting calls start at this distance, for this time.
_DISTANCE_S: Final = 0.25
_PACED_S: Final = 30.0
_LOOK_EVERY_S: Final = 1.0
_BYTES_MAX: Final = 4_096
# A link would lead the write elsewhere, and the folder may be one that a repository brings.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class _State:
    """The content of the file; times are seconds since the epoch, by the clocks of all machines.

    `pause_s` is 0 while the server answers; `next` is the start of the next call after a pause.
    """

    pause_s: float = 0.0
    closed_until: float = 0.0
    probe_until: float = 0.0
    paced_until: float = 0.0
    next: float = 0.0


class SharedPause:
    """Each call of the model waits for its turn, and says how it went."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read nothing yet; a file that cannot be used pauses nothing."""
        self._path = path
        self._clock = clock
        self._sleep = sleep

    async def turn(self) -> None:
        """Return when a call may start; during a pause for one caller at a time."""
        while wait_s := await asyncio.to_thread(self._updated, self._wait):
            await self._sleep(wait_s)

    async def failed(self, asked_delay_s: float | None) -> None:
        """Note that a call failed, and how long the server asks to wait, if it does."""
        await asyncio.to_thread(self._updated, lambda state: self._close(state, asked_delay_s))

    async def answered(self) -> None:
        """Note that the server answered."""
        await asyncio.to_thread(self._updated, self._open)

    def _wait(self, state: _State) -> float:
        """Return the seconds until the caller should ask again; 0 if it may start."""
        now = self._clock()
        if not state.pause_s:
            if now >= state.paced_until:
                return 0.0
            if state.next > now:
                return state.next - now
            state.next = now + _DISTANCE_S
            return 0.0
        left = max(state.closed_until, state.probe_until) - now
        # A clock that was set back must not stop everything.
        if 0 < left <= _ASKED_MAX_S:
            return min(left, _LOOK_EVERY_S) * random.uniform(0.5, 1.0)
        state.probe_until = now + _PROBE_S
        return 0.0

    def _close(self, state: _State, asked_delay_s: float | None) -> float:
        now = self._clock()
        # Calls that were under way when it began say nothing new.
        if now >= state.closed_until:
            state.pause_s = min(max(state.pause_s * 2, _FIRST_PAUSE_S), _PAUSE_MAX_S)
        asked_s = min(asked_delay_s or state.pause_s, _ASKED_MAX_S)
        state.closed_until = max(state.closed_until, now + asked_s)
        state.probe_until = 0.0
        return 0.0

    def _open(self, state: _State) -> float:
        if state.pause_s:
            now = self._clock()
            state.pause_s = state.closed_until = state.probe_until = 0.0
            state.next, state.paced_until = now, now + _PACED_S
        return 0.0

    def _updated(self, change: Callable[[_State], float]) -> float:
        """Return the result of *change*, called with the state that all processes share."""
        try:
            descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError:
            return 0.0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            before = os.pread(descriptor, _BYTES_MAX, 0)
            state = _read(before)
            result = change(state)
            after = json.dumps(asdict(state)).encode()
            if after != before:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, after, 0)
        except OSError:
            return 0.0
        else:
            return result
        finally:
            os.close(descriptor)


def _read(text: bytes) -> _State:
    try:
        found = json.loads(text)
    except ValueError:
        return _State()
    names = {field.name for field in fields(_State)}
    if not (is_object(found) and found.keys() == names):
        return _State()
    numbers = {
        name: float(value) for name, value in found.items() if isinstance(value, int | float)
    }
    return _State(**numbers)
