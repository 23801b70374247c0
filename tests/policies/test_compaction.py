"""Compaction: its trigger, the messages kept, and the fallback without a summary."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.errors import (
    ASK_AGAIN,
    CHANGE_IT,
    AgentCliError,
    ContextOverflow,
    ModelError,
    Trouble,
)
from agent_cli.contracts.events import (
    Compacted,
    Event,
    MessageStart,
    Notice,
    PromptOutput,
    PromptStarted,
)
from agent_cli.contracts.found_tools import added_by
from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import TrimOutput, Usage, text_block
from agent_cli.core.imported_history import conversation_of
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.projection import CUT_TEXT, WORDS_TEXT, is_summary
from agent_cli.policies.compaction import MAX_FAILURES, Compaction
from agent_cli.policies.estimate import CHARS_PER_TOKEN, estimate_tokens
from agent_cli.policies.history_cuts import Trimming
from agent_cli.policies.summarizer import Summarizer
from tests.core.test_lasting_tools import Source, named
from tests.fakes import (
    ScriptedModel,
    calls,
    problems,
    returns,
    says,
    scripted_agent,
    tool,
    tool_use,
)
from tests.policies.histories import (
    REPEATABLE,
    FixedStrategy,
    Listener,
    Step,
    conversation_with,
    histories,
    llm,
    sent,
    turn_of,
)
from tests.tables import each_row

CHAT: list[Step] = ["user", 0] * 8
TINY = Model("tiny", context_window=100)


def compaction(strategy: FixedStrategy | None, *, threshold: int = 1, tail: int = 2) -> Compaction:
    return Compaction(strategy, threshold_tokens=threshold, protected_tail_messages=tail)


async def test_compaction_starts_only_above_the_threshold() -> None:
    """S1-39: no summary at the threshold, exactly one just above."""
    conversation = conversation_with(CHAT)
    tokens = estimate_tokens(conversation.context())
    strategy = FixedStrategy()

    await compaction(strategy, threshold=tokens)(turn_of(conversation))
    assert strategy.asked == []

    await compaction(strategy, threshold=tokens - 1)(turn_of(conversation))
    assert len(strategy.asked) == 1


async def test_threshold_below_what_cannot_be_summarized_is_told_once() -> None:
    """Nothing was ever summarized, and nobody knew why."""
    conversation = conversation_with(CHAT)
    listener, strategy = Listener(), FixedStrategy()
    policy = compaction(strategy, threshold=5)

    for _ in range(2):
        await policy(turn_of(conversation, listener, system="rules " * 100))

    assert strategy.asked == []
    [warning] = listener.warnings
    assert warning.startswith("nothing is summarized: compaction.threshold_tokens is 5, and the")
    assert warning.endswith(": raise it")


@each_row("make", [Compaction, partial(Compaction, threshold_tokens=0)])
async def test_default_threshold_is_80_percent_of_the_models_window(
    make: Callable[[FixedStrategy], Compaction],
) -> None:
    """S1-39: the default depends on the model."""
    conversation = conversation_with(CHAT)
    tokens = estimate_tokens(conversation.context())
    strategy = FixedStrategy()
    policy = make(strategy)

    large_enough = -(-tokens * 10 // 8)
    await policy(turn_of(conversation, model=Model("m", context_window=large_enough)))
    assert strategy.asked == []

    await policy(turn_of(conversation, model=Model("m", context_window=large_enough - 2)))
    assert len(strategy.asked) == 1


async def test_compaction_keeps_the_first_and_last_messages_and_summarizes_the_rest() -> None:
    """S1-40, S1c-5: both byte-identical, a bracketed summary between them, roles alternate."""
    conversation = conversation_with(CHAT)
    before = conversation.context()
    listener = Listener()
    strategy = FixedStrategy("what was", Usage(70, 30, cost_microdollars=9))

    await compaction(strategy, threshold=60, tail=5)(turn_of(conversation, listener))

    after = llm(conversation.context())
    assert (after[0], after[2:]) == (before[0], before[-5:])
    summary, _, words = after[1].text.partition(f"\n\n{WORDS_TEXT}\n")
    assert summary == "[Summary of the conversation up to here]\nwhat was"
    assert words.splitlines() == [
        "[older ones left out here: 1; recall finds them]",  # they may be half of what they replace
        *(
            f"- [{number}] {text}"
            for number, text in (
                (7, "4 word word word word"),
                (10, "6 word word word word word word"),
                (13, "8 word word word word word word word word"),
                (16, "10 word word word word word word word word word word"),
            )
        ),
    ]
    assert strategy.asked == [before[1:-5]]
    assert problems(sent(conversation)) == []
    assert conversation.usage == Usage(70, 30, cost_microdollars=9)
    assert Notice("info", "summarizing 11 older messages") in listener.events
    [told] = [event for event in listener.events if isinstance(event, Compacted)]
    assert told.removed_messages == 11
    assert told.tokens_after < told.tokens_before == estimate_tokens(before)
    assert told.tokens_read == 70


@each_row(("fewer_tokens", "is_taken"), [(0, False), (1, True)])
async def test_summary_must_be_smaller_than_the_messages_it_replaces(
    fewer_tokens: int, *, is_taken: bool
) -> None:
    """With the user's words: a cut that saves nothing only costs the cache."""
    first = conversation_with(CHAT)
    strategy = FixedStrategy("x")
    await compaction(strategy, threshold=60, tail=5)(turn_of(first))
    words = llm(first.context())[1].text.partition(f"\n\n{WORDS_TEXT}\n")[2]
    room = estimate_tokens(strategy.asked[0]) * CHARS_PER_TOKEN - len(words)
    conversation, listener = conversation_with(CHAT), Listener()
    summary = "y" * (room - fewer_tokens)

    await compaction(FixedStrategy(summary), threshold=60, tail=5)(turn_of(conversation, listener))

    assert (f"\n{summary}" in llm(conversation.context())[1].text) is is_taken
    refused = "compaction failed: the summary is not smaller than the messages it would replace"
    assert listener.warnings[:1] == ([] if is_taken else [refused])


