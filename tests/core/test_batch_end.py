"""The end of a run that did not come to its prompts or calls. S0-39, S0-58."""

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, LimitReached
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import Incoming, UserMessage
from agent_cli.core.batch_end import give_up
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from tests.fakes import calls, outline, tool_use, users
from tests.tables import each_row


def turn_of(conversation: Conversation) -> tuple[Turn, list[Event]]:
    events: list[Event] = []
    turn = Turn(LoopConfig(), conversation, events.append, CancelToken(), ChatStateMachine(), False)
    return turn, events


@each_row(
    ("prompts", "has_turn", "told"),
    [
        ([UserMessage.of("go")], False, ["turn_start", "message_start user", "message_end user"]),
        ([UserMessage.of("go")], True, []),
        ([], False, ["turn_start"]),
    ],
)
def test_unread_prompts_are_recorded_in_the_first_turn(
    prompts: list[Incoming], has_turn: bool, told: list[str]
) -> None:
    """Every run has a turn; prompts that a turn took in are not recorded again."""
    conversation = Conversation()
    turn, events = turn_of(conversation)

    give_up(turn, prompts, Aborted(), has_turn=has_turn)

    assert outline(events) == [*told, "turn_end"] * bool(told)
    assert users(conversation.messages()) == ["go"] * (len(told) == 3)


def test_calls_without_a_result_get_one_and_then_the_limit_is_noted() -> None:
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    turn, events = turn_of(conversation)

    give_up(turn, [], LimitReached("too many rounds", limit="max_rounds"), has_turn=True)

    assert conversation.open_calls() == []
    assert [name for name in outline(events) if name.startswith(("turn", "message_end"))] == [
        *("turn_start", "message_end toolResult t1", "turn_end"),
        "message_end limit",
    ]


def test_calls_that_wait_for_a_person_stay_open() -> None:
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    conversation.pause({"t1": "?"})
    turn, events = turn_of(conversation)

    give_up(turn, [], Aborted(), has_turn=True)

    assert (events, len(conversation.questions())) == ([], 1)
