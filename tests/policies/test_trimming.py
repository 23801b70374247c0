"""Trimming by the number of messages: whole rounds, the first message protected."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.messages import Message, ToolResultMessage
from agent_cli.contracts.timeline import Prompt
from agent_cli.core.api_messages import problems, to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.projection import CUT_TEXT
from agent_cli.policies.trimming import Trimming, trim_history
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use
from tests.policies.histories import (
    QUICK,
    Listener,
    Step,
    conversation_with,
    histories,
    llm,
    sent,
    turn_of,
)


def first_words(messages: list[Message]) -> list[str]:
    return [message.text.split()[0] for message in llm(messages)]


def test_trimming_removes_the_oldest_messages_after_the_first() -> None:
    """S1-32, S1-16, C7: the count is at most the limit; the first user message stays."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])

    removed = trim_history(conversation, max_messages=6)

    assert removed == 2
    assert first_words(conversation.context()) == ["0", "[agent-cli:", "3", "4", "5", "last"]
    assert len(sent(conversation)) == 5  # the note is sent with the first message


def test_trimming_never_splits_a_round_even_above_the_limit() -> None:
    """C7: a result without its call is a 400; one round too many is not."""
    conversation = conversation_with(["user", 1, 3], last=None)

    removed = trim_history(conversation, max_messages=4)

    assert removed == 2
    assert [message.role for message in conversation.context()] == [
        "user",
        "user",
        "assistant",
        *["toolResult"] * 3,
    ]


def test_trimming_stops_at_the_limit_if_three_quarters_cannot_be_reached() -> None:
    """S1-32: a longer round stays, with as much before it as fits."""
    conversation = conversation_with(["user", 0, 0, 0, 5], last=None)

    assert trim_history(conversation, max_messages=8) == 2
    assert len(conversation.context()) == 9


