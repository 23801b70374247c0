"""The cost limit: the reservation before each call, its settlement, and whose limit applies."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.contracts.errors import LimitReached, ModelError
from agent_cli.contracts.events import Event, UsageChanged, UsageHeld
from agent_cli.contracts.media_files import PAGE_TOKENS_MAX, document_block, pages_of
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import (
    CountFn,
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
)
from agent_cli.contracts.side_events import ModelCallDelayed
from agent_cli.contracts.timeline import Block, Json, ModelUsage, Usage, text_block
from agent_cli.contracts.tooling import WEB_SEARCH_TOOL, Approval, Hosted, ToolSpec
from agent_cli.contracts.wording import in_microdollars
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.accounts import Account
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.reservations import (
    IMAGE_TOKENS_MAX,
    OVERHEAD_TOKENS,
    Payer,
    PromptBound,
    Reservation,
    with_hosted,
)
from agent_cli.policies.side_questions import SideQuestions
from tests.fakes import MODEL, Gate, ScriptedModel, pieces, problems, returns, tool, tool_use
from tests.policies.histories import llm
from tests.tables import each_row
from tests.waiting import StoppedClock

REQUEST = ModelRequest(model=MODEL, messages=(UserMessage.of("hello"),), max_tokens=10_000)
# One micro-dollar for a token read or written, for simple sums.
PROMPT_COST = len(b'{"type": "text", "text": "hello"}') + OVERHEAD_TOKENS
WORST_CASE = PROMPT_COST + 10_000


def one_each(model_id: str, usage: Usage) -> int | None:
    """Return a micro-dollar for each token; a cost in the script takes precedence."""
    if model_id != MODEL.id:
        return None
    return usage.cost_microdollars or usage.prompt_tokens + usage.output_tokens


def priced(microdollars: int | None, *, call: str | None = None) -> Reply:
    """Return a reply with this cost, which calls a tool if *call* is its id."""
    content = (text_block("so"), *([tool_use("look", id=call)] if call else []))
    usage = Usage(cost_microdollars=microdollars)  # no bound for the next prompt
    return Reply("msg", MODEL.id, content, "tool_use" if call else "end_turn", usage)


class Book:
    """An account with a separate conversation, and a model that plays a script."""

    def __init__(
        self,
        *script: object,
        limit: int = 100_000,
        count: CountFn | None = None,
    ) -> None:
        self.conversation = Conversation()
        self.conversation.begin(UserMessage.of("go"))
        self.held: list[int] = []
        self.conversation.publish = self._note
        self.model = ScriptedModel(*script)  # type: ignore[arg-type]  # steps
        self.ledger = Ledger(
            self.model,
            lambda: self.conversation,
            price=one_each,
            account=Account(limit),
            count=count,
        )

    def _note(self, _event: Event) -> None:
        self.held.append(self.conversation.prompts[-1].usage.held_microdollars)

    async def ask(self, request: ModelRequest = REQUEST) -> Reply | None:
        return await ask(self.ledger, request)

    def figures(self) -> tuple[int, int, int]:
        account = self.ledger.account
        return account.spent, account.held, account.lost


async def ask(ledger: Ledger, request: ModelRequest = REQUEST) -> Reply | None:
    """Call the model as a run does: the usage is recorded with the reply."""
    reply = None
    async for event in ledger.stream(request):
        if isinstance(event, ReplyEnd):
            reply = event.reply
    if reply:
        ledger.listen(UsageChanged(reply.usage, reply.usage))
    return reply


async def test_worst_case_cost_is_reserved_until_the_usage_is_known() -> None:
    """The record counts the reservation too, and never less than was spent."""
    gate = Gate()
    book = Book([gate, *pieces(priced(300))])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(book.ask())
        await gate.reached.wait()
        assert book.figures() == (0, WORST_CASE, 0)
        assert book.conversation.usage.held_microdollars == WORST_CASE
        gate.open()

    assert book.figures() == (300, 0, 0)
    assert book.held == [WORST_CASE, 300, 0]


@each_row("declined", ["", MODEL.id])
async def test_count_of_another_model_is_no_bound_for_the_next_prompt(declined: str) -> None:
    """One model answered for another, or all declined: another counts other tokens."""
    beside = (ModelUsage(MODEL.id, Usage(20, 1, cost_microdollars=1)),)
    usage = Usage(10, 1, cost_microdollars=1)
    other = Reply("m", "other", (), "refusal", usage, declined=declined, beside=beside)
    book = Book(other, priced(1))

    await book.ask()
    await book.ask()

    assert book.held == [WORST_CASE, 2, WORST_CASE + 2, 3, 2]


async def _others_run() -> None:
    """Let the other tasks go on until each waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_concurrent_calls_cannot_exceed_the_limit_together() -> None:
    """Of two calls that may exceed the limit together, the second waits for the remainder."""
    gate = Gate()
    book = Book([gate, *pieces(priced(9_000))], priced(5), limit=WORST_CASE + 5_000)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(book.ask())
        await gate.reached.wait()
        second = tasks.create_task(book.ask())
        await _others_run()
        assert len(book.model.requests) == 1
        gate.open()
        await second

    assert book.figures() == (9_005, 0, 0)
    assert [each.max_tokens for each in book.model.requests] == [10_000, 6_000]


