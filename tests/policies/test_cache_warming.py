"""The prompt cache is kept over pauses only where that saves money, and never beyond its limits."""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.events import AgentEnd, AgentStart
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import (
    ModelRequest,
    Reply,
    ReplyEnd,
    Retrying,
    StreamEvent,
)
from agent_cli.contracts.timeline import Usage
from agent_cli.policies.cache_warming import (
    IDLE_LIMIT_S,
    LEAST_SAVING,
    RUN_LIMIT_S,
    CacheWarming,
    expected_saving,
)
from agent_cli.policies.cache_watch import CACHE_LIFE_S
from agent_cli.providers.anthropic.models import cost_microdollars, model_by_id, model_table
from tests.fakes import says
from tests.tables import each_row

OPUS = model_by_id("claude-opus-5-5")
REQUEST = ModelRequest(model=OPUS, messages=(UserMessage.of("hi"),), session_id="s")
PRICED = [name for name, facts in model_table().models.items() if facts.prices]


class Server:
    """A server whose cache lives five minutes; a clock that tests move."""

    def __init__(self, tokens: int = 400_000) -> None:
        self.now_s = 1_000.0
        self.tokens = tokens
        self.read_s = 0.0
        self.requests: list[ModelRequest] = []
        self.failure: Exception | None = None
        self.retries = False
        self.gate = asyncio.Event()
        self.gate.set()

    def clock(self) -> float:
        return self.now_s

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        await self.gate.wait()
        if self.failure:
            raise self.failure
        if self.retries:
            yield Retrying(1, 5, 10.0, "overloaded")
        yield ReplyEnd(self.reply())

    def reply(self) -> Reply:
        """Return a reply that reads the cache, or writes it anew once it is gone."""
        is_warm = self.now_s - self.read_s < CACHE_LIFE_S
        self.read_s = self.now_s
        usage = Usage(0, 1, self.tokens, 0) if is_warm else Usage(0, 1, 0, self.tokens)
        priced = replace(usage, cost_microdollars=cost_microdollars(OPUS.id, usage))
        return replace(says("ok", usage=priced), model=OPUS.id)

    def turn(self, warming: CacheWarming) -> None:
        """Let a request be answered now."""
        warming.begin()
        warming.note(REQUEST, self.reply(), self.now_s)


def warming(server: Server, when: Any = "idle", **options: Any) -> CacheWarming:
    return CacheWarming(
        when,
        server.stream,
        price=cost_microdollars,
        session_id=lambda: "s",
        clock=server.clock,
        **options,
    )


@given(tokens=st.integers(0, 1_000_000), runs=st.booleans(), name=st.sampled_from(PRICED))
def test_expected_saving_is_the_chance_of_the_loss_less_the_price_of_a_renewal(
    tokens: int, runs: bool, name: str
) -> None:
    """p * (write - read) - read, by the prices of models.toml."""
    facts = model_table().models[name]
    tier = next(t for t in facts.prices if tokens <= (t.up_to_prompt_tokens or tokens))
    read = facts.cache.read if facts.cache.read is not None else model_table().cache.read
    assert read is not None
    chance = Decimal("1") if runs else Decimal("0.15")
    wanted = tokens * tier.input * (chance * (Decimal("1.25") - read) - read)

    found = expected_saving(lambda usage: cost_microdollars(name, usage), tokens, runs=runs)

    assert found is not None
    assert abs(found - wanted) <= tier.output + 3  # one token of output, and rounding


@given(tokens=st.integers(0, 900_000), more=st.integers(0, 100_000), runs=st.booleans())
def test_more_tokens_and_a_certain_use_save_no_less(tokens: int, more: int, runs: bool) -> None:
    def saving(tokens: int, *, runs: bool) -> int:
        found = expected_saving(lambda usage: cost_microdollars(OPUS.id, usage), tokens, runs=runs)
        assert found is not None
        return found

    assert saving(tokens + more, runs=runs) >= saving(tokens, runs=runs) - 1
    assert saving(tokens, runs=True) >= saving(tokens, runs=False)


