"""Retry failed calls: how often, after which wait, and the pauses that processes share.

tenacity decides, the stream waits.
"""

import asyncio
import json
import os
import random
import socket
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, fields, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Self, TypeAlias, get_args

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from agent_cli.contracts import options
from agent_cli.contracts.errors import ServerDelayTooLong
from agent_cli.contracts.provider import Retrying, StreamEvent
from agent_cli.contracts.wording import requested_duration
from agent_cli.providers.failures import CallFailed
from agent_cli.system.private_files import wait_for_lock
from agent_cli.system.records import dataclass
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


PARTS_OF_A_REPLY = ("text_delta", "thinking_delta", "toolcall_start", "toolcall_delta", "block_end")

FailureKind: TypeAlias = options.FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The section [retry] of the settings; see `appsettings.example.toml`.

    Attributes:
        max: Retries after the first call; 0 means none.
        base_s: First wait after a 429; 10, 20, 40, 80, 160 with the defaults.
        other_base_s: First wait after anything else (overload, connection, broken stream).
        factor: Each wait is this multiple of the previous one.
        jitter: "full" draws each wait between 0 and its value in the table.
        on: The failures after which a call is retried.
        respect_retry_after: Wait as long as the server asks instead of the computed wait.
        max_server_delay_s: The longest wait a server may ask for, unless the request sets another.
    """

    max: int = options.RETRIES
    base_s: float = options.RETRY_BASE_S
    other_base_s: float = options.RETRY_OTHER_BASE_S
    factor: float = options.RETRY_FACTOR
    jitter: options.Jitter = options.RETRY_JITTER
    on: tuple[FailureKind, ...] = get_args(FailureKind)
    respect_retry_after: bool = True
    max_server_delay_s: float = options.MAX_SERVER_DELAY_S

    def within(self, max_retry_delay_ms: int | None) -> Self:
        """Return the policy of a request with its own limit of the wait a server may ask for."""
        if max_retry_delay_ms is None:
            return self
        return replace(self, max_server_delay_s=max_retry_delay_ms / 1000)

    def wait_s(self, retry: int, *, rate_limited: bool, random_share: float) -> float:
        """Return the wait before retry number *retry*, from 1; *random_share* is in [0, 1)."""
        base_s = self.base_s if rate_limited else self.other_base_s
        wait_s = base_s * float(self.factor ** (retry - 1))
        return wait_s * random_share if self.jitter == "full" else wait_s


async def with_retries(
    attempt: Callable[[], AsyncGenerator[StreamEvent, None]],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]],
    shared: SharedPause | None = None,
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of *attempt*, restarted after each transient failure.

    A `Retrying` precedes each wait, so that a front end can show it meanwhile. With *shared*, each
    attempt waits for its turn among other processes.

    Raises:
        ModelError: A retry cannot help, or `policy.max` retries failed.
        ServerDelayTooLong: The server asked for a longer wait than the policy allows.
    """
    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.max + 1),
        retry=retry_if_exception(lambda failure: _may_pass(failure, policy)),
        wait=_Wait(policy),
        sleep=_announced_below,
        reraise=True,
    )
    failure: CallFailed | None = None
    begun = False
    try:
        async for trial in retrying:
            state = trial.retry_state
            if failure is not None:
                wait_s = state.upcoming_sleep
                retry = state.attempt_number - 1
                yield Retrying(
                    retry,
                    policy.max,
                    wait_s,
                    failure.reason,
                    restarted=begun,
                    may_have_cost=failure.error.may_have_cost,
                )
                await sleep(wait_s)
            failure, begun = None, False
            if shared:
                await shared.turn()
            try:
                async with aclosing(_reporting(attempt(), policy, shared)) as events:
                    async for event in events:
                        begun = begun or event.type in PARTS_OF_A_REPLY
                        yield event
            except CallFailed as failed:
                failure = failed
            # Outside of the loop above, because a trial must not see GeneratorExit or a
            # cancellation.
            with trial:
                if failure is not None:
                    _check_delay(failure, policy)
                    raise failure
    except CallFailed as failed:
        raise failed.error from failed


async def _reporting(
    events: AsyncGenerator[StreamEvent, None], policy: RetryPolicy, shared: SharedPause | None
) -> AsyncGenerator[StreamEvent, None]:
    """Yield *events*, and tell *shared* whether the server answered."""
    async with aclosing(events):
        if shared is None:
            async for event in events:
                yield event
            return
        is_told = False
        try:
            async for event in events:
                if not is_told:
                    is_told = True
                    await shared.answered()
                yield event
        except CallFailed as failed:
            if _may_pass(failed, policy):
                await shared.failed(failed.asked_delay_s)
            else:
                await shared.answered()
            raise


class _Wait:
    """The wait strategy for tenacity."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy

    def __call__(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        assert isinstance(failure, CallFailed)
        if failure.asked_delay_s is not None and self._policy.respect_retry_after:
            return failure.asked_delay_s
        return self._policy.wait_s(
            state.attempt_number, rate_limited=failure.kind == "429", random_share=random.random()
        )


def _may_pass(failure: BaseException, policy: RetryPolicy) -> bool:
    return isinstance(failure, CallFailed) and failure.retryable and failure.kind in policy.on


async def _announced_below(_wait_s: float) -> None:
    """Do not wait here: the generator yields `Retrying` first, then waits."""


def _check_delay(failure: CallFailed, policy: RetryPolicy) -> None:
    asked_s = failure.asked_delay_s
    if asked_s is None or not (_may_pass(failure, policy) and policy.respect_retry_after):
        return
    if asked_s > policy.max_server_delay_s:
        error = failure.error
        raise ServerDelayTooLong(
            f"the API asks to wait {requested_duration(asked_s)}, longer than"
            f" retry.max_server_delay_s ({policy.max_server_delay_s:g} s) allows;"
            " ask again later or raise that setting",
            status=error.status,
            request_id=error.request_id,
            kind=error.kind,
            trouble=error.trouble,
        )


def server_delay_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Return the wait a response asks for, or None.

    `retry-after-ms` is more exact and wins over `retry-after` (seconds or an HTTP date). A date is
    held against the server's own `date`, because our clock may differ, or else against *now_s*.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    seconds = _number(after)
    if seconds is not None or after is None:
        return seconds
    until_s, server_now_s = _date_s(after), _date_s(headers.get("date", ""))
    if until_s is None:
        return None
    return max(0.0, until_s - (now_s if server_now_s is None else server_now_s))


def _date_s(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        # Not in our zone: a date of HTTP is in GMT, also in the form that names none.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    # Not `number < 0`, because a header may also say "nan".
    return number if number >= 0 else None
