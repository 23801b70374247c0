"""The result of a run, and the slot it holds."""

import asyncio
import errno
import threading

import pytest

from agent_cli.contracts import events
from agent_cli.contracts.errors import AgentBusy, AgentCliError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.core.run import RunResult, RunSlot, Tally
from tests.fakes import LIMIT_S

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


def test_each_holder_has_its_own_token_and_releases_after_an_error() -> None:
    slot = RunSlot()
    with pytest.raises(ValueError, match="broken"), slot.claimed() as first:
        with pytest.raises(AgentBusy), slot.claimed():
            pass
        slot.cancel()
        raise ValueError("broken")
    slot.require_free()
    slot.cancel()

    with slot.claimed() as second:
        assert (first.cancelled, second.cancelled) == (True, False)


def test_of_many_threads_one_gets_the_slot() -> None:
    slot, together, held = RunSlot(), threading.Barrier(8), threading.Barrier(8)
    outcomes: list[bool] = []

    def claim() -> None:
        together.wait(LIMIT_S)
        try:
            with slot.claimed():
                held.wait(LIMIT_S)
                outcomes.append(True)
        except AgentBusy:
            outcomes.append(False)
            held.wait(LIMIT_S)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)

    assert sorted(outcomes) == [False] * 7 + [True]


async def test_a_wait_ends_with_the_release() -> None:
    slot = RunSlot()
    await asyncio.wait_for(slot.wait(), LIMIT_S)
    with slot.claimed():
        waiting = asyncio.ensure_future(slot.wait())
        await asyncio.sleep(0)
        assert not waiting.done()

    await asyncio.wait_for(waiting, LIMIT_S)


def test_an_interruption_cancels_the_holder_and_is_raised_at_its_end() -> None:
    slot, order = RunSlot(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        slot.interrupt(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt), slot.claimed() as token:
        slot.interrupt(KeyboardInterrupt())
        order.append(f"cancelled: {token.cancelled}")

    assert order == ["cancelled: True"]
    slot.require_free()
