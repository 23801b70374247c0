"""The record itself: the place of an entry, its time, and the listeners it notifies."""

from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import (
    Event,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.messages import LEFT_OUT, CustomMessage, Message, UserMessage
from agent_cli.contracts.timeline import (
    CustomOutput,
    FileOutput,
    Output,
    Prompt,
    ReplyOutput,
    Success,
    ToolOutput,
    Usage,
    UserOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.core import record
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import context, entries, shown
from agent_cli.core.record import Record
from tests.fakes import calls, says, tool_use
from tests.tables import each_row

ENDED = ToolOutput("o", 2, "r", tool_use("x"), ended_at_ms=500)


def ignore(_event: Event) -> None:
    """Discard an event."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the times that `now_ms` returns next."""
    times: list[int] = []
    monkeypatch.setattr(record, "now_ms", lambda: times.pop(0))
    return times


def test_record_time_never_decreases(clock: list[int]) -> None:
    """S3-25: a clock that steps back, or an earlier date, gives the time of the last entry."""
    record = Record((), ignore)
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
    record = Record((), ignore)
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

    assert Record([Prompt("first", "local", "m", 7), prompt], ignore).now() == 500


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
    heard: list[Event] = []
    prompt = Prompt("p", "local", "m", 1, state=before)  # type: ignore[arg-type]
    record = Record([prompt], heard.append)

    with pytest.raises(ConversationError, match=f"^a prompt cannot go from {before} to {after}$"):
        record.set_state(after)  # type: ignore[arg-type]  # one of the names

    assert (record.prompts[0].state, heard) == (before, [])


def test_completing_leaves_a_prompt_that_waits_for_approval() -> None:
    """S2-37: its call still needs a decision. Without a prompt nothing happens."""
    waiting = Record([Prompt("p", "local", "m", 1, state="waiting_for_approval")], ignore)

    waiting.complete()
    Record((), ignore).complete()

    assert waiting.prompts[0].state == "waiting_for_approval"


def test_usage_includes_rewound_prompts() -> None:
    """S2-41: rewinding does not refund the cost."""
    prompts = [Prompt("p", "local", "m", 1, usage=Usage(1, 2)), Prompt("q", "l", "m", 1)]
    conversation = Conversation(prompts)
    conversation.taken_back = Usage(10, 20)

    assert conversation.usage == Usage(11, 22)


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


def _operate(conversation: Conversation, operation: str, number: int) -> None:
    """Change *conversation* as *operation* says, if that is possible now."""
    last = conversation.prompts[-1].output if conversation.prompts else []
    calls_of = [out.tool_call_id for out in last if isinstance(out, ToolOutput)]
    kept = [out.id for out in last if isinstance(out, UserOutput | ReplyOutput)]
    text = UserMessage.of(f"message {number}")
    match operation:
        case "prompt":
            conversation.begin(text)
        case "trigger":
            conversation.begin()
        case "steer":
            conversation.add_user(text)
        case "reply" | "answer" if last or conversation.prompts:
            uses = [tool_use("work", {}, f"t{number}.{index}") for index in range(2)]
            conversation.add_reply(calls(*uses) if operation == "reply" else says("I see."))
        case "settle" if open_calls := conversation.open_calls():
            conversation.settle_call(open_calls[-1].tool_call_id, Success((text_block("ok"),)))
        case "file" if calls_of:
            conversation.attach(FileOutput("", 0, calls_of[0], "/f", "text/plain", "a file"))
        case "widget" if calls_of:
            conversation.attach(WidgetOutput("", 0, calls_of[0], "table", None, "a table"))
        case "effort" | "other" if conversation.prompts:
            conversation.note(CustomMessage(operation, {"level": f"l{number}"}))
        case "aborted" | "refusal" | "error" if conversation.prompts:
            conversation.discard_reply("half", operation)
        case "withdraw" if kept and isinstance(entry := conversation.prompts[-1].input, UserOutput):
            conversation.withdraw(entry, "too late")
        case "trim" if kept:
            conversation.trim(kept[-1], removed_messages=1, note="cut")
        case "compact" if kept:
            conversation.compact("summary", kept[0])
        case "left out" if calls_of:
            ids = [out.id for out in last if isinstance(out, ToolOutput)]
            conversation.note(CustomMessage(LEFT_OUT, {ids[0]: 1}))
        case "edit" if calls_of:
            conversation.change_input(calls_of[0], {"at": number})
        case _:
            pass


_BESIDE = {"file", "widget"}
_USUAL = ["reply", "settle", "settle", "answer", "steer", "look", "look"]
_UNUSUAL = ["prompt", "trigger", "file", "widget", "effort", "other", "aborted", "refusal", "error"]
_CUTS = ["withdraw", "trim", "compact", "left out", "edit"]


_CHANGES = st.lists(
    st.one_of(st.sampled_from(_USUAL), st.sampled_from(_USUAL), st.sampled_from(_UNUSUAL + _CUTS)),
    max_size=40,
)


@settings(deadline=None, derandomize=True)
@given(_CHANGES)
@example(["answer", "look", "prompt", "answer", "steer"])
@example(["reply", "effort", "reply", "steer", "look", "answer"])
def test_context_is_that_of_a_whole_projection_after_any_changes(operations: list[str]) -> None:
    """Only what follows the last reply is projected again."""
    conversation, times = Conversation(), count(1)
    for number, operation in enumerate(["prompt", *operations, "look"]):
        with conversation.dated(next(times)):
            _operate(conversation, operation, number)
        if operation == "look":
            outputs = shown(conversation.prompts)
            assert list(conversation.shown()) == outputs
            assert conversation.context() == context(outputs)


@settings(deadline=None, derandomize=True)
@given(_CHANGES)
@example(["reply", "widget", "file", "other", "prompt", "reply", "other"])
def test_what_is_kept_beside_the_record_is_what_a_walk_finds(operations: list[str]) -> None:
    """Each turn asks for notes, calls and what the user said, in however long a conversation.

    Also after a rewind, and in a copy.
    """
    conversation = Conversation()

    for number, operation in enumerate(["prompt", *operations]):
        _operate(conversation, operation, number)
        if operation == "other" and number % 3 == 0:
            conversation = Conversation(conversation.prompts[:-1])

        for each in (conversation, Conversation(conversation.prompts)):
            outputs = [*entries(each.prompts)]
            between = [out for out in outputs if not hasattr(out, "reply_id")]
            assert each.between_replies == [out for out in between if out.kind not in _BESIDE]
            made = {f"t{at}.{index}" for at in range(number + 1) for index in range(2)}
            calls_made = {out.tool_call_id for out in outputs if isinstance(out, ToolOutput)}
            assert {*filter(each.has_call, made)} == calls_made


class _New(Output):
    """An entry of a kind that a later version adds."""


def test_kind_that_is_new_stands_between_the_replies() -> None:
    """A feature that looks for its entries there finds them, and no list need know the kind."""
    conversation = Conversation()
    prompt = conversation.begin()
    prompt.output.append(new := _New("n", 0))

    assert Conversation([prompt]).between_replies == [new]


def test_message_that_stays_in_the_context_stays_the_same_object() -> None:
    """What is made from a message need not be made again for each request."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    before: list[Message] = []
    for number in range(4):
        _operate(conversation, "reply", number)
        for _ in range(2):
            _operate(conversation, "settle", number)

        found = conversation.context()

        assert len(found) > len(before)
        kept = max(0, len(before) - 3)  # all but the last reply and its results
        assert list(map(id, found[:kept])) == list(map(id, before[:kept]))
        before = found
