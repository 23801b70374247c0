"""Retries over a real connection with recorded waits: wait table, server headers, limits."""

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, get_args

import pytest

from agent_cli.contracts.errors import AgentCliError, ServerDelayTooLong
from agent_cli.contracts.options import FailureKind
from agent_cli.contracts.provider import Retrying
from agent_cli.providers.failures import SPEND_LIMITS, server_delay_s
from agent_cli.providers.retries import RetryPolicy
from tests.messages_api import Answer, FakeMessagesApi, broken, error, raw, reply
from tests.providers.asking import asker, request
from tests.tables import each_row

RATE_LIMIT = error(429, "rate_limit_error", "Slow down")


async def test_rate_limit_is_retried_with_doubling_waits() -> None:
    """S1-19: 10, 20, 40, 80, 160, together 310 s; the sixth failure is the last."""
    async with FakeMessagesApi(*[RATE_LIMIT] * 7) as api, asker(api) as it:
        asked = await it.ask()

    assert it.waits_s == [10, 20, 40, 80, 160]
    assert sum(it.waits_s) == 310
    assert len(api.requests) == 6
    assert asked.error is not None
    assert asked.error.status == 429


async def test_each_retry_is_announced_before_its_wait() -> None:
    """S1-21: attempt and wait, once per retry."""
    waits_at_announcement: list[int] = []
    async with FakeMessagesApi(RATE_LIMIT, RATE_LIMIT, reply("hi")) as api, asker(api) as it:
        announced: list[Retrying] = []
        async for event in it.provider.stream(request()):
            if isinstance(event, Retrying):
                announced.append(event)
                waits_at_announcement.append(len(it.waits_s))

    reason = "rate limit reached (Slow down)"
    assert announced == [Retrying(1, 5, 10, reason), Retrying(2, 5, 20, reason)]
    assert waits_at_announcement == [0, 1]


@each_row("status", [408, 409, 500, 502, 503, 504, 529])
async def test_waits_for_other_transient_failures_start_at_one_second(status: int) -> None:
    """S1-20, C15: try every transient status."""
    busy = error(status, "overloaded_error", "busy")
    async with FakeMessagesApi(busy, busy, reply("hi")) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.text == "hi"
    assert it.waits_s == [1, 2]


async def test_rate_limit_during_a_reply_restarts_the_reply() -> None:
    """S1-22: the waits are those of status 429, and the text so far is void."""
    half = broken(reply("half of it"), "rate_limit")
    async with FakeMessagesApi(half, reply("whole")) as api, asker(api) as it:
        asked = await it.ask()

    assert [(retry.wait_s, retry.restarted) for retry in asked.retries] == [(10, True)]
    assert asked.text == "whole"


@each_row("kind", ["overloaded_error", "api_error", "timeout_error", "rate_limit_error"])
async def test_transient_error_event_in_a_stream_restarts_the_reply(kind: str) -> None:
    """S1-22, C15: the status was 200, so only the kind of the error shows that it is transient."""
    failed = {"type": "error", "error": {"type": kind, "message": "not now"}}
    lines = b'event: message_start\ndata: {"type": "ping"}\n\n'
    lines += f"event: error\ndata: {json.dumps(failed)}\n\n".encode()
    async with FakeMessagesApi(raw(200, lines), reply("whole")) as api, asker(api) as it:
        asked = await it.ask()

    assert (asked.text, len(asked.retries)) == ("whole", 1)


@each_row(
    ("headers", "wait_s"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, 10),
        ({"retry-after": "-1"}, 10),
        ({"retry-after": "Fri, 27 Nov 99999999999999999999 23:40:00 GMT"}, 10),
        ({"retry-after": "Fri, 27 Nov 2026 23:40:00 +99999999999999"}, 10),
    ],
)
async def test_retry_after_header_overrides_the_wait_table(
    headers: dict[str, str], wait_s: float
) -> None:
    """S0-29, C15: milliseconds have precedence over seconds; invalid values are ignored."""
    slow = error(429, "rate_limit_error", "Slow down", headers=headers)
    async with FakeMessagesApi(slow, reply("hi")) as api, asker(api) as it:
        await it.ask()

    assert it.waits_s == [wait_s]