async def test_call_that_waits_for_others_says_so_once_and_is_held_when_it_goes_on() -> None:
    """Its row said "thinking" all the while; a call that need not wait says nothing."""
    gate = Gate()
    book = Book([gate, *pieces(priced(9_000))], priced(5), limit=WORST_CASE + 5_000)
    told: list[Event] = []
    book.conversation.publish = told.append

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(book.ask())
        await gate.reached.wait()
        tasks.create_task(book.ask())
        for _ in range(20):
            await asyncio.sleep(0)
            book.ledger.account.add()  # woken, and still too little is left
        waiting = [*told]
        gate.open()

    assert waiting[1:] == [ModelCallDelayed(1)]
    assert any(isinstance(event, UsageHeld) for event in told[len(waiting) :])


async def test_call_that_still_waits_when_another_is_held_says_so_again() -> None:
    """The end of a question aside, or of a summary, ended what its row said."""
    gate = Gate()
    book = Book([gate, *pieces(priced(9_000))], priced(5), limit=WORST_CASE + 5_000)
    told: list[Event] = []

    def hear(event: Event) -> None:
        told.append(event)
        book.ledger.listen(event)

    book.conversation.publish = hear

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(book.ask())
        await gate.reached.wait()
        tasks.create_task(book.ask())
        await _others_run()
        book.conversation.add_usage(Usage(cost_microdollars=1))
        book.ledger.account.add()
        await _others_run()
        waiting = [type(event) for event in told]
        gate.open()

    assert waiting == [UsageHeld, ModelCallDelayed, UsageHeld, ModelCallDelayed]


async def test_call_is_refused_if_the_remainder_pays_for_no_useful_reply() -> None:
    """S0-26: the message names its possible cost, before anything is sent."""
    book = Book(priced(9_500), limit=WORST_CASE)
    await book.ask()

    with pytest.raises(
        LimitReached, match=r"the next call may cost \$0.0023, and \$0.0015 of"
    ) as no:
        await book.ask()

    assert no.value.stop_reason == "max_cost"
    assert len(book.model.requests) == 1
    assert book.figures() == (9_500, 0, 0)


async def test_refusal_of_a_call_that_exceeds_the_whole_limit_says_to_raise_it() -> None:
    """No message can go on: each has the same limit, and there is nothing of it to wait for."""
    book = Book(priced(1), limit=1_000)
    agents_share = Account(1_000, parent=Account(WORST_CASE))

    with pytest.raises(LimitReached, match=r"is left \(max_cost_usd\); no such call fits") as no:
        await book.ask()

    assert str(no.value).endswith("into the limit, so raise that")
    of_agent = str(agents_share.too_little(2_000))
    assert of_agent.endswith("into this agent's share of it, so raise that")


