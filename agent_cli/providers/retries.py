"""Retry failed calls: tenacity decides, the stream announces the wait and waits."""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from agent_cli.contracts.errors import ServerDelayTooLong
from agent_cli.contracts.provider import Retrying, StreamEvent
from agent_cli.providers.failures import CallFailed
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.providers.shared_pause import SharedPause

PARTS_OF_A_REPLY = ("text_delta", "thinking_delta", "toolcall_start", "toolcall_delta", "block_end")


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
            f"the API asks to wait {asked_s:g} s, longer than retry.max_server_delay_s "
            f"({policy.max_server_delay_s:g} s) allows; ask again later or raise that setting",
            status=error.status,
            request_id=error.request_id,
            kind=error.kind,
            trouble=error.trouble,
        )