async def test_compacted_messages_can_be_restored() -> None:
    """S1-40: they stay in the timeline and come back if the cut is undone."""
    conversation = conversation_with(CHAT)
    before = conversation.context()
    await compaction(FixedStrategy(), threshold=60)(turn_of(conversation))
    assert conversation.context() != before

    conversation.compact("", None)

    assert conversation.context() == conversation.messages() == before


async def test_next_summary_includes_the_previous_one() -> None:
    """S1-41: otherwise each compaction would forget the last summary."""
    conversation = conversation_with(CHAT)
    strategy = FixedStrategy()
    await compaction(strategy, tail=8, threshold=60)(turn_of(conversation))

    await compaction(strategy, tail=2, threshold=60)(turn_of(conversation))

    assert "what was" in llm(strategy.asked[1])[0].text
    assert sum("[Summary" in message.text for message in llm(conversation.context())) == 1


async def test_facts_in_summarized_messages_reach_the_summarizer_and_the_model() -> None:
    """S1-41: the summarizer gets all planted facts, and the model reads them in the summary."""
    facts = "we chose port 8443, see https://example.org/a?b=1, score 0.87"
    conversation = conversation_with(["user", 0], last=f"Remember: {facts}")
    conversation.add_reply(says("noted", usage=Usage()))
    for number in range(6):
        conversation.add_user(UserMessage.of(f"{number} " + "word " * 20))
    model = ScriptedModel(says(f"- {facts}"))

    policy = Compaction(Summarizer(model), threshold_tokens=60, protected_tail_messages=2)
    await policy(turn_of(conversation))

    assert f"Remember: {facts}" in str(model.sent())
    [told] = [message.text for message in llm(conversation.context()) if facts in message.text]
    assert told.startswith(f"[Summary of the conversation up to here]\n- {facts}\n\n{WORDS_TEXT}\n")


@each_row("strategy", [None, FixedStrategy("mine")])
async def test_compaction_needs_a_strategy(
    strategy: FixedStrategy | None,
) -> None:
    """S1-38: an interface, with two named strategies in the settings."""
    conversation = conversation_with(CHAT)
    before = conversation.context()

    await compaction(strategy, threshold=60)(turn_of(conversation))

    assert (conversation.context() == before) == (strategy is None)


