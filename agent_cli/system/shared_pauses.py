"""The pauses of a struggling server, shared by all processes on one or many machines.

After a failure that passes by itself all wait, and one of them at a time asks again. Its success
lets the others go on, one after the other.
"""

import asyncio
import json
import os
import random
import socket
import stat
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.system.json_text import json_object
from agent_cli.system.private_files import wait_for_lock
from agent_cli.system.records import dataclass

FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 15.0
ASKED_MAX_S: Final = 300.0
# A probe that says nothing for so long was killed, or its machine is gone.
PROBE_S: Final = 30.0
# After a pause the waiting calls start at this distance, for this time.
DISTANCE_S: Final = 0.25
PACED_S: Final = 30.0
LOOK_EVERY_S: Final = 1.0
_BYTES_MAX: Final = 4_096
_ANSWER_LIMIT_S: Final = 10.0
# A link would lead the write elsewhere, and the folder may be one that a repository brings.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Step: TypeAlias = Literal["wait", "failed", "answered"]
"""What a caller says: that it wants to start, or how its call went."""


@dataclass(slots=True)
class PauseState:
    """The state; times are seconds since the epoch, by the clocks of all machines.

    `pause_s` is 0 while the server answers; `next` is the start of the next call after a pause.
    """

    pause_s: float = 0.0
    closed_until: float = 0.0
    probe_until: float = 0.0
    paced_until: float = 0.0
    next: float = 0.0

    def take(self, step: Step, asked_delay_s: float | None, now: float) -> float:
        """Note *step*; return the seconds until a caller that waits should ask again.

        *asked_delay_s* is how long the server asks to wait after a failure, if it does. A caller
        that gets 0 may start.
        """
        if step == "wait":
            return self._wait(now)
        if step == "failed":
            self._close(now, asked_delay_s)
        elif self.pause_s:
            self.pause_s = self.closed_until = self.probe_until = 0.0
            self.next, self.paced_until = now, now + PACED_S
        return 0.0

    def _wait(self, now: float) -> float:
        # A time too far ahead is that of a clock that was set back: it must not stop everything.
        if not self.pause_s:
            if now >= self.paced_until or self.next - now > PACED_S:
                return 0.0
            if self.next > now:
                return self.next - now
            self.next = now + DISTANCE_S
            return 0.0
        left = max(self.closed_until, self.probe_until) - now
        if 0 < left <= ASKED_MAX_S:
            return min(left, LOOK_EVERY_S) * random.uniform(0.5, 1.0)
        self.probe_until = now + PROBE_S
        return 0.0

    def _close(self, now: float, asked_delay_s: float | None) -> None:
        # Calls that were under way when it began say nothing new.
        if now >= self.closed_until:
            self.pause_s = min(max(self.pause_s * 2, FIRST_PAUSE_S), PAUSE_MAX_S)
        asked_s = min(asked_delay_s or self.pause_s, ASKED_MAX_S)
        self.closed_until = max(self.closed_until, now + asked_s)
        self.probe_until = 0.0


class SharedPause:
    """The pauses of the processes with one file: a call waits for its turn, and says how it went.

    So an outage (429, 529, 5xx, no connection) costs one request now and then, however many agents
    wait, on however many machines. If the path is a socket, the process behind it keeps the state:
    each step is a line of JSON, answered by a line with the seconds to wait.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read nothing yet; a file or a socket that cannot be used pauses nothing."""
        self._path = path
        self._clock = clock
        self._sleep = sleep

    async def turn(self) -> None:
        """Return when a call may start; during a pause for one caller at a time."""
        while wait_s := await asyncio.to_thread(self._taken, "wait"):
            await self._sleep(wait_s)

    async def failed(self, asked_delay_s: float | None) -> None:
        """Note that a call failed, and how long the server asks to wait, if it does."""
        await asyncio.to_thread(self._taken, "failed", asked_delay_s)

    async def answered(self) -> None:
        """Note that the server answered."""
        await asyncio.to_thread(self._taken, "answered")

    def _taken(self, step: Step, asked_delay_s: float | None = None) -> float:
        """Return the seconds to wait before the next *step*, by the state that all share."""
        try:
            if stat.S_ISSOCK(self._path.lstat().st_mode):
                return self._asked(step, asked_delay_s)
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return 0.0
        return self._updated(step, asked_delay_s)

    def _asked(self, step: Step, asked_delay_s: float | None) -> float:
        """Return the answer of the process that keeps the state.

        Raises:
            OSError: It does not answer.
            ValueError: It answers with something else.
        """
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_ANSWER_LIMIT_S)
            link.connect(str(self._path))
            link.sendall(json.dumps([step, asked_delay_s]).encode() + b"\n")
            with link.makefile("rb") as answers:
                return float(answers.readline(_BYTES_MAX))

    def _updated(self, step: Step, asked_delay_s: float | None) -> float:
        try:
            descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError:
            return 0.0
        try:
            wait_for_lock(descriptor, self._path)
            before = os.pread(descriptor, _BYTES_MAX, 0)
            state = _read(before)
            result = state.take(step, asked_delay_s, self._clock())
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


def _read(text: bytes) -> PauseState:
    """Return the state that a file holds; a fresh one if it holds another text."""
    found = json_object(text) or {}
    try:
        return PauseState(**{each.name: float(found[each.name]) for each in fields(PauseState)})
    except (LookupError, TypeError, ValueError, OverflowError):
        return PauseState()
