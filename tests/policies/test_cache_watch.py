"""Losses of the prompt cache: counted, priced, and with the right cause."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Price
from agent_cli.contracts.side_events import CacheLost
from agent_cli.contracts.timeline import Usage
from agent_cli.core.conversation import Conversation
from agent_cli.policies.cache_watch import CacheWatch, cache_lines
from tests.fakes import MODEL, ScriptedModel, notices, returns, says, tool
from tests.policies.histories import Listener
from tests.tables import each_row

FIRST = ModelRequest(model=MODEL, messages=(UserMessage.of("one"),), session_id="s")
NEXT = replace(FIRST, messages=(*FIRST.messages, UserMessage.of("two")))


def price(_model: str, usage: Usage) -> int:
    """Return a price of 10 a token written, and 1 a token read."""
    return usage.cache_write_5m_tokens * 10 + usage.cache_read_tokens + usage.input_tokens * 8


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def losses_of(
    second: ModelRequest,
    *,
    read: int,
    wait_s: float = 1,
    reason: str = "",
    priced: Price = price,
    conversation: Callable[[], Conversation] = Conversation,
    first: ModelRequest = FIRST,
) -> tuple[list[CacheLost], list[str], ScriptedModel]:
    """Return the losses of two requests, of which the first leaves 50,000 tokens in the cache."""
    one = says("a", usage=Usage(10, 5, 0, 50_000))
    two = says("b", usage=Usage(10, 5, read, 51_000 - read))
    model, listener, clock = (
        ScriptedModel(one, replace(two, cache_miss=reason)),
        Listener(),
        Clock(),
    )
    watch = CacheWatch(model, price=priced, emit=listener, conversation=conversation, clock=clock)
    for request in (first, second):
        async for _ in watch.stream(request):
            pass
        clock.now_s += wait_s
    told = notices(listener.events)
    assert [each for each in listener.events if isinstance(each, CacheLost)] == watch.losses
    return watch.losses, told, model


async def test_a_turn_that_reads_all_of_the_cache_is_no_loss() -> None:
    """The id of the reply before goes along, so that the server can name a reason."""
    losses, told, model = await losses_of(NEXT, read=50_000)

    assert (losses, told) == ([], [])
    assert [each.previous_message_id for each in model.requests] == [None, "msg"]


LOOK = tool("look", returns("seen"))


@each_row(
    ("second", "wait_s", "reason", "cause"),
    [
        (replace(NEXT, tools=(LOOK.spec,)), 1, "", "the tools changed"),
        (replace(NEXT, system=("x",)), 1, "system_changed", "the system prompt changed"),
        (replace(NEXT, thinking_level="high"), 1, "unavailable", "the effort changed"),
        (replace(NEXT, messages=NEXT.messages[1:]), 1, "", "the history was cut or rewound"),
        (NEXT, 720, "", "12 minutes had passed, and the cache lives five"),
        (NEXT, 1, "", "no change of ours: the server had dropped it"),
        (NEXT, 1, "messages_changed", "earlier messages changed"),
        (
            replace(NEXT, thinking_level="high"),
            1,
            "tools_changed",
            "the effort changed; the server says that the tools changed",
        ),
        (
            replace(NEXT, model=Model("other")),
            1,
            "",
            f"the model changed from {MODEL.id} to other",
        ),
    ],
)
async def test_a_loss_is_told_with_its_price_and_cause(
    second: ModelRequest, wait_s: float, reason: str, cause: str
) -> None:
    """Ours first, as it names what to leave alone next time; then the server's."""
    losses, told, _ = await losses_of(second, read=0, wait_s=wait_s, reason=reason)

    assert losses == [CacheLost(50_000, 450_000, cause, was_announced=False)]
    assert told == [f"50,000 cached tokens were read anew, $0.45 more: {cause}"]


async def test_a_compaction_is_named_as_the_cause() -> None:
    """Not as a cut or a rewind, of which the user would know nothing."""
    compacted = Conversation()
    compacted.begin(UserMessage.of("one"))
    last = compacted.prompts[-1].input
    assert last
    compacted.compact("notes", last.id)

    losses, _, _ = await losses_of(
        replace(NEXT, messages=NEXT.messages[1:]), read=0, conversation=lambda: compacted
    )

    assert [each.cause for each in losses] == ["the history was compacted"]