@each_row(("happened", "asked"), [(["user", 0], 0), (["user", 0, 0], 1)])
async def test_single_message_between_first_and_last_ones_is_not_summarized(
    happened: list[Step], asked: int
) -> None:
    """S1c-3: at least two messages."""
    conversation = conversation_with(happened, last="x" * 20)
    strategy = FixedStrategy()

    await compaction(strategy, threshold=6, tail=1)(turn_of(conversation))

    assert len(strategy.asked) == asked


async def test_compaction_never_splits_a_call_from_its_results() -> None:
    """S1c-3: the protected end grows to the beginning of the reply it cuts into."""
    conversation = conversation_with(["user", 0, 0, 0, 0, 0, 0, 0, "user", 3], last=None)
    before = conversation.context()

    await compaction(FixedStrategy(), threshold=6, tail=2)(turn_of(conversation))

    assert conversation.context()[2:] == before[-4:]


@each_row(("system", "first"), [("s" * 400, "go"), ("", "f" * 400)])
async def test_no_compaction_if_system_prompt_or_first_message_alone_is_too_large(
    system: str, first: str
) -> None:
    """S1c-3: no summary could help, and each turn would write one."""
    strategy = FixedStrategy()
    conversation = conversation_of([UserMessage.of(first), *conversation_with(CHAT).messages()])

    await compaction(strategy, threshold=60)(turn_of(conversation, system=system))

    assert strategy.asked == []


async def test_overflow_of_the_fixed_part_is_a_clear_error() -> None:
    """S1c-3: the user must shorten something; the message says what."""
    turn = turn_of(conversation_with(CHAT), model=TINY, system="s" * 400, overflow=True)

    with pytest.raises(ContextOverflow, match=r"the first message alone exceed the window of tiny"):
        await compaction(FixedStrategy())(turn)


async def test_messages_too_few_to_matter_are_not_summarized_yet() -> None:
    """S1-39: the protected end fills the window; a summary each turn would not help."""
    conversation = conversation_with(["user", 0, 0], last="x" * 4_000)
    strategy = FixedStrategy()

    await compaction(strategy, threshold=900, tail=1)(turn_of(conversation))

    assert strategy.asked == []


async def test_overflow_forces_a_compaction_below_the_threshold() -> None:
    """S1-39: the server's count is more reliable than any estimate."""
    conversation = conversation_with(CHAT)
    strategy = FixedStrategy()

    await compaction(strategy, threshold=99_999)(turn_of(conversation, overflow=True))

    assert len(strategy.asked) == 1


@each_row("overflow", [False, True])
async def test_protected_messages_are_kept_while_older_ones_can_be_compacted(
    overflow: bool,
) -> None:
    """S1-40: even an overflow compacts old messages first."""
    conversation = conversation_with(CHAT)
    before = conversation.context()

    await compaction(FixedStrategy(), threshold=60, tail=5)(
        turn_of(conversation, overflow=overflow)
    )

    assert conversation.context()[2:] == before[-5:]


async def test_protected_messages_are_never_compacted_below_the_window() -> None:
    """S1-40: if there is nothing else, nothing is compacted, however low the threshold."""
    strategy = FixedStrategy()

    await compaction(strategy, threshold=60, tail=99)(turn_of(conversation_with(CHAT)))

    assert strategy.asked == []


async def test_overflow_of_the_protected_messages_compacts_some_of_them() -> None:
    """S1-40: a conversation that can never be sent again would be worse."""
    conversation = conversation_with(["user", 0, 1, 1], last=None)
    strategy = FixedStrategy()

    await compaction(strategy, tail=99)(turn_of(conversation, overflow=True))

    assert len(llm(conversation.context())) == 4
    assert problems(sent(conversation)) == []


