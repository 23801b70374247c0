"""The pauses of a struggling server, shared by all processes on one or many machines."""

import asyncio
import json
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

from agent_cli.system.private_files import wait_for_lock
from agent_cli.system.shapes import is_object
from agent_cli.system.shared_pauses import PauseState, Step

_BYTES_MAX: Final = 4_096
_ANSWER_LIMIT_S: Final = 10.0
# A link would lead the write elsewhere, and the folder may be one that a repository brings.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SharedPause:
    """The pauses of a struggling server: each call waits for its turn, and says how it went.

    After a failure that passes by itself (429, 529, 5xx, no connection), all processes with the
    file wait, and one of them at a time asks again. So an outage costs one request now and then,
    however many agents wait, on however many machines. If the path is a socket, the process behind
    it keeps the state: each step is a line of JSON, answered by a line with the seconds to wait.
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
    try:
        found = json.loads(text)
    except ValueError:
        return PauseState()
    names = {field.name for field in fields(PauseState)}
    if not (is_object(found) and found.keys() == names):
        return PauseState()
    numbers = {
        name: float(value) for name, value in found.items() if isinstance(value, int | float)
    }
    return PauseState(**numbers)
