"""A run: the phase machine of document S4 with all transitions and guards, the result, the slot."""

import asyncio
import errno
import itertools
import threading

import pytest

from agent_cli.contracts import events
from agent_cli.contracts.errors import SEND_A_MESSAGE, AgentBusy, AgentCliError, ConversationError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.run import ChatStateMachine, Phase, RunResult, RunSlot, Tally
from tests.fakes import LIMIT_S
from tests.tables import each_row

DOCUMENTED = {
    ("idle", "thinking"),
    ("thinking", "planning_tools"),
    ("thinking", "responding"),
    ("planning_tools", "executing_tools"),
    ("executing_tools", "thinking"),
    ("executing_tools", "responding"),
    ("responding", "done"),
    *((phase, "error") for phase in Phase),
}
ADDED = {
    ("done", "idle"),  # a REPL continues
    ("error", "idle"),
    ("idle", "planning_tools"),  # a run that resumes an approved batch
    ("responding", "thinking"),  # a paused or steered answer continues
}


def machine_in(phase: Phase) -> tuple[ChatStateMachine, list[tuple[str, str]]]:
    changes: list[tuple[str, str]] = []
    machine = ChatStateMachine(lambda before, after: changes.append((before, after)))
    machine.phase = phase
    return machine, changes


def test_there_are_seven_phases_and_the_first_is_idle() -> None:
    """S4-04: their names are those of the document."""
    assert set(Phase) == {
        "idle",
        "thinking",
        "planning_tools",
        "executing_tools",
        "responding",
        "done",
        "error",
    }
    assert ChatStateMachine().phase is Phase.IDLE


@each_row(("before", "after"), [*itertools.product(Phase, Phase)])
def test_only_documented_phase_transitions_are_allowed(before: Phase, after: Phase) -> None:
    """Each of the 49 pairs; an allowed one is published once, with both phases.

    S4-05, S4-06, S4-07, S4-08, S4-09, S4-10, S4-11, S4-12, S4-13, S4-24, C13.
    """
    machine, changes = machine_in(before)

    if (before, after) in DOCUMENTED | ADDED:
        assert machine.can_go(after)
        machine.go(after)
        assert (machine.phase, changes) == (after, [(before, after)])
    else:
        assert not machine.can_go(after)
        with pytest.raises(ConversationError, match=f"from {before} to {after}"):
            machine.go(after)
        assert (machine.phase, changes) == (before, [])


GUARDS = {  # may stream content, may execute tools, may show thinking
    "idle": (False, False, False),
    "thinking": (False, False, True),
    "planning_tools": (False, False, True),
    "executing_tools": (False, True, False),
    "responding": (True, False, False),
    "done": (False, False, False),
    "error": (False, False, False),
}


@each_row("phase", Phase)
def test_phase_guards_match_the_documented_tables(phase: Phase) -> None:
    """S4-14, S4-15, S4-16: streaming content, executing tools, showing thinking."""
    machine, _ = machine_in(phase)

    guards = (machine.can_stream_content, machine.can_execute_tools, machine.can_show_thinking)

    assert guards == GUARDS[phase.value]


@each_row(
    ("phase", "through"),
    [
        ("idle", ["error", "idle"]),  # a limit, before anything was asked
        ("thinking", ["responding", "done", "idle"]),
        ("executing_tools", ["responding", "done", "idle"]),
        ("responding", ["done", "idle"]),
    ],
)
def test_successful_end_reaches_idle_through_documented_phases(
    phase: str, through: list[str]
) -> None:
    """S4-10, S4-11, C13: a run may end after its tools, or at a limit before its first call."""
    machine, changes = machine_in(Phase(phase))

    machine.end(failed=False)

    assert changes == list(zip([phase, *through], through, strict=False))
    assert machine.phase is Phase.IDLE


@each_row("phase", [phase for phase in Phase if phase != "error"])
def test_failed_run_reaches_idle_through_error_from_every_phase(phase: Phase) -> None:
    """S4-12, C13: so that the next prompt can run."""
    machine, changes = machine_in(phase)

    machine.end(failed=True)

    assert changes == [(phase, "error"), ("error", "idle")]


USER = UserMessage.of("go")
FIRST = AssistantMessage((text_block("one"),), "tool_use")
SECOND = AssistantMessage((text_block("two"),))
NOTE = CustomMessage("limit", {"text": "enough"})


def test_tally_passes_events_on_in_order_and_keeps_ended_messages() -> None:
    """S0-07, S0-09: a message without an end is not kept."""
    passed: list[Event] = []
    tally = Tally(passed.append, Conversation())
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
    tally = Tally(lambda _event: None, Conversation())
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
    tally = Tally(lambda _event: None, Conversation())
    assert tally.result("aborted", None) == RunResult((), None, 0, "aborted", None)
    for message in (USER, FIRST, SECOND, NOTE):
        tally(events.MessageEnd(message))
    tally.iterations = 2

    assert tally.result("max_rounds", "enough") == RunResult(
        (USER, FIRST, SECOND, NOTE), SECOND, 2, "max_rounds", "enough"
    )


def test_the_ending_of_a_run_invites_nobody_to_send_a_message() -> None:
    """A script, a caller of `mcp serve` and the agent above cannot send one."""
    limit = "stopped after round 3, the limit max_rounds"

    ended = [RunResult((), None, 3, "max_rounds", each) for each in (limit + SEND_A_MESSAGE, None)]

    assert [each.ending for each in ended] == [limit, "max_rounds"]


def test_what_ended_a_run_is_in_its_result_by_kind_and_in_words() -> None:
    """S1-15: a program that calls us decides by the kind; a person reads the sentence."""
    tally = Tally(lambda _event: None, Conversation())
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
