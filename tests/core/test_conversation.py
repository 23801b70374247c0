"""The operations of the timeline: whole replies, one result per call, published immediately."""

import itertools
from copy import deepcopy
from dataclasses import replace

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import Event, PromptCompleted, PromptOutput, PromptStarted
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import (
    Error,
    FileOutput,
    Output,
    Pending,
    Prompt,
    PromptState,
    ReplyOutput,
    Success,
    ToolOutput,
    Usage,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.wording import UNANSWERED_QUESTION
from agent_cli.core import record
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.imported_history import append, conversation_of
from tests.fakes import calls, problems, says, tool_use
from tests.tables import each_row

OK = Success((text_block("ok"),))


def asked(*ids: str) -> Conversation:
    """Return a conversation with a reply whose calls are open."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(*(tool_use("look", {}, id) for id in ids)))
    return conversation


def test_conversation_keeps_a_given_id_or_generates_one() -> None:
    """The id identifies the session later."""
    own = Conversation()

    assert (Conversation(id="mine").id, len(own.id)) == ("mine", 12)
    assert own.id != Conversation().id


def test_deep_copy_publishes_its_own_changes() -> None:
    """A branch that a program makes was heard by the listeners of the original."""
    heard: list[str] = []
    conversation = Conversation()
    branch = deepcopy(conversation)
    conversation.publish = lambda _event: heard.append("original")
    branch.publish = lambda _event: heard.append("branch")

    branch.begin()

    assert heard == ["branch"]
    assert (len(conversation.prompts), len(branch.prompts)) == (0, 1)


def test_context_is_projected_again_only_after_a_change() -> None:
    """Several parts of a turn ask for it, and each projection walks through the whole timeline."""
    conversation = asked("1")
    before = conversation.context()

    again = conversation.context()
    again.pop()
    conversation.settle_call("1", OK)
    settled = conversation.context()
    conversation.add_user(UserMessage.of("more"))
    steered = conversation.context()

    assert all(one is other for one, other in zip(before, again, strict=False))
    assert len(before) == 2
    assert [len(before), len(settled), len(steered)] == [2, 3, 4]
    assert len(conversation.context()) == 4


def test_prompt_records_user_model_input_and_state() -> None:
    """S2-01: every field of the record; an unknown state is refused."""
    conversation = Conversation(user_id="ada")

    prompt = conversation.begin(UserMessage.of("go"), model=Model("claude-opus-5-5"), visible=False)
    conversation.add_reply(says("ok", usage=Usage(3, 4)))

    assert (prompt.user_id, prompt.model, prompt.visible) == ("ada", "claude-opus-5-5", False)
    assert (prompt.state, prompt.usage) == ("running", Usage(3, 4))
    assert prompt.input is not None
    assert prompt.input.content == (text_block("go"),)
    assert [output.kind for output in prompt.output] == ["text", "reply"]
    with pytest.raises(ConversationError, match="from running to asleep"):
        conversation.set_state("asleep")  # type: ignore[arg-type]  # that is the point
    assert prompt.state == "running"


def test_prompt_without_options_has_user_local_and_model_normal() -> None:
    """S2-01: other programs read these values in records."""
    prompt = Conversation().begin(UserMessage.of("go"))

    assert (prompt.user_id, prompt.model, prompt.visible) == ("local", "normal", True)


def test_outputs_of_a_prompt_are_in_the_order_they_happened() -> None:
    """S2-03: entries are only added; a side output goes after its call, a result into it."""
    conversation = Conversation()
    orders: list[list[str]] = []
    conversation.publish = lambda _event: orders.append([o.id for o in prompt_output()])

    def prompt_output() -> list[Output]:
        return conversation.prompts[-1].output

    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1"), tool_use("look", {}, "t2")))
    conversation.settle_call("t2", OK)
    conversation.attach(WidgetOutput("", 0, "t1", "table", [[1]], "1"))
    conversation.settle_call("t1", OK)
    conversation.add_user(UserMessage.of("wait"))
    conversation.discard_reply("half", "error")
    conversation.add_reply(says("done"))
    conversation.note(CustomMessage("note", {}))

    kinds = [output.kind for output in prompt_output()]
    assert kinds == [
        *("tool", "widget", "tool", "reply", "user"),
        *("discarded", "text", "reply", "custom"),
    ]
    for before, after in itertools.pairwise(orders):
        assert [id for id in after if id in before] == before
    times = [o.at_ms for o in prompt_output() if not isinstance(o, WidgetOutput)]
    assert times == sorted(times)


def test_call_is_open_until_its_first_result() -> None:
    """S2-10, S2-12: a second result is ignored; every entry keeps its place."""
    conversation = asked("t1", "t2")
    ids = [output.id for output in conversation.prompts[0].output]

    assert [call.tool_call_id for call in conversation.open_calls()] == ["t1", "t2"]
    conversation.settle_call("t2", OK)
    conversation.settle_call("t2", Error((text_block("too late"),)))

    assert [call.tool_call_id for call in conversation.open_calls()] == ["t1"]
    assert conversation.call("t2").result == OK
    assert [output.id for output in conversation.prompts[0].output] == ids


def test_duplicate_and_missing_call_ids_are_replaced() -> None:
    """S1-31: duplicates may be in one reply or in several."""
    conversation = asked("t1", "t1")
    conversation.answer_open_calls()

    conversation.add_reply(calls(tool_use("look", {}, "t1"), tool_use("look", {}, "")))

    ids = [
        output.tool_call_id
        for output in conversation.prompts[0].output
        if isinstance(output, ToolOutput)
    ]
    assert ids[0] == "t1"
    assert len(set(ids)) == 4
    assert "" not in ids


def test_timestamps_never_decrease_when_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3-25: this holds within a session and between two."""
    clock = [1_000, 900, 2_000]
    monkeypatch.setattr(record, "now_ms", lambda: clock.pop(0) if clock else 100)
    conversation = Conversation()
    prompt = conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    conversation.settle_call("t1", OK)

    resumed = [Conversation([replace(prompt, output=each)]) for each in ([], prompt.output)]
    next_day = [each.begin(UserMessage.of("on")).at_ms for each in resumed]

    assert [message.timestamp for message in conversation.messages()] == [1_000, 1_000, 2_000]
    assert next_day == [1_000, 2_000]


@each_row(
    ("before", "after"),
    [*itertools.product(["running", "waiting_for_approval", "completed"], repeat=2)],
)
def test_prompt_allows_only_the_documented_state_transitions(
    before: PromptState, after: PromptState
) -> None:
    """S2-37: try all nine pairs of states."""
    conversation = Conversation([Prompt("p", "local", "normal", 1, state=before)])
    allowed = {
        ("running", "running"),
        ("running", "waiting_for_approval"),
        ("waiting_for_approval", "running"),
        ("running", "completed"),
    }

    if (before, after) in allowed:
        conversation.set_state(after)
        assert conversation.prompts[0].state == after
    else:
        with pytest.raises(ConversationError, match=f"from {before} to {after}"):
            conversation.set_state(after)
        assert conversation.prompts[0].state == before


def test_the_record_can_be_rebuilt_from_its_events() -> None:
    """S2-24, S2-26, S2-45: each change is published, completion once."""
    prompts: dict[str, list[Output]] = {}
    completed: list[str] = []

    def follow(event: Event) -> None:
        match event:
            case PromptStarted():
                prompts[event.prompt.id] = []
            case PromptOutput(replaced=True):
                prompts[event.prompt_id][event.index] = event.output
            case PromptOutput():
                prompts[event.prompt_id].insert(event.index, event.output)
            case PromptCompleted():
                completed.append(event.prompt_id)
            case _:
                pass

    conversation = Conversation()
    conversation.publish = follow
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1"), tool_use("look", {}, "t2")))
    conversation.start_call("t1")
    conversation.attach(FileOutput("f", 1, "t1", "/a", "text/plain", "a file"))
    conversation.settle_call("t2", OK)
    conversation.settle_call("t1", OK)
    conversation.note(CustomMessage("note", 1))
    conversation.complete()
    conversation.complete()

    assert prompts == {prompt.id: prompt.output for prompt in conversation.prompts}
    assert completed == [conversation.prompts[0].id]


def test_side_outputs_follow_their_call_in_order_of_arrival() -> None:
    """S2-39: entries appended in the meantime come after them."""
    conversation = asked("t1", "t2")
    conversation.attach(FileOutput("f2", 1, "t2", "/b", "text/plain", "b"))
    conversation.attach(FileOutput("f1", 1, "t1", "/a", "text/plain", "a"))
    conversation.attach(WidgetOutput("w1", 1, "t1", "chart", None, "a chart"))

    order = [output.id for output in conversation.prompts[0].output]

    assert [id for id in order if len(id) == 2] == ["f1", "w1", "f2"]
    assert [call.tool_call_id for call in conversation.open_calls()] == ["t1", "t2"]


def test_usage_is_the_sum_over_replies_and_prompts() -> None:
    """S2-41: discarded replies and summaries cost as well."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("a"))
    conversation.add_reply(says("b", usage=Usage(1, 2, 3, 4, 5, 6)))
    conversation.begin(UserMessage.of("c"))
    conversation.discard_reply("d", "refusal", usage=Usage(10, 20, 30, 40, 50, 60))
    conversation.add_usage(Usage(100, 200, 300, 400, 500, 600))

    assert conversation.usage == Usage(111, 222, 333, 444, 555, 666)
    assert conversation.prompts[-1].usage == Usage(110, 220, 330, 440, 550, 660)


def test_only_the_first_decision_about_a_pending_question_counts() -> None:
    """S2-32, S2-51: no decision is accepted for a deferred call."""
    conversation = asked("t1", "t2")
    conversation.pause({"t1": "sure?"})

    assert [call.tool_call_id for call in conversation.questions()] == ["t1"]
    assert conversation.waiting
    assert not conversation.decide_call("t2", "approved")
    assert conversation.decide_call("t1", "rejected", "no")
    assert not conversation.decide_call("t1", "approved")

    call = conversation.call("t1")
    assert (call.decision, call.result) == ("rejected", Pending("queued", "no"))
    assert (call.asked_reason, conversation.call("t2").asked_reason) == ("sure?", None)


def test_new_prompt_closes_calls_left_open_by_the_last_one() -> None:
    """S0-58: every conversation can be sent, whatever happened before."""
    conversation = asked("t1")

    conversation.begin(UserMessage.of("never mind"))

    context = [m for m in conversation.context() if not isinstance(m, CustomMessage)]
    assert problems(to_api(context)) == []


# A caller's own history.


HISTORY: list[Message] = [
    UserMessage.of("a"),
    AssistantMessage((text_block("b"), tool_use("look", {}, "t1")), "tool_use"),
    ToolResultMessage("t1", "look", (text_block("tree"),), details={"n": 1}),
    AssistantMessage((text_block("c"),), "end_turn"),
    CustomMessage("note", {"x": 1}),
    UserMessage.of("d"),
]


def test_imported_history_is_kept_unchanged() -> None:
    """S0-58, S3-16: the same kinds of messages with the same content."""
    shown = conversation_of(HISTORY).messages()

    assert [type(message) for message in shown] == [type(message) for message in HISTORY]
    assert [getattr(m, "content", getattr(m, "data", None)) for m in shown] == [
        getattr(m, "content", getattr(m, "data", None)) for m in HISTORY
    ]


@each_row("length", range(1, len(HISTORY) + 1))
def test_history_truncated_at_any_message_is_valid(length: int) -> None:
    """S0-58, C7: the history may end between a call and its result."""
    conversation = conversation_of(HISTORY[:length])
    append(conversation, UserMessage.of("next"))

    context = [m for m in conversation.context() if not isinstance(m, CustomMessage)]

    assert problems(to_api(context)) == []


def test_history_may_begin_with_an_assistant_message() -> None:
    """S1-31: the API requires the user first, so a placeholder goes before it."""
    conversation = conversation_of([AssistantMessage((text_block("Welcome"),))])
    append(conversation, UserMessage.of("Hi"))

    context = [m for m in conversation.context() if not isinstance(m, CustomMessage)]

    assert problems(to_api(context)) == []

    outputs = [output for prompt in conversation.prompts for output in prompt.output]
    replies = [output for output in outputs if isinstance(output, ReplyOutput)]
    assert [reply.message_id for reply in replies] == [
        ""
    ]  # the API knows no message by another name


def test_imported_result_without_a_matching_call_is_refused() -> None:
    """S0-58: the error names the result's id and the open calls."""
    with pytest.raises(ConversationError, match=r"'t9'.*t1"):
        conversation_of([*HISTORY[:2], ToolResultMessage("t9", "look", ())])


@each_row("asks_person", [True, False])
def test_started_question_waits_for_its_answer(asks_person: bool) -> None:
    """S0-34: after a kill it is asked again, where any other call may have had an effect."""
    conversation = asked("t1")

    conversation.start_call("t1", asks_person=asks_person)

    [call] = conversation.open_calls()
    assert call.started_at_ms
    assert (call.result == Pending("approval", UNANSWERED_QUESTION)) is asks_person


def test_started_call_is_no_question_unless_its_tool_is_one() -> None:
    """A person must not be asked to decide about what may have run."""
    conversation = asked("t1")

    conversation.start_call("t1")

    assert conversation.questions() == []
    assert [call.tool_call_id for call in conversation.open_calls()] == ["t1"]


def test_a_note_in_a_new_conversation_does_not_begin_the_first_prompt() -> None:
    """What is written before anybody asked is complete: the first message is no steering."""
    conversation = Conversation()
    conversation.note(CustomMessage("note", 1))

    conversation.add_user(UserMessage.of("go"))

    assert [prompt.visible for prompt in conversation.prompts] == [False, True]
    assert [prompt.state for prompt in conversation.prompts] == ["completed", "running"]


def test_a_prompt_that_asked_nothing_and_ended_is_not_sent() -> None:
    """Nor is it a message of the program in its place."""
    conversation = Conversation()
    conversation.begin(visible=False)
    running = conversation.context()
    conversation.complete()

    assert (len(running), conversation.context()) == (1, [])


def test_projection_follows_every_change() -> None:
    """It is kept between two changes only, whichever they are."""
    conversation = asked("t1")
    before = conversation.context()
    conversation.note(CustomMessage("note", 1))
    conversation.settle_call("t1", OK)
    after = conversation.context()

    assert [type(each).__name__ for each in before[-1:]] != ["ToolResultMessage"]
    assert {type(each).__name__ for each in after[-2:]} == {"ToolResultMessage", "CustomMessage"}
    assert conversation.context() == after
