"""The phase state machine of document S4: all transitions and guards."""

import itertools

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.core.phase import ChatStateMachine, Phase

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


@pytest.mark.parametrize(("before", "after"), [*itertools.product(Phase, Phase)])
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


@pytest.mark.parametrize("phase", Phase)
def test_phase_guards_match_the_documented_tables(phase: Phase) -> None:
    """S4-14, S4-15, S4-16: streaming content, executing tools, showing thinking."""
    machine, _ = machine_in(phase)

    guards = (machine.can_stream_content, machine.can_execute_tools, machine.can_show_thinking)

    assert guards == GUARDS[phase.value]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase != "error"])
def test_failed_run_reaches_idle_through_error_from_every_phase(phase: Phase) -> None:
    """S4-12, C13: so that the next prompt can run."""
    machine, changes = machine_in(phase)

    machine.end(failed=True)

    assert changes == [(phase, "error"), ("error", "idle")]