@each_row(
    ("counted", "sent_max"),
    [(2_600, 10_000), (2_800, 9_860), (2_400, None), (1, None), (50_000, None), (None, None)],
)
async def test_prompt_is_counted_where_its_bytes_leave_too_little(
    counted: int | None, sent_max: int | None
) -> None:
    """The count gets a margin; one larger than the bytes, or not credible, changes nothing."""
    asked: list[ModelRequest] = []

    async def count(request: ModelRequest) -> int | None:
        asked.append(request)
        return counted

    dense = replace(REQUEST, messages=(UserMessage.of("x" * 20_000),))
    book = Book(priced(7), limit=12_900, count=count)

    if sent_max is None:
        with pytest.raises(LimitReached):
            await book.ask(dense)
    else:
        await book.ask(dense)

    assert asked == [dense]
    assert [each.max_tokens for each in book.model.requests] == ([sent_max] if sent_max else [])


async def test_prompts_are_not_counted_any_more_after_a_count_that_was_too_low() -> None:
    """A gateway may count with another tokenizer: no agent of the tree believes it again."""
    asked: list[ModelRequest] = []

    async def count(request: ModelRequest) -> int | None:
        asked.append(request)
        return 2_600

    first, second = (replace(REQUEST, messages=(UserMessage.of(x * 20_000),)) for x in "ab")
    billed = Reply(
        "msg", MODEL.id, (text_block("Hi."),), "end_turn", Usage(5_000, 1, cost_microdollars=5_001)
    )
    book = Book(billed, priced(7), limit=26_000, count=count)

    await book.ask(first)
    with pytest.raises(LimitReached):
        await ask(book.ledger.child(lambda: book.conversation), second)

    assert asked == [first]


async def test_prompt_is_not_counted_while_its_bytes_are_few_enough() -> None:
    """A count takes time."""

    async def count(_request: ModelRequest) -> int | None:
        raise AssertionError

    await Book(priced(7), count=count).ask()


async def test_request_refused_by_the_server_costs_nothing() -> None:
    book = Book(ModelError("overloaded", status=529))

    with pytest.raises(ModelError):
        await book.ask()

    assert book.figures() == (0, 0, 0)
    assert book.held == [WORST_CASE, 0]


async def test_reply_that_breaks_off_counts_as_its_worst_case_cost() -> None:
    """The message at the limit says so."""
    broken = ModelError("the connection broke", may_have_cost=True)
    book = Book(broken, limit=WORST_CASE + 1_000)

    with pytest.raises(ModelError):
        await book.ask()
    with pytest.raises(LimitReached, match=r"\$0.011\d* of it for replies that broke off"):
        await book.ask()

    assert book.figures() == (0, 0, WORST_CASE)
    assert book.conversation.usage.held_microdollars == WORST_CASE


async def test_cancelled_call_counts_as_its_worst_case_cost() -> None:
    gate = Gate()
    book = Book([gate])

    asking = asyncio.create_task(book.ask())
    await gate.reached.wait()
    asking.cancel()
    await asyncio.wait([asking])

    assert book.figures() == (0, 0, WORST_CASE)


@each_row(("may_have_cost", "lost"), [(False, 0), (True, WORST_CASE)])
async def test_retried_call_pays_only_for_attempts_that_may_have_cost(
    may_have_cost: bool, lost: int
) -> None:
    """A refused attempt passes its reservation on to the next one."""
    again = Retrying(1, 5, 0.0, "busy", may_have_cost=may_have_cost)
    book = Book([again, *pieces(priced(7))])

    await book.ask()

    assert book.figures() == (7, 0, lost)


@each_row(("may_have_cost", "lost"), [(False, 0), (True, WORST_CASE)])
async def test_call_stopped_in_the_wait_before_a_retry_costs_nothing_more(
    may_have_cost: bool, lost: int
) -> None:
    """Stopped while the network was away, each prompt used up a part of the limit."""
    gate = Gate()
    book = Book([Retrying(1, 5, 60.0, "no network", may_have_cost=may_have_cost), gate])

    asking = asyncio.create_task(book.ask())
    await gate.reached.wait()
    asking.cancel()
    await asyncio.wait([asking])

    assert book.figures() == (0, 0, lost)
    assert book.conversation.usage.held_microdollars == lost