@each_row(
    "make", [partial(FixedStrategy, failures=1), partial(FixedStrategy, text=""), lambda: None]
)
async def test_without_a_summary_the_oldest_rounds_are_dropped(
    make: Callable[[], FixedStrategy | None],
) -> None:
    """S1c-6: with a warning, and the turn continues; the first message and the end stay."""
    strategy = make()
    steps: list[Step] = ["user", *[0] * 9]
    conversation = conversation_with(steps * 4)
    before = conversation.context()
    listener = Listener()

    await compaction(strategy, threshold=60)(turn_of(conversation, listener, overflow=True))

    after = conversation.context()
    assert (after[0], after[-2:]) == (before[0], before[-2:])
    assert (note := llm(after)[1].text).startswith(CUT_TEXT)
    assert "] 10 word word" in note
    assert after[2:] == before[len(before) - len(after) + 2 :]
    assert estimate_tokens(after) <= estimate_tokens(before) // 2
    removed = len(before) - len(after) + 1
    assert listener.warnings[-1] == f"dropped the oldest {removed} messages to make room"
    assert len(listener.warnings) == (2 if strategy else 1)


@each_row("trouble", ["auth", "billing", "network", "overloaded", "server"])
async def test_an_outage_leaves_nothing_out_of_what_still_fits(trouble: Trouble) -> None:
    """The next request met it, too: the conversation was cut for nothing, before it was over.

    Only what the server refuses as too large is cut then.
    """
    strategy = FixedStrategy(failures=99, trouble=trouble)
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)
    before = conversation.context()
    listener = Listener()

    for _ in range(5):
        await policy(turn_of(conversation, listener))
    whole = conversation.context()
    await policy(turn_of(conversation, listener, overflow=True))

    assert whole == before
    assert len(conversation.context()) < len(before)
    assert [text for text in listener.warnings if "dropped" in text] == listener.warnings[-1:]


@each_row("trouble", ["rate_limit", "overloaded", "network", "server"])
async def test_a_summary_that_waited_in_vain_is_put_off_until_more_was_said(
    trouble: Trouble,
) -> None:
    """Each turn waited minutes for it again, and was told so each time.

    The advice is for who asked. A server that was too busy never switches summaries off.
    """
    strategy = FixedStrategy(failures=9, error=f"too many; {ASK_AGAIN} (request r)")
    strategy.trouble = trouble
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)
    listener = Listener()

    for _ in range(5):
        await policy(turn_of(conversation, listener))

    assert len(strategy.asked) == 1
    assert listener.warnings == [
        "compaction failed: too many (request r); unless asked for, it is tried again once the"
        " conversation has grown"
    ]
    for count in (2, 3, 4):
        conversation.begin(UserMessage.of("word " * 20))
        for _ in range(2):
            await policy(turn_of(conversation, listener))
        assert len(strategy.asked) == (min(count, 3) if trouble == "server" else count)
    await policy(turn_of(conversation_with(CHAT)))
    assert len(strategy.asked) == (4 if trouble == "server" else 5)


async def test_a_request_that_was_too_large_is_summarized_though_it_was_put_off() -> None:
    """Otherwise messages would go without a summary."""
    strategy = FixedStrategy(failures=1, trouble="rate_limit")
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)
    await policy(turn_of(conversation))

    await policy(turn_of(conversation, overflow=True))

    assert len(strategy.asked) == 2
    assert len(llm(conversation.context())) == 4


async def test_a_key_that_is_refused_does_not_switch_compaction_off() -> None:
    """It says nothing about summaries, and no such attempt costs anything."""
    strategy = FixedStrategy(failures=MAX_FAILURES, trouble="auth")
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)

    for _ in range(MAX_FAILURES + 1):
        await policy(turn_of(conversation))

    assert len(llm(conversation.context())) == 4


@each_row("advice", ["", f"; {CHANGE_IT}"])
async def test_compaction_stops_after_three_failures_in_a_row(advice: str) -> None:
    """S1c-6: a circuit breaker; real sessions have failed hundreds of times.

    The user did not write what the API refused, and cannot change it.
    """
    strategy = FixedStrategy(failures=99, error=f"the server is gone{advice}")
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)
    listener = Listener()

    for _ in range(5):
        conversation.compact("", None)  # as if the conversation had grown again
        await policy(turn_of(conversation, listener))

    assert len(strategy.asked) == 3
    failed = [text for text in listener.warnings if "compaction failed" in text]
    assert failed[0] == "compaction failed: the server is gone"
    assert [text for text in failed if "not tried again" in text] == failed[2:]

    await policy(turn_of(conversation_with(CHAT)))
    assert len(strategy.asked) == 4