def test_without_a_price_there_is_no_saving() -> None:
    assert expected_saving(lambda _usage: None, 900_000, runs=True) is None


async def test_last_request_is_repeated_for_one_token() -> None:
    """All else is as it was: another byte would miss the cache. It continues no conversation."""
    server, renewed = Server(), list[float]()
    keeps = warming(server, on_renewed=renewed.append)
    server.turn(keeps)
    server.now_s += 270

    assert await keeps.renew()

    expected = replace(REQUEST, max_tokens=1, keeps_warm=True)
    assert (server.requests, renewed) == ([expected], [server.now_s])
    server.now_s += 200  # past the life of what the turn itself had left there
    server.turn(keeps)
    [line] = keeps.lines()
    assert line == "kept warm once in this run for $0.08, which saved $1.92 so far"


async def test_renewals_end_at_the_limit_of_an_idle_session() -> None:
    server = Server()
    keeps = warming(server)
    server.turn(keeps)
    begun_s = server.now_s
    while True:
        server.now_s += 270
        if not await keeps.renew():
            break

    assert 0 < server.now_s - begun_s - IDLE_LIMIT_S <= 270
    assert len(server.requests) == IDLE_LIMIT_S // 270


@each_row(("runs", "limit_s"), [(False, 1_800), (True, 3_600)])
@each_row(("over_s", "is_renewed"), [(0.0, True), (0.5, False)])
async def test_half_an_hour_without_a_user_and_an_hour_of_a_tool_are_the_limits(
    limit_s: float, over_s: float, *, runs: bool, is_renewed: bool
) -> None:
    """Later they hardly come back, and a tool that runs for longer has hung."""
    server = Server()
    keeps = warming(server, "always")
    if runs:
        keeps.listen(AgentStart())
    server.turn(keeps)
    begun_s = server.now_s
    while server.now_s - begun_s < limit_s - 200:
        server.now_s += 200
        assert await keeps.renew()
    server.now_s = begun_s + limit_s + over_s

    assert await keeps.renew() is is_renewed


@each_row("tokens_less", [0, 1])
async def test_a_renewal_is_worth_a_request_from_five_cents_on(tokens_less: int) -> None:
    def saving(tokens: int) -> int:
        found = expected_saving(lambda usage: cost_microdollars(OPUS.id, usage), tokens, runs=False)
        assert found is not None
        return found

    least = bisect_left(range(400_000), 50_000, lo=1_000, key=saving)
    server = Server(tokens=least - tokens_less)
    keeps = warming(server)
    server.turn(keeps)
    server.now_s += 270

    assert await keeps.renew() is (tokens_less == 0)


@each_row("reason", ["session", "small", "late", "budget", "tool"])
async def test_nothing_is_sent_where_it_saves_nothing(reason: str) -> None:
    """Of another session, for little money, after the machine slept, and while a tool runs."""
    server = Server(tokens=10_000 if reason == "small" else 400_000)
    keeps = warming(server, can_repeat=lambda _request: reason != "budget")
    if reason == "tool":
        keeps.listen(AgentStart())
    server.turn(keeps)
    if reason == "session":
        keeps.note(replace(REQUEST, session_id="other"), server.reply(), server.now_s)
    server.now_s += CACHE_LIFE_S + 1 if reason == "late" else 270

    assert not await keeps.renew()
    assert server.requests == []


@each_row(("left", "renews"), [(4_000_000, True), (3_999_999, False)])
async def test_a_limit_has_to_pay_for_the_next_prompt_beside_it(left: int, renews: bool) -> None:
    """It would wait until the renewal, which may cost as much, has its answer."""
    server = Server()
    keeps = warming(server, left=lambda: left)
    server.turn(keeps)
    server.now_s += 270

    assert await keeps.renew() is renews