async def test_rewind_loses_only_what_is_still_sent() -> None:
    """The new prompt counted as tokens read anew, up to the size of what was rewound."""
    left = Conversation()
    left.begin(UserMessage.of("one"), model=MODEL)
    left.add_reply(says("a", usage=Usage(10, 5, 0, 20_000)))
    long = replace(NEXT, messages=(*NEXT.messages, UserMessage.of("three")))
    rewound = replace(FIRST, messages=(*FIRST.messages, UserMessage.of("again")))

    async def lost(*, read: int) -> list[tuple[int, str]]:
        found = chain([Conversation()], repeat(left))
        losses, _, _ = await losses_of(
            rewound, read=read, conversation=lambda: next(found), first=long
        )
        return [(each.tokens, each.cause) for each in losses]

    assert await lost(read=20_000) == []
    assert await lost(read=0) == [(20_000, "the conversation went back to an earlier prompt")]


UNKNOWN = (
    "something sent before the new message changed since the session was closed, or the server had"
    " dropped it"
)


@each_row(
    ("model", "wait_s", "reason", "cause", "follows"),
    [
        (MODEL, 1, "", UNKNOWN, "msg"),
        (MODEL, 1, "tools_changed", "the tools changed", "msg"),
        (MODEL, 720, "", "12 minutes had passed, and the cache lives five", "msg"),
        (Model("other"), 1, "", f"the model changed from {MODEL.id} to other", None),
    ],
)
async def test_first_request_of_a_process_is_compared_with_the_last_reply_on_record(
    model: Model, wait_s: float, reason: str, cause: str, follows: str | None
) -> None:
    """What its request was is not known; another model's server gets no id of this one's."""
    clock, listener = Clock(), Listener()
    conversation = Conversation(id="s")
    with conversation.dated(round(clock.now_s * 1_000)):
        conversation.begin(UserMessage.of("one"), model=MODEL)
        conversation.add_reply(says("a", usage=Usage(10, 5, 0, 50_000)))
    clock.now_s += wait_s
    said = replace(says("b", usage=Usage(10, 5, 0, 51_000)), model=model.id, cache_miss=reason)
    asked = ScriptedModel(said)
    watch = CacheWatch(
        asked, price=price, emit=listener, conversation=lambda: conversation, clock=clock
    )

    async for _ in watch.stream(replace(NEXT, model=model)):
        pass

    assert watch.losses == [CacheLost(50_000, 450_000, cause, was_announced=False)]
    assert [each.previous_message_id for each in asked.requests] == [follows]


async def test_another_session_has_another_cache() -> None:
    """A cleared conversation loses nothing."""
    losses, _, _ = await losses_of(replace(NEXT, session_id="t"), read=0)

    assert losses == []


def test_cache_lines_sum_up_hits_savings_and_losses() -> None:
    """`/usage cache`."""
    usage = Usage(1_000, 5, 8_000, 1_000)
    losses = [
        CacheLost(5_000, 45_000, "the tools changed", was_announced=True),
        CacheLost(2_000, None, "x", was_announced=False),
    ]

    assert cache_lines(usage, losses, price=lambda of: price("", of)) == [
        "8,000 of 10,000 tokens sent were read from the cache (80%), 1,000 were written to it",
        "reading from the cache saved $0.056",
        "lost in this run: 7,000 tokens, $0.045 more",
        "  5,000 tokens ($0.045): the tools changed",
        "  2,000 tokens: x",
    ]
    assert cache_lines(Usage(), [], price=lambda _of: None) == ["nothing was sent yet"]


@each_row(("lost", "counted", "told"), [(1_023, 0, 0), (1_024, 1, 0), (1_111, 1, 0), (1_112, 1, 1)])
async def test_less_than_any_model_caches_is_no_loss_and_less_than_a_cent_is_not_told(
    lost: int, counted: int, told: int
) -> None:
    """The server reads in blocks: what is left of the last one is always read anew."""
    losses, notices, _ = await losses_of(NEXT, read=50_000 - lost)

    assert (len(losses), len(notices)) == (counted, told)


@each_row(
    ("wait_s", "cause"),
    [
        (300, "no change of ours: the server had dropped it"),
        (300.5, "5 minutes had passed, and the cache lives five"),
    ],
)
async def test_a_cache_lives_five_minutes(wait_s: float, cause: str) -> None:
    losses, _, _ = await losses_of(NEXT, read=0, wait_s=wait_s)

    assert [each.cause for each in losses] == [cause]