AGAIN = Retrying(1, 5, 0.0, "cut", restarted=True, may_have_cost=True)


TWICE = replace(MODEL, id="twice-as-dear")


@each_row(
    ("model", "account", "usage", "lengths"),
    [
        # 31,000 are left: 20,000 tokens of the prompt and 8,181 of the reply, each a tenth dearer.
        (MODEL, Account(53_000), Usage(20_000, cost_microdollars=22_000), [10_000, 8_181]),
        # A first reply may cost half as much again; this one does not, and 10,000 are left.
        (
            MODEL,
            Account(12_000, surcharge=1.5),
            Usage(2_000, cost_microdollars=2_000),
            [8_000 - PROMPT_COST, 8_000],
        ),
        # Answered at the usual speed, a tenth dearer; the next one may be answered in fast mode.
        (TWICE, Account(77_000), Usage(20_000, cost_microdollars=22_000), [10_000, 4_999]),
    ],
)
async def test_reply_tells_how_much_above_the_price_is_reserved_from_then_on(
    model: Model, account: Account, usage: Usage, lengths: list[int]
) -> None:
    """A workspace may be set to a place where the inference costs a tenth more."""
    said = Reply("msg", MODEL.id, (text_block("so"),), "end_turn", usage)
    conversation, script = Conversation(), ScriptedModel(said, said)
    conversation.begin(UserMessage.of("go"))

    def price(model_id: str, usage: Usage) -> int:
        tokens = usage.prompt_tokens + usage.output_tokens
        return tokens if model_id == MODEL.id else 2 * tokens

    ledger = Ledger(script, lambda: conversation, price=price, account=account)
    for _ in range(2):
        await ask(ledger, replace(REQUEST, model=model))

    assert [request.max_tokens for request in script.requests] == lengths


async def test_retry_that_would_exceed_the_limit_is_refused() -> None:
    """Not even the shortest useful reply is paid for."""
    book = Book([TextDelta(0, "so"), AGAIN, *pieces(priced(7))], limit=WORST_CASE + 2_000)

    with pytest.raises(LimitReached):
        await book.ask()

    assert book.figures() == (0, 0, WORST_CASE)
    assert book.model.closed == 1


async def test_retry_is_shortened_to_what_the_rest_pays_for() -> None:
    """The call is made anew, because a running one cannot get another `max_tokens`."""
    broken = [TextDelta(0, "so"), AGAIN, *pieces(priced(7))]
    book = Book(broken, priced(9), limit=WORST_CASE + PROMPT_COST + 5_000)

    await book.ask()

    assert [each.max_tokens for each in book.model.requests] == [10_000, 5_000]
    assert book.figures() == (9, 0, WORST_CASE)


KNOWN = Usage(input_tokens=30, output_tokens=1)


@each_row("limit", [0, 100_000])
async def test_prompt_of_a_reply_that_broke_off_is_spent_and_the_rest_may_be(limit: int) -> None:
    """The API counts the prompt when a reply starts; it is recorded with and without limit."""
    lost = ModelError("cut", may_have_cost=True)
    book = Book([ReplyStart(MODEL.id, KNOWN), TextDelta(0, "so"), lost], limit=limit)

    with pytest.raises(ModelError):
        await book.ask()

    assert book.figures() == (31, 0, 9_999)
    assert book.conversation.usage.held_microdollars == 10_030, "until the usage is recorded"
    book.ledger.listen(UsageChanged(KNOWN, KNOWN))
    assert book.conversation.usage.held_microdollars == 9_999


async def test_known_prompt_frees_the_rest_of_its_bound_for_other_calls() -> None:
    gate = Gate()
    book = Book([ReplyStart(MODEL.id, KNOWN), gate, *pieces(priced(7))])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(book.ask())
        await gate.reached.wait()
        assert book.figures() == (0, 10_030, 0)
        gate.open()


PACED = replace(REQUEST, model=replace(MODEL, output_tokens_per_s=100), max_tokens=10_000)


