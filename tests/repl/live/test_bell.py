"""The bell at the end of a long run, for a user who looked away."""

import pytest

from agent_cli.contracts.events import AgentEnd, AgentStart
from agent_cli.repl.live.bell import LONG_S, Bell


@pytest.mark.parametrize(("took_s", "rings"), [(LONG_S, 0), (LONG_S + 0.1, 1)])
def test_bell_rings_only_after_a_long_run(took_s: float, rings: int) -> None:
    """Longer than ten seconds; each run counts separately."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell(AgentEnd((), "end_turn"))
    bell(AgentStart())
    now_s += took_s
    bell(AgentEnd((), "end_turn"))
    now_s += 60
    bell(AgentEnd((), "end_turn"))

    assert rung == ["agent-cli: the run has ended"] * rings


def test_bell_of_a_run_that_stops_to_ask_says_that_a_question_waits() -> None:
    """The notification must not claim that the run has ended: it waits for a decision."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell(AgentStart())
    now_s += LONG_S + 1
    bell(AgentEnd((), "waiting_for_approval"))

    assert rung == ["agent-cli: a question waits"]


def test_bell_rings_for_a_question_in_a_long_run_but_not_at_an_idle_prompt() -> None:
    """A server asks during a call; at an idle prompt the user is present."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell.question()
    bell(AgentStart())
    bell.question()
    now_s += LONG_S + 1
    bell.question()

    assert rung == ["agent-cli: a question waits"]