@pytest.mark.parametrize("our_error_s", [0, -7200, 7200])
def test_retry_after_date_is_held_against_the_date_of_the_server(our_error_s: int) -> None:
    """A clock that is an hour slow would wait an hour, or refuse to; a fast one would not wait."""
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=42), usegmt=True)
    headers = {"retry-after": later, "date": format_datetime(now, usegmt=True)}

    assert server_delay_s(headers, now_s=now.timestamp() + our_error_s) == 42


def test_retry_after_header_may_be_a_date() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=42), usegmt=True)

    assert server_delay_s({"retry-after": later}, now_s=now.timestamp()) == 42
    assert server_delay_s({"retry-after": later}, now_s=now.timestamp() + 100) == 0
    assert server_delay_s({"retry-after": "nan"}, now_s=0) is None


def test_retry_after_date_without_a_zone_is_in_gmt(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9110 section 5.6.7: the obsolete form of C's asctime() counts, and every date is GMT."""
    headers = {"retry-after": "Sat Nov 21 12:00:42 2026", "date": "Sat, 21 Nov 2026 12:00:00 GMT"}
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        wait_s = server_delay_s(headers, now_s=0)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert wait_s == 42


@pytest.mark.parametrize(("asked_s", "waits_s"), [("60", [60]), ("61", [])])
async def test_requested_wait_above_the_limit_is_an_error(
    asked_s: str, waits_s: list[float]
) -> None:
    """S0-29: a typed error that names the delay."""
    slow = error(429, "rate_limit_error", "Slow down", headers={"retry-after": asked_s})
    async with FakeMessagesApi(slow, reply("hi")) as api, asker(api) as it:
        asked = await it.ask()

    assert it.waits_s == waits_s
    if not waits_s:
        assert isinstance(asked.error, ServerDelayTooLong)
        assert "asks to wait 1 min 1 s" in str(asked.error)
        assert asked.error.request_id == "req_scripted_error"


@pytest.mark.parametrize(
    ("allowed_ms", "asked_s", "waits_s"), [(2_000, "3", []), (90_000, "61", [61])]
)
async def test_request_may_set_its_own_maximum_retry_delay(
    allowed_ms: int, asked_s: str, waits_s: list[float]
) -> None:
    """S0-29, S0-54: an agent's max_retry_delay_ms counts, shorter or longer than the policy's."""
    slow = error(429, "rate_limit_error", "Slow down", headers={"retry-after": asked_s})
    async with FakeMessagesApi(slow, reply("hi")) as api, asker(api) as it:
        asked = await it.ask(request(max_retry_delay_ms=allowed_ms))

    assert it.waits_s == waits_s
    assert isinstance(asked.error, ServerDelayTooLong) == (not waits_s)


@pytest.mark.parametrize("code", sorted(SPEND_LIMITS))
async def test_spend_limit_is_never_retried(code: str) -> None:
    """A spend limit does not end by itself, whatever the headers say."""
    spent = error(429, "rate_limit_error", "x", code=code, headers={"x-should-retry": "true"})
    async with FakeMessagesApi(spent) as api, asker(api) as it:
        await it.ask()

    assert (len(api.requests), it.waits_s) == (1, [])


@pytest.mark.parametrize(("status", "said", "requests"), [(400, "true", 2), (529, "false", 1)])
async def test_should_retry_header_decides_whether_to_retry(
    status: int, said: str, requests: int
) -> None:
    answer = error(status, "api_error", "x", headers={"x-should-retry": said})
    async with FakeMessagesApi(answer, reply("hi")) as api, asker(api) as it:
        await it.ask()

    assert len(api.requests) == requests


async def test_full_jitter_draws_each_wait_between_zero_and_the_table() -> None:
    """S1-23, C15: without jitter the waits are exactly those of the table."""
    policy = RetryPolicy(jitter="full")
    async with FakeMessagesApi(*[RATE_LIMIT] * 6) as api, asker(api, retry=policy) as it:
        await it.ask()

    table = [10, 20, 40, 80, 160]
    assert len(it.waits_s) == 5
    assert all(0 <= wait <= most for wait, most in zip(it.waits_s, table, strict=True))
    assert it.waits_s != table
    assert policy.wait_s(2, rate_limited=True, random_share=0.5) == 10


async def test_retry_count_first_wait_and_factor_are_configurable() -> None:
    """C15: the options are `max`, `base_s` and `factor`."""
    policy = RetryPolicy(max=2, base_s=3, factor=3)
    async with FakeMessagesApi(*[RATE_LIMIT] * 3) as api, asker(api, retry=policy) as it:
        asked = await it.ask()

    assert it.waits_s == [3, 9]
    assert [retry.max_attempts for retry in asked.retries] == [2, 2]


@each_row(
    ("name", "value"),
    [
        *(("max", "5"), ("max", -1), ("base_s", -1), ("factor", None), ("jitter", "some")),
        *(("on", "429"), ("on", ["500"]), ("max_server_delay_s", float("nan"))),
    ],
)
def test_value_of_another_type_or_out_of_its_range_is_refused(
    name: str,
    value: Any,  # an author without a type checker
) -> None:
    """It was found at the first failure, as a traceback; a negative wait was none."""
    with pytest.raises(AgentCliError, match=f"{name} of a RetryPolicy must be"):
        RetryPolicy(**{name: value})


async def test_retry_max_of_zero_disables_retries() -> None:
    async with FakeMessagesApi(RATE_LIMIT) as api, asker(api, retry=RetryPolicy(max=0)) as it:
        asked = await it.ask()

    assert it.waits_s == []
    assert asked.error is not None
    assert asked.error.status == 429


async def test_retries_are_counted_across_different_failures() -> None:
    """One budget for the call; each wait uses the base of its own failure."""
    busy = error(529, "overloaded_error", "busy")
    answers = (busy, RATE_LIMIT, broken(reply("x"), "drop"), reply("hi"))
    async with FakeMessagesApi(*answers) as api, asker(api) as it:
        await it.ask()

    assert it.waits_s == [1, 20, 4]


@each_row(
    ("answer", "kind"),
    [
        (RATE_LIMIT, "429"),
        (broken(reply("half"), "rate_limit"), "429"),
        (error(529, "overloaded_error", "busy"), "529"),
        (broken(reply("half"), "error"), "529"),
        (error(500, "api_error", "oh"), "5xx"),
        (broken(reply("half"), "drop"), "connection"),
        (error(408, "timeout_error", "late"), "connection"),
    ],
)
async def test_only_configured_kinds_of_failures_are_retried(
    answer: Answer, kind: FailureKind
) -> None:
    """C15: each of the four kinds alone, and all the others without it."""
    others: tuple[FailureKind, ...] = tuple(
        other for other in get_args(FailureKind) if other != kind
    )
    tried: list[tuple[tuple[FailureKind, ...], int]] = [((kind,), 1), (others, 0)]
    for on, retries in tried:
        policy = RetryPolicy(on=on)
        async with FakeMessagesApi(answer, reply("whole")) as api, asker(api, retry=policy) as it:
            asked = await it.ask()

        assert len(asked.retries) == retries
        assert (asked.error is None) == (retries == 1)


@pytest.mark.parametrize("asked_s", ["5", "900"])
async def test_retry_after_is_ignored_when_respect_retry_after_is_off(asked_s: str) -> None:
    """C15: neither a shorter wait nor the limit of longer waits applies."""
    busy = error(429, "rate_limit_error", "slow", headers={"retry-after": asked_s})
    policy = RetryPolicy(respect_retry_after=False)
    async with FakeMessagesApi(busy, reply("hi")) as api, asker(api, retry=policy) as it:
        asked = await it.ask()

    assert (asked.text, it.waits_s) == ("hi", [10])