@each_row(("after_s", "generated"), [(0, 500), (20, 2_500), (3_600, 10_000)])
async def test_reply_that_broke_off_costs_at_most_what_was_generated_by_then(
    after_s: float, generated: int
) -> None:
    """With the seconds until the server notices; a model of unknown pace may have been done."""
    now_s = 1_000.0
    book = Book()
    payer = Payer(
        book.ledger.account, book.conversation, "", book.ledger._worst, clock_s=lambda: now_s
    )
    call = Reservation(payer, PACED, 90_000)
    call.begin(KNOWN)
    now_s += after_s

    call.lose()

    assert book.figures() == (31, 0, generated - 1)


async def test_retry_after_a_wait_has_generated_nothing_before_it() -> None:
    now_s = 1_000.0
    book = Book()
    payer = Payer(
        book.ledger.account, book.conversation, "", book.ledger._worst, clock_s=lambda: now_s
    )
    call = Reservation(payer, PACED, 90_000)
    now_s += 60
    call.restart(30)
    now_s += 31

    call.begin(KNOWN)
    call.lose()

    assert book.figures() == (31, 0, 599)


async def test_wait_for_running_calls_has_a_bound_that_names_them() -> None:
    """No call ends or begins: something streams without end."""
    book = Book(limit=WORST_CASE)
    Reservation(Payer(book.ledger.account, book.conversation, "", book.ledger._worst), REQUEST, 70)

    with pytest.raises(
        ModelError,
        match=r"waited 0\.01 s for the rest of the cost limit \(max_cost_usd\), held by a call of"
        r" scripted-model \(\$0\.00007, for 0 s\); ask again",
    ):
        await book.ledger.account.changed(limit_s=0.01)


async def test_wait_for_running_calls_lasts_an_hour() -> None:
    """A long reply with its thinking fits into it; a call that hangs holds nobody up for ever."""
    clock, account = StoppedClock(), Account(WORST_CASE)
    waiting = asyncio.ensure_future(account.changed())

    await clock.pass_s(0)
    await clock.pass_s(3_599.5)
    early = waiting.done()
    await clock.pass_s(1.0)
    late = waiting.done()
    account.add(held=1)
    [ended] = await asyncio.gather(waiting, return_exceptions=True)

    assert (early, late, type(ended)) == (False, True, ModelError)


async def test_model_without_a_known_price_is_not_called() -> None:
    """A limit that silently does not hold is worse than none."""
    book = Book(priced(7))
    stranger = replace(REQUEST, model=Model("stranger"))

    with pytest.raises(LimitReached, match="no price is known for stranger"):
        await book.ask(stranger)

    assert book.model.requests == []


async def test_without_a_limit_nothing_is_reserved() -> None:
    book = Book(priced(7), priced(None), limit=0)

    await book.ask()
    await book.ask()

    assert book.figures() == (7, 0, 0)
    assert book.held == []


def test_account_that_was_given_no_limit_has_none() -> None:
    """Its usage is only counted."""
    account = Account()

    account.add(spent=1_000_000, lost=5)
    account.check()

    assert not account.is_limited
    assert (account.spent, account.lost) == (1_000_000, 5)


async def test_child_without_a_share_may_use_all_that_its_parent_has() -> None:
    book = Book(priced(2_500_000), priced(7), limit=5_000_000)
    child = book.ledger.child(lambda: book.conversation)

    await ask(child)
    await ask(child)

    assert child.account.spent == 2_500_007


@each_row(("rest", "sent"), [(1_280, [1_280]), (1_279, [])])
async def test_reply_is_shortened_only_as_far_as_it_is_useful(rest: int, sent: list[int]) -> None:
    """A reply that is cut off in its first call is paid for and of no use."""
    book = Book(priced(7), limit=PROMPT_COST + rest)

    if sent:
        await book.ask()
    else:
        with pytest.raises(LimitReached):
            await book.ask()

    assert [each.max_tokens for each in book.model.requests] == sent