async def test_successful_compaction_resets_the_failure_count() -> None:
    """S1c-6: only consecutive failures count; /compact can be tried at any time."""
    strategy = FixedStrategy(failures=2)
    policy = compaction(strategy, threshold=60)
    conversation = conversation_with(CHAT)
    for _ in range(3):
        conversation.compact("", None)
        await policy(turn_of(conversation))
    strategy.failures = 3
    for _ in range(4):
        conversation.compact("", None)
        await policy(turn_of(conversation))
    assert len(strategy.asked) == 6

    conversation.compact("", None)
    assert await policy.compact_now(turn_of(conversation))
    conversation.compact("", None)
    await policy(turn_of(conversation))

    assert len(strategy.asked) == 8


async def test_compact_now_compacts_below_the_threshold_with_instructions() -> None:
    """S1-38: the same code as in a run."""
    conversation = conversation_with(CHAT)
    strategy = FixedStrategy()
    policy = compaction(strategy, threshold=99_999)

    done = await policy.compact_now(turn_of(conversation), focus="the port")

    assert done
    assert strategy.focus == "the port"
    assert len(llm(conversation.context())) == 4


async def test_compact_now_keeps_all_words_of_a_conversation_of_little_else() -> None:
    """With room for half of it, the first rules of a user who begins with rules were left out."""
    rules = [f"rule {number}: {'never again ' * 20}" for number in range(12)]
    said = [UserMessage.of(rule) for rule in rules]
    done = AssistantMessage((text_block("Noted. " * 10),))
    conversation = conversation_of(list(chain.from_iterable((each, done) for each in said)))

    assert await compaction(FixedStrategy()).compact_now(turn_of(conversation))

    after = str(conversation.context())
    assert [rule for rule in rules if rule.strip() not in after] == []


async def test_summary_that_the_users_words_alone_make_too_large_is_not_asked_for() -> None:
    """The model was paid for a summary that was thrown away."""
    said = [UserMessage.of(f"rule {number}: {'never again ' * 20}") for number in range(12)]
    done = AssistantMessage((text_block("ok"),))
    conversation = conversation_of(list(chain.from_iterable((each, done) for each in said)))
    listener, strategy = Listener(), FixedStrategy()

    with pytest.raises(ModelError, match="would save nothing"):
        await compaction(strategy).compact_now(turn_of(conversation, listener))

    assert (strategy.asked, listener.events) == ([], [])


async def test_failure_of_compact_now_is_raised_and_changes_nothing() -> None:
    """S1c-6: the user who typed the command reads the reason."""
    conversation = conversation_with(CHAT)
    before = conversation.context()

    with pytest.raises(ModelError, match="gone"):
        await compaction(FixedStrategy(failures=1)).compact_now(turn_of(conversation))
    with pytest.raises(AgentCliError, match="off"):
        await compaction(None).compact_now(turn_of(conversation))

    assert conversation.context() == before
    short = conversation_with([])
    assert not await compaction(FixedStrategy()).compact_now(turn_of(short))


@REPEATABLE
@given(histories, st.lists(st.tuples(st.sampled_from("cft"), st.integers(1, 9)), max_size=4))
async def test_any_compacted_history_can_be_sent(
    happened: list[Step], cuts: Sequence[tuple[str, int]]
) -> None:
    """S1c-3, S1c-5, S1-40: valid, first message and end unchanged, no pair split."""
    conversation = conversation_with(happened)
    before, recorded = conversation.context(), conversation.messages()

    for kind, count in cuts:
        if kind == "t":
            Trimming(max_messages=count)(turn_of(conversation))
        else:
            strategy = FixedStrategy(failures=99 if kind == "f" else 0)
            policy = compaction(strategy, tail=count)
            await policy(turn_of(conversation, overflow=True))
        after = llm(conversation.context())

        assert problems(sent(conversation)) == []
        assert after[0] == llm(before)[0]
        has_note = len(after) > 1 and is_summary(after[1].text, or_cut=True)
        tail = after[2:] if has_note else after[1:]
        assert tail == llm(before)[len(llm(before)) - len(tail) :]
        assert after[-1] == llm(before)[-1]

    assert conversation.messages() == recorded
    conversation.compact("", None)
    assert conversation.context() == before


