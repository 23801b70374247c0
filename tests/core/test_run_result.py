"""The result of a run follows from its events."""

import errno

from agent_cli.contracts import events
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.core.run_result import RunResult, Tally

USER = UserMessage.of("go")
FIRST = AssistantMessage((text_block("one"),), "tool_use")
SECOND = AssistantMessage((text_block("two"),))
NOTE = CustomMessage("limit", {"text": "enough"})


def test_tally_passes_events_on_in_order_and_keeps_ended_messages() -> None:
    """S0-07, S0-09: a message without an end is not kept."""
    passed: list[Event] = []
    tally = Tally(passed.append)
    told: list[Event] = [
        events.AgentStart(),
        events.MessageStart(USER),
        events.MessageEnd(USER),
        events.MessageStart(FIRST),
    ]

    for event in told:
        tally(event)

    assert passed == told
    assert tally.messages == [USER]
    assert tally.message is None


def test_next_turn_clears_the_reply_of_the_last_one() -> None:
    """S0-10: a turn without a reply has none, even after one with a reply."""
    tally = Tally(lambda _event: None)
    tally(events.TurnStart())
    tally(events.MessageEnd(FIRST))
    tally(events.MessageEnd(USER))
    replies = [tally.message]

    tally(events.TurnStart())
    replies.append(tally.message)

    assert replies == [FIRST, None]
    assert tally.messages == [FIRST, USER]


def test_the_final_message_is_the_last_reply() -> None:
    """S0-07: a later note does not count; without a reply it is None."""
    tally = Tally(lambda _event: None)
    assert tally.result("aborted", None) == RunResult((), None, 0, "aborted", None)
    for message in (USER, FIRST, SECOND, NOTE):
        tally(events.MessageEnd(message))
    tally.iterations = 2

    assert tally.result("max_rounds", "enough") == RunResult(
        (USER, FIRST, SECOND, NOTE), SECOND, 2, "max_rounds", "enough"
    )


def test_what_ended_a_run_is_in_its_result_by_kind_and_in_words() -> None:
    """S1-15: a program that calls us decides by the kind; a person reads the sentence."""
    tally = Tally(lambda _event: None)
    full = AgentCliError("the session cannot be written")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")

    result = tally.result(*tally.ended_by(full))

    assert (result.stop_reason, result.error) == ("error", "the session cannot be written")
    assert result.trouble == "disk"