@each_row("is_again", [False, True])
@each_row(("rest", "counts"), [(8_192, 0), (8_191, 1)])
async def test_call_waits_for_others_only_where_its_own_reply_would_be_short(
    rest: int, counts: int, *, is_again: bool
) -> None:
    """8,192 tokens are enough for nearly every reply, so that the prompt is not counted for more.

    An attempt after one that broke off is no different.
    """
    asked: list[ModelRequest] = []

    async def count(request: ModelRequest) -> None:
        asked.append(request)

    lost = WORST_CASE if is_again else 0
    script = [[TextDelta(0, "so"), AGAIN, *pieces(priced(7))]] if is_again else []
    book = Book(*script, priced(7), limit=lost + PROMPT_COST + rest, count=count)

    await book.ask()

    assert len(asked) == counts
    assert [each.max_tokens for each in book.model.requests] == [10_000] * is_again + [rest]


def test_bound_of_a_prompt_leaves_room_for_what_the_server_adds() -> None:
    """Instructions for calling tools, and marks around the messages; an image has its own."""
    written = len(b'{"type": "text", "text": "hello"}')
    image: Block = {"type": "image", "source": "x"}
    seen = replace(REQUEST, messages=(UserMessage((image,)),))

    assert PromptBound().usage(REQUEST) == Usage(cache_write_5m_tokens=written + 1_000)
    assert PromptBound().usage(seen) == Usage(cache_write_5m_tokens=5_000 + 1_000)


def test_bound_of_a_prompt_counts_the_schema_of_its_answer() -> None:
    """The server writes it into the prompt, also where another one had been counted."""
    schema: dict[str, Json] = {"type": "object", "description": "x" * 9_000}
    asked, bound = replace(REQUEST, output_schema=schema), PromptBound()
    bound.note(REQUEST, 7)

    without, found = PromptBound().usage(REQUEST), bound.usage(asked)
    assert found.prompt_tokens == without.prompt_tokens + len(json.dumps(schema))


@each_row(
    ("hosted", "uses", "searches"),
    [
        (Hosted(is_open=True, falls_back=True), 5, 5),
        (Hosted(is_open=True, falls_back=True, uses_max=2), 2, 2),
        (Hosted(falls_back=True), 0, 0),
    ],
)
def test_searches_of_the_server_are_part_of_what_a_call_can_cost(
    hosted: Hosted, uses: int, searches: int
) -> None:
    """Each search has its price, its results are read, and the prompt is read again.

    One that the conversation has not opened yet cannot be made.
    """
    request = replace(REQUEST, tools=(ToolSpec(WEB_SEARCH_TOOL, "Search.", {}, hosted=hosted),))
    prompt = Usage(input_tokens=100, cache_read_tokens=10)

    assert with_hosted(prompt, request) == Usage(
        input_tokens=100 + 15_000 * uses,
        cache_read_tokens=10 + 110 * uses,
        web_searches=searches,
    )


async def test_childs_share_is_part_of_its_parents_limit() -> None:
    """A child's cost counts at once for its ancestors."""
    book = Book(priced(4_500), priced(4_500), priced(4_000), limit=100_000)
    own = Conversation()
    own.begin(UserMessage.of("task"))
    child = book.ledger.child(lambda: own, limit_usd=0.011)

    await ask(child)
    await ask(child)
    with pytest.raises(LimitReached, match=r"of \$0\.011 is left .* this agent's share"):
        await ask(child)
    await book.ask()

    assert (child.account.spent, book.ledger.account.spent) == (9_000, 13_000)
    assert book.model.requests[1].max_tokens == 11_000 - 4_500 - PROMPT_COST
    assert own.usage.held_microdollars == 0


async def test_child_agent_cannot_spend_more_than_its_parent_has_left() -> None:
    """However large its own share: the message names the account that limits it."""
    book = Book(priced(9_500), limit=WORST_CASE)
    child = book.ledger.child(Conversation, limit_usd=5)
    await ask(child)

    with pytest.raises(LimitReached, match=r"of \$0.011 is left|send a message to go on"):
        await ask(child)

    assert (child.account.spent, book.ledger.account.spent) == (9_500, 9_500)


