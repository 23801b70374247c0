"""The record itself: the place of an entry, its time, and the listeners it notifies."""

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import (
    Event,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import CustomOutput, Prompt, ToolOutput, Usage
from agent_cli.core import record
from agent_cli.core.conversation import Conversation
from agent_cli.core.record import Record
from tests.fakes import calls, tool_use
from tests.tables import each_row

ENDED = ToolOutput("o", 2, "r", tool_use("x"), ended_at_ms=500)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the times that `now_ms` returns next."""
    times: list[int] = []
    monkeypatch.setattr(record, "now_ms", lambda: times.pop(0))
    return times


def test_record_time_never_decreases(clock: list[int]) -> None:
    """S3-25: a clock that steps back, or an earlier date, gives the time of the last entry."""
    record = Record()
    clock += [0, 100, 90, 120]

    found = [record.now(), record.now(), record.now()]
    with record.dated(80):
        found.append(record.now())
    with record.dated(110):
        found += [record.now(), record.now()]
    found.append(record.now())

    assert found == [0, 100, 100, 100, 110, 110, 120]
    assert clock == []


def test_dated_block_ends_even_after_an_error(clock: list[int]) -> None:
    record = Record()
    clock += [100]

    with pytest.raises(LookupError), record.dated(50):
        raise LookupError

    assert record.now() == 100


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt("p", "local", "m", 500),
        Prompt("p", "local", "m", 1, output=[CustomOutput("o", 500, "note", None)]),
        Prompt("p", "local", "m", 1, output=[ENDED]),
    ],
)
def test_record_continues_from_its_latest_time(prompt: Prompt, clock: list[int]) -> None:
    """S3-25: the latest time may be the end of a call."""
    clock += [300]

    assert Record([Prompt("first", "local", "m", 7), prompt]).now() == 500


def test_every_change_of_the_record_is_published_once_and_immediately() -> None:
    """S2-24, S2-26, S2-28: a listening session store gets it before anything else happens."""
    conversation, heard = Conversation(), list[Event]()
    conversation.publish = heard.append

    prompt = conversation.begin(UserMessage.of("go"))
    conversation.set_state("waiting_for_approval")
    conversation.set_state("running")
    conversation.complete()
    conversation.complete()

    assert heard == [
        PromptStarted(prompt),
        PromptStateChanged(prompt.id, "waiting_for_approval"),
        PromptStateChanged(prompt.id, "running"),
        PromptCompleted(prompt.id),
    ]


@each_row(
    ("before", "after"),
    [
        ("completed", "running"),
        ("completed", "waiting_for_approval"),
        ("completed", "completed"),
        ("waiting_for_approval", "completed"),
        ("waiting_for_approval", "waiting_for_approval"),
    ],
)
def test_forbidden_state_transition_of_a_prompt_raises(before: str, after: str) -> None:
    """S2-37: nothing is published then."""
    record = Record([Prompt("p", "local", "m", 1, state=before)])  # type: ignore[arg-type]
    heard: list[Event] = []
    record.publish = heard.append

    with pytest.raises(ConversationError, match=f"^a prompt cannot go from {before} to {after}$"):
        record.set_state(after)  # type: ignore[arg-type]  # one of the names

    assert (record.prompts[0].state, heard) == (before, [])


def test_completing_leaves_a_prompt_that_waits_for_approval() -> None:
    """S2-37: its call still needs a decision. Without a prompt nothing happens."""
    waiting = Record([Prompt("p", "local", "m", 1, state="waiting_for_approval")])

    waiting.complete()
    Record().complete()

    assert waiting.prompts[0].state == "waiting_for_approval"


def test_usage_includes_rewound_prompts() -> None:
    """S2-41: rewinding does not refund the cost."""
    record = Record([Prompt("p", "local", "m", 1, usage=Usage(1, 2)), Prompt("q", "l", "m", 1)])
    record.taken_back = Usage(10, 20)

    assert record.usage == Usage(11, 22)


def test_replaced_entry_keeps_its_position() -> None:
    """S2-12: the event names the position, and says that the entry was replaced."""
    conversation, heard = Conversation(), list[Event]()
    prompt = conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1"), tool_use("look", {}, "t2")))
    conversation.publish = heard.append

    conversation.start_call("t2")

    [event] = heard
    assert isinstance(event, PromptOutput)
    assert (event.prompt_id, event.index, event.replaced) == (prompt.id, 1, True)
    assert event.output is prompt.output[1]
    with pytest.raises(ConversationError, match="there is no tool call 't9' in this conversation"):
        conversation.start_call("t9")
