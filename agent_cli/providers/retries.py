"""Retry failed calls: how often, and after which wait.

tenacity decides, the stream waits.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Self, get_args

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from agent_cli.contracts import options
from agent_cli.contracts.errors import ServerDelayTooLong
from agent_cli.contracts.provider import Retrying, StreamEvent
from agent_cli.contracts.wording import requested_duration
from agent_cli.providers.failures import CallFailed
from agent_cli.system.records import dataclass
from agent_cli.system.shared_pauses import SharedPause

PARTS_OF_A_REPLY = ("text_delta", "thinking_delta", "toolcall_start", "toolcall_delta", "block_end")


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

    Raises:
        AgentCliError: A value has another type or is out of its range.
    """

    max: int = options.RETRIES
    base_s: float = options.RETRY_BASE_S
    other_base_s: float = options.RETRY_OTHER_BASE_S
    factor: float = options.RETRY_FACTOR
    jitter: options.Jitter = options.RETRY_JITTER
    on: tuple[options.FailureKind, ...] = get_args(options.FailureKind)
    respect_retry_after: bool = True
    max_server_delay_s: float = options.MAX_SERVER_DELAY_S

    def __post_init__(self) -> None:
        options.require_whole(self.max, 0, what="max of a RetryPolicy")
        for name in ("base_s", "other_base_s", "factor", "max_server_delay_s"):
            options.require_number(getattr(self, name), what=f"{name} of a RetryPolicy")
        jitters = get_args(options.Jitter)
        options.require_one_of(self.jitter, jitters, what="jitter of a RetryPolicy")
        options.require_all(self.on, str, what="on of a RetryPolicy")
        for kind in self.on:
            kinds = get_args(options.FailureKind)
            options.require_one_of(kind, kinds, what="each of on of a RetryPolicy")

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
    shared: SharedPause | None,
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
        has_answered = False
        try:
            async for event in events:
                if not has_answered:
                    has_answered = True
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