async def test_resumed_prompt_counts_its_cost_so_far() -> None:
    """After a decision, or in another process: the record has the spent and reserved cost."""
    book = Book()
    book.conversation.add_usage(Usage(cost_microdollars=4_000))
    book.conversation.hold(1_000, book.conversation.prompts[-1].id)

    book.ledger.check()
    assert book.figures() == (4_000, 0, 1_000)

    book.conversation.begin(UserMessage.of("the next one"))
    book.ledger.check()
    assert book.figures() == (0, 0, 0)


async def test_prompt_of_unknown_cost_is_not_resumed() -> None:
    book = Book()
    book.conversation.add_usage(Usage(cost_microdollars=None))

    with pytest.raises(LimitReached, match="no price is known for what this prompt has used"):
        book.ledger.check()


def agent_with_limit(*script: Reply, approval: bool = False) -> tuple[Agent, ScriptedModel]:
    """Return an agent with a limit of a dollar, and its model."""
    look = replace(tool("look", returns("a tree")), require_approval=Approval(required=approval))
    model = ScriptedModel(*script)
    account = Account(in_microdollars(1))
    ledger = Ledger(model, lambda: agent.conversation, price=one_each, account=account)
    agent = Agent(LoopConfig(model=MODEL, tools=[look], stream_fn=ledger.stream, prepare=[ledger]))
    agent.subscribe(ledger.listen)
    return agent, model


async def test_run_at_the_cost_limit_ends_with_its_own_stop_reason() -> None:
    """S0-26: like the limit of rounds: no further call, own stop reason, valid history."""
    script = (priced(400_000, call="t1"), priced(600_000, call="t2"), priced(1))
    agent, model = agent_with_limit(*script)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.iterations) == ("max_cost", 2)
    assert result.error == "cost limit reached: $1 of $1 (max_cost_usd); send a message to go on"
    assert len(model.requests) == 2
    assert problems(to_api(llm(agent.conversation.context()))) == []
    assert agent.conversation.usage.held_microdollars == 0


async def test_aside_of_two_replies_leaves_nothing_reserved() -> None:
    """Each reply settles its own reservation: a model that calls a tool is asked once more."""
    book = Book(pieces(priced(200, call="t1")), pieces(priced(300)))
    agent = Agent(LoopConfig(model=MODEL, stream_fn=ScriptedModel(priced(100))))
    agent.subscribe(book.ledger.listen)
    await agent.prompt("go")

    answer = await SideQuestions(agent, Compaction(None), book.ledger.stream).ask("why?")

    assert answer == "so"
    assert agent.conversation.usage.cost_microdollars == 600
    assert book.figures() == (500, 0, 0)
    assert book.held[-1] == 0


async def test_stopped_aside_is_recorded_with_the_prompt_it_used() -> None:
    """What `message_start` told is billed, answered or not."""
    gate = Gate()
    known = Usage(input_tokens=40)
    model = ScriptedModel(priced(100), [ReplyStart(usage=known), gate])
    agent = Agent(LoopConfig(model=MODEL, stream_fn=model))
    await agent.prompt("go")
    asking = asyncio.create_task(SideQuestions(agent, Compaction(None), model).ask("why?"))
    await gate.reached.wait()

    asking.cancel()
    await asyncio.wait([asking])

    assert agent.conversation.usage.input_tokens == 40


async def test_cost_limit_is_not_reset_by_an_approval() -> None:
    """The prompt is the same, however many decisions it takes; the next one has its own limit."""
    script = (priced(900_000, call="t1"), priced(100_000, call="t2"), priced(1))
    agent, model = agent_with_limit(*script, approval=True)
    await agent.prompt("go")
    await agent.approve("t1")

    result = await agent.approve("t2")

    assert (result.stop_reason, len(model.requests)) == ("max_cost", 2)
    assert (await agent.prompt("another")).stop_reason == "end_turn"


blocks = st.one_of(
    st.text(max_size=50).map(text_block),
    st.builds(lambda data: {"type": "image", "source": data}, st.text(max_size=50)),
    st.builds(lambda pages: document_block(b"%PDF-", "a.pdf", pages=pages), st.integers(1, 20)),
)