async def test_a_renewal_that_gets_no_answer_ends_before_the_cache_does() -> None:
    """Sent later, after a wait for money or for the server, it would be paid in full."""
    server = Server()
    server.gate.clear()
    keeps = warming(server)
    server.turn(keeps)
    server.now_s += CACHE_LIFE_S - 0.01

    assert not await keeps.renew()
    server.gate.set()
    server.turn(keeps)
    server.now_s += 270
    assert not await keeps.renew()


async def test_always_renews_while_a_tool_runs_too() -> None:
    """There it is certain that the cache is read again, so smaller ones are worth it."""
    server = Server(tokens=20_000)
    keeps = warming(server, "always")
    keeps.listen(AgentStart())
    server.turn(keeps)
    server.now_s += 270

    assert await keeps.renew()
    keeps.listen(AgentEnd((), "end_turn", None, None))
    server.now_s += 270
    assert not await keeps.renew()


@each_row("trouble", ["limit", "retry", "gone"])
async def test_it_is_off_for_good_after_any_trouble(trouble: str) -> None:
    """The user's limit, a failure, and a cache that was gone: each would be paid for again."""
    server = Server()
    keeps = warming(server)
    server.turn(keeps)
    server.now_s += 270
    server.retries = trouble == "retry"
    server.failure = LimitReached("spent", limit="max_cost") if trouble == "limit" else None
    server.read_s = 0.0 if trouble == "gone" else server.read_s

    assert not await keeps.renew()
    server.retries, server.failure = False, None
    server.turn(keeps)
    server.now_s += 270
    assert not await keeps.renew()
    assert len(server.requests) == 1


async def test_it_is_sent_in_time_by_itself_and_ends_with_the_session() -> None:
    """The clock jumps to the next renewal with each, so that the test need not wait."""
    server, last = Server(), asyncio.Event()

    async def stream(request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in server.stream(request):
            server.now_s += 270
            if server.now_s - 1_000 > IDLE_LIMIT_S:
                last.set()
            yield event

    keeps = CacheWarming(
        "idle", stream, price=cost_microdollars, session_id=lambda: "s", clock=server.clock
    )
    async with keeps:
        keeps.note(REQUEST, server.reply(), server.now_s)
        server.now_s += 270
        async with asyncio.timeout(30):
            await last.wait()
    assert keeps.renewals == IDLE_LIMIT_S // 270
    assert asyncio.all_tasks() == {asyncio.current_task()}


GAPS = st.lists(st.integers(1, 4_000), min_size=1, max_size=6)


@given(gaps=GAPS, tokens=st.integers(1_000, 900_000), running=st.booleans())
def test_no_pause_makes_it_cost_more_than_its_bounds(
    gaps: list[int], tokens: int, running: bool
) -> None:
    """Bounded in time and money, never into a cold cache, whatever the pauses are."""

    async def play() -> None:
        server = Server(tokens)
        keeps = warming(server, "always")
        for gap in gaps:
            keeps.listen(AgentStart() if running else AgentEnd((), "end_turn", None, None))
            server.turn(keeps)
            sent = len(server.requests)
            for _ in range(gap // 270):
                server.now_s += 270
                if not await keeps.renew():
                    break
                assert server.now_s - keeps._asked_s <= RUN_LIMIT_S
            limit_s = RUN_LIMIT_S if running else IDLE_LIMIT_S
            assert len(server.requests) - sent <= limit_s / 270
            server.now_s += gap % 270
        assert keeps.renewals == len(server.requests)  # none met a cold cache
        read = cost_microdollars(OPUS.id, Usage(cache_read_tokens=tokens, output_tokens=1))
        assert read is not None
        assert keeps.spent <= keeps.renewals * read + keeps.renewals
        saving = expected_saving(
            lambda usage: cost_microdollars(OPUS.id, usage), tokens, runs=running
        )
        assert saving is not None
        assert keeps.renewals == 0 or saving >= LEAST_SAVING

    asyncio.run(play())