async def test_a_summary_is_asked_for_behind_the_bytes_of_the_last_request() -> None:
    """Tools, system prompt and messages stay as they were sent, so that the cache is read."""
    look = tool("look", returns("seen " * 50))
    agent, model, _ = scripted_agent(
        calls(tool_use("look", id="call_1")), says("one"), says("two"), says("notes"), tools=[look]
    )
    policy = Compaction(Summarizer(model), protected_tail_messages=1)
    await agent.prompt("first")
    await agent.prompt("second")

    assert await policy.compact_now(agent.next_turn(), focus="the port")

    last, summary = model.requests[-2:]
    assert summary.messages[: len(last.messages)] == last.messages
    assert summary.summarizes
    assert "keep above all: the port" in str(summary.messages[-1])
    summary = replace(summary, messages=last.messages, summarizes=False)
    assert replace(summary, cancel=last.cancel) == last


def order_of(events: Sequence[Event]) -> list[str]:
    """Return the order in which messages were kept, compacted, trimmed and requested."""
    found: list[str] = []
    for event in events:
        match event:
            case PromptStarted():
                found.append("append")
            case Compacted():
                found.append("compact")
            case PromptOutput(output=TrimOutput()):
                found.append("trim")
            case MessageStart(message=AssistantMessage()):
                found.append("stream")
            case _:
                pass
    return found


@pytest.mark.parametrize(
    ("limit", "turn"),
    [pytest.param(4, 0, id="the user's message"), pytest.param(5, 2, id="the tools' results")],
)
async def test_a_turn_appends_compacts_trims_and_streams_in_that_order(
    limit: int, turn: int
) -> None:
    """S1-04, S1-10: for the user's message as well as the tools' results."""
    agent, _, events = scripted_agent(
        *(calls(tool_use("look", id=f"call_{number}")) for number in range(3)),
        says("done"),
        tools=[tool("look", returns("w" * 2_000))],
        options=LoopConfig(
            prepare=(
                compaction(FixedStrategy(), threshold=60, tail=3),
                Trimming(max_messages=limit),
            )
        ),
    )
    agent.replace_messages(conversation_with(CHAT, last=None).messages())

    result = await agent.prompt("go " * 40)

    assert result.error is None
    first, *steps = order_of(events)
    assert first == "append"
    turns = " ".join(steps).split("stream")
    assert turns[turn].split() == ["compact", "trim"]