@settings(derandomize=True)
@given(st.lists(st.lists(blocks, max_size=3), max_size=5), st.integers(0, 4))
def test_prompt_never_has_more_tokens_than_its_bound(
    contents: Sequence[Sequence[Block]], counted: int
) -> None:
    """However dense the text: a token is at least a byte, and counted parts are known."""
    messages = tuple(UserMessage(tuple(content)) for content in contents)
    tools = (ToolSpec("look", "Look ✓", {"type": "object"}),)
    request = ModelRequest(model=MODEL, messages=messages, system=("Ünï",), tools=tools)

    def most(held: ModelRequest) -> int:
        texts = [*held.system, *(f"{each.name}{each.description}" for each in held.tools)]
        given = [block for message in held.messages for block in message.content]
        texts += [str(block.get("text", "")) for block in given]
        images = sum(block["type"] == "image" for block in given)
        pages = sum(pages_of(block) for block in given)
        seen = IMAGE_TOKENS_MAX * images + PAGE_TOKENS_MAX * pages
        return sum(len(text.encode("utf-8", "replace")) for text in texts) + seen

    bound = PromptBound()
    assert bound.usage(request).prompt_tokens >= most(request)

    earlier = replace(request, messages=messages[:counted])
    bound.note(earlier, 7)
    assert (
        bound.usage(request).prompt_tokens
        == 7
        + PromptBound().usage(request).prompt_tokens
        - PromptBound().usage(earlier).prompt_tokens
    )
    for other in (
        replace(request, system=("Other",)),
        replace(request, tools=()),
        replace(request, model=Model("other")),
    ):
        assert bound.usage(other).prompt_tokens >= most(other)


async def stream_nothing(_request: ModelRequest) -> AsyncIterator[StreamEvent]:
    return
    yield


async def test_stream_that_ends_without_a_reply_counts_as_its_worst_case_cost() -> None:
    book = Book()
    ledger = Ledger(
        stream_nothing, lambda: book.conversation, price=one_each, account=Account(100_000)
    )

    assert await ask(ledger) is None

    assert (ledger.account.held, ledger.account.lost) == (0, WORST_CASE)


async def test_request_with_tools_states_the_token_budget_its_limit_pays_for() -> None:
    """Equal in each call, for the prompt cache; a child has its share, or its parent's rest."""
    book = Book(*[priced(1_000)] * 5, limit=100_000)
    with_tools = replace(REQUEST, tools=(ToolSpec("look", "Look", {}),))
    small = book.ledger.child(lambda: book.conversation, limit_usd=0.05)
    large = book.ledger.child(lambda: book.conversation, limit_usd=1)
    for ledger, request in (
        *[(book.ledger, with_tools)] * 2,
        (book.ledger, REQUEST),
        (small, with_tools),
        (large, with_tools),
    ):
        await ask(ledger, request)

    told = [each.task_budget for each in book.model.requests]
    assert told == [100_000, 100_000, None, 50_000, 96_000]


async def test_token_budget_stays_the_same_where_replies_cost_more_than_their_price() -> None:
    """Another one would cost the cached conversation."""
    said = Reply("msg", MODEL.id, (), "end_turn", Usage(2_000, cost_microdollars=2_200))
    book = Book(said, said)
    ledger = Ledger(
        book.model,
        lambda: book.conversation,
        price=lambda _model, usage: usage.prompt_tokens + usage.output_tokens,
        account=Account(100_000, surcharge=1.5),
    )

    for _ in range(2):
        await ask(ledger, replace(REQUEST, tools=(ToolSpec("look", "Look", {}),)))

    assert [each.task_budget for each in book.model.requests] == [100_000, 100_000]


async def test_token_budget_is_exact_for_prices_below_a_micro_dollar() -> None:
    """A cheap model's token costs a fraction of the smallest amount that is counted."""

    def price(_model_id: str, usage: Usage) -> int:
        return math.ceil(usage.output_tokens * 4 / 5)

    book = Book(priced(7))
    ledger = Ledger(
        book.model, lambda: book.conversation, price=price, account=Account(1_000_000_000)
    )

    await ask(ledger, replace(REQUEST, tools=(ToolSpec("look", "Look", {}),)))

    assert [each.task_budget for each in book.model.requests] == [1_250_000_000]