async def test_between_cuts_each_request_extends_the_previous_one() -> None:
    """S1-32: the cached prefix stays the same for many turns."""
    rounds, limit = 100, 40
    agent, model, events = scripted_agent(
        *[calls(tool_use("look", id=f"t{n}")) for n in range(rounds)],
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=LoopConfig(prepare=[Trimming(max_messages=limit)]),
    )

    await agent.prompt("go")

    sent = [list(request.messages) for request in model.requests]
    changed = [a for a, b in pairwise(sent) if b[: len(a)] != a]
    assert max(map(len, sent)) <= limit
    assert len(changed) == sum(event.type == "app.notice" for event in events)
    assert 0 < len(changed) <= 2 * rounds / (limit // 4)


@pytest.mark.parametrize(("limit", "removed"), [(0, 0), (8, 0), (7, 2), (1, 6)])
def test_trimming_limit_counts_messages_and_0_disables_trimming(limit: int, removed: int) -> None:
    """S1-32: 8 messages: 4 of the user's, 2 answers, a call and its result."""
    conversation = conversation_with(["user", 0, "user", 1, "user", 0])

    assert len(conversation.context()) == 8
    assert trim_history(conversation, max_messages=limit) == removed
    assert len(conversation.context()) == 8 - removed + bool(removed)


def test_what_the_user_said_stays_word_for_word_when_messages_are_dropped() -> None:
    """Within the budget; the model is told of `recall` only if it has that."""
    for words_chars, can_recall in ((1_000, True), (0, False)):
        conversation = conversation_with(["user", 0, "user", 0, "user", 0])

        trim_history(conversation, max_messages=6, words_chars=words_chars, can_recall=can_recall)

        note = llm(conversation.context())[1].text
        assert ("\n- [4] 2 word word" in note) == bool(words_chars)
        assert ("recall" in note) == can_recall


def test_notes_not_sent_to_the_model_do_not_count_for_trimming() -> None:
    """S1-32: only messages for the model count against the limit."""
    conversation = conversation_with(["user", "note", "note", 0])

    assert trim_history(conversation, max_messages=3) == 0


def test_one_warning_states_how_many_messages_were_dropped_and_the_limit() -> None:
    """S1-33: no warning if nothing is removed."""
    listener = Listener()
    conversation = conversation_with(["user", 0, "user", 0])

    Trimming(max_messages=3)(turn_of(conversation, listener))
    Trimming(max_messages=3)(turn_of(conversation, listener))

    assert listener.warnings == [
        "dropped the oldest 2 messages: the conversation exceeded max_conversation_messages = 3"
    ]


def test_trimming_keeps_the_summary() -> None:
    """C7: the summary stands for removed messages; losing it would lose them twice."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])
    kept = conversation.prompts[1].input
    assert kept
    conversation.compact("what was", kept.id)

    trim_history(conversation, max_messages=5)

    texts = [message.text for message in llm(conversation.context())]
    assert "what was" in texts[1]
    assert [text.split()[0] for text in texts] == ["0", "[Summary", "5", "last"]


def test_a_summary_counts_as_one_message() -> None:
    """S1-32: at the limit nothing is removed; one message above it something is."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])
    kept = conversation.prompts[1].input
    assert kept
    conversation.compact("what was", kept.id)
    length = len(conversation.context())

    assert trim_history(conversation, max_messages=length) == 0
    assert trim_history(conversation, max_messages=length - 1) > 0


def test_cut_stays_valid_when_a_triggered_prompt_ends() -> None:
    """A triggered prompt is in the history only while it runs; no cut may name it."""
    conversation = conversation_with(["user", 0])
    conversation.begin()

    trim_history(conversation, max_messages=1)
    conversation.complete()

    assert first_words(conversation.context())[0] == "0"


def test_nothing_is_trimmed_while_tool_calls_are_open() -> None:
    """The turn that resumes an approved batch makes no model call."""
    conversation = conversation_with(["user", 0, "user", 0], last="go")
    conversation.add_reply(calls(tool_use("look")))

    Trimming(max_messages=1)(turn_of(conversation))

    assert len(conversation.context()) == 6


@QUICK
@given(histories, st.lists(st.integers(1, 30), min_size=1, max_size=3))
def test_any_trimmed_history_can_be_sent(happened: list[Step], limits: list[int]) -> None:
    """S1-32, C7: valid, first message and end unchanged, no pair split, nothing lost for good."""
    conversation = conversation_with(happened)
    before, recorded = conversation.context(), conversation.messages()
    assert problems(sent(conversation)) == []

    is_cut = False
    for limit in limits:
        length = len(llm(conversation.context()))
        removed = trim_history(conversation, max_messages=limit)
        after = conversation.context()

        assert problems(sent(conversation)) == []
        assert after[0] == before[0] or llm(after)[0] == llm(before)[0]
        is_first, is_cut = removed > 0 and not is_cut, is_cut or removed > 0
        tail = llm(after)[2 if is_cut else 1 :]
        assert tail == llm(before)[len(llm(before)) - len(tail) :]
        assert [m for m in llm(after) if m.text.startswith(CUT_TEXT)] == llm(after)[1:2][:is_cut]
        assert len(llm(after)) == length - removed + is_first
        assert removed == 0 or 1 + len(tail) <= limit or _is_one_round(tail)

    assert conversation.messages() == recorded
    conversation.compact("", None)
    assert conversation.context() == before


def _is_one_round(messages: Sequence[Message]) -> bool:
    return len([m for m in messages if not isinstance(m, ToolResultMessage)]) == 1


async def test_history_is_trimmed_before_every_request_of_a_run() -> None:
    """S1-04, S1-10: after tool results as well; the note is sent with the first message."""
    agent, model, events = scripted_agent(
        *[calls(tool_use("look", id=f"t{n}")) for n in range(4)],
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=LoopConfig(prepare=[Trimming(max_messages=3)]),
    )

    await agent.prompt("go")

    assert [len(request.messages) for request in model.requests] == [1, 3, 4, 4, 4]
    assert [len(to_api(llm(request.messages))) for request in model.requests] == [1, 3, 3, 3, 3]
    assert all(request.messages[0] == model.requests[0].messages[0] for request in model.requests)
    assert sum(event.type == "app.notice" for event in events) == 3


def test_without_a_limit_trimming_does_not_read_the_history() -> None:
    """The default; reading cost 50 ms before each call in a session of 10,000 entries."""

    class Unread(Conversation):
        @property
        def prompts(self) -> Sequence[Prompt]:
            pytest.fail("the history was read")

    assert trim_history(Unread(), max_messages=0) == 0