async def test_huge_tool_result_is_compacted_before_the_next_request() -> None:
    """S1-10: otherwise the next request would not fit."""
    strategy = FixedStrategy()
    policy = Compaction(strategy, threshold_tokens=250, protected_tail_messages=1)
    agent, model, events = scripted_agent(
        calls(tool_use("look", id="t1")),
        calls(tool_use("look", id="t2")),
        says("done"),
        tools=[tool("look", returns("w" * 1_200))],
        options=LoopConfig(prepare=[policy]),
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "end_turn"
    assert order_of(events) == ["append", "stream", "stream", "compact", "stream"]
    assert "what was" in str(model.sent())


@each_row("strategy", [FixedStrategy(), None])
async def test_tools_that_replaced_messages_had_added_are_added_again_at_once(
    strategy: FixedStrategy | None,
) -> None:
    """The very next request has them: the model is in the midst of its work."""
    source, window = Source(named("one")), Model("m", context_window=400, api="scripted")
    policy = Compaction(strategy, threshold_tokens=250, protected_tail_messages=1)
    agent, model, _events = scripted_agent(
        says("Hi."),
        says("w" * 1_200),
        ContextOverflow("too long"),
        says("Done."),
        options=LoopConfig(model=window, prepare=[source, policy]),
    )

    await agent.prompt("go")
    source.tools.append(named("two"))
    await agent.prompt("and")
    await agent.prompt("on")

    assert "wwww" not in str(model.requests[-1].messages)
    assert bool(strategy) == ("Summary" in str(model.requests[-1].messages))
    assert [*added_by(model.requests[-1].messages)] == ["two"]


async def test_tools_that_dropped_messages_had_added_are_added_again_at_once() -> None:
    """At the limit of messages as after a summary."""
    source = Source(named("one"))
    agent, model, _events = scripted_agent(
        *[says("Hi.")] * 3, options=LoopConfig(prepare=[source, Trimming(max_messages=3)])
    )

    await agent.prompt("go")
    source.tools.append(named("two"))
    await agent.prompt("and")
    await agent.prompt("on")

    assert CUT_TEXT in str(model.requests[-1].messages)
    assert [*added_by(model.requests[-1].messages)] == ["two"]


async def test_overflowing_request_is_compacted_and_sent_again() -> None:
    """S1-39: the loop reports the overflow once, and the compaction makes room."""
    strategy = FixedStrategy()
    agent, model, _ = scripted_agent(
        ContextOverflow("too long"),
        says("done"),
        options=LoopConfig(prepare=[compaction(strategy, threshold=99_999)]),
    )
    agent.replace_messages(conversation_with(CHAT, last=None).messages())

    result = await agent.prompt("go")

    assert (result.stop_reason, result.error) == ("end_turn", None)
    assert len(strategy.asked) == 1
    assert len(model.requests[1].messages) < len(model.requests[0].messages)


async def test_request_that_overflows_again_is_made_smaller_again() -> None:
    """A server may count more tokens than the estimate; protected messages are given up last."""
    strategy = FixedStrategy()
    agent, model, _ = scripted_agent(
        *[ContextOverflow("too long")] * 2,
        says("done"),
        options=LoopConfig(prepare=[compaction(strategy, threshold=99_999, tail=4)]),
    )
    agent.replace_messages(conversation_with(CHAT, last=None).messages())

    result = await agent.prompt("go")

    sizes = [len(request.messages) for request in model.requests]
    assert (result.stop_reason, result.error) == ("end_turn", None)
    assert sizes == sorted(set(sizes), reverse=True)


async def test_request_that_nothing_makes_smaller_ends_with_the_servers_words() -> None:
    agent, model, _ = scripted_agent(
        *[ContextOverflow("too long")] * 9,
        options=LoopConfig(prepare=[compaction(FixedStrategy(), threshold=99_999, tail=4)]),
    )
    agent.replace_messages(conversation_with(CHAT, last=None).messages())

    result = await agent.prompt("go")

    assert (result.stop_reason, result.error) == ("error", "too long")
    assert len(model.requests) < 6


@each_row(("room", "goes_behind"), [(16_000, True), (15_999, False)])
async def test_summary_is_asked_behind_the_request_only_with_room_to_think(
    room: int, *, goes_behind: bool
) -> None:
    """A request that ends in the middle of its notes would be paid for nothing."""
    conversation = conversation_with(CHAT)
    window = estimate_tokens(conversation.context()) + room
    strategy = FixedStrategy()
    turn = turn_of(conversation, model=Model("m", context_window=window))

    assert await compaction(strategy).compact_now(turn)

    assert [request is not None for request in strategy.requests] == [goes_behind]


async def test_words_of_the_user_fill_at_most_a_tenth_of_the_window() -> None:
    """The rest is for the summary and what follows; what is left out is the oldest."""
    conversation = conversation_with(["user", 0])
    for _ in range(40):
        conversation.begin(UserMessage.of("w" * 390))
        conversation.add_reply(says("r" * 4_000))
        conversation.complete()
    turn = turn_of(conversation, model=Model("m", context_window=10_000))

    assert await compaction(FixedStrategy()).compact_now(turn)

    _, _, words = llm(conversation.context())[1].text.partition(f"\n\n{WORDS_TEXT}\n")
    items = [line for line in words.splitlines() if line.startswith("- [")]
    assert 4_000 - 400 < sum(map(len, items)) <= 4_000
