"""The bell at the end of a long run, for a user who looked away."""

import pytest

from agent_cli.contracts.events import AgentEnd, AgentStart
from agent_cli.repl.live.bell import LONG_S, Bell


@pytest.mark.parametrize(("took_s", "rings"), [(LONG_S, 0), (LONG_S + 0.1, 1)])
def test_only_a_long_run_rings(took_s: float, rings: int) -> None:
    """Ten seconds; each run by itself."""
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


def test_a_run_that_stops_to_ask_says_so() -> None:
    """It has not ended for whoever reads the notification: somebody has to decide."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell(AgentStart())
    now_s += LONG_S + 1
    bell(AgentEnd((), "waiting_for_approval"))

    assert rung == ["agent-cli: a question waits"]


def test_a_question_in_a_long_run_rings_and_one_while_nothing_runs_does_not() -> None:
    """A server asks in the middle of a call; nobody looked away from an idle prompt."""
    rung: list[str] = []
    now_s = 0.0
    bell = Bell(rung.append, lambda: now_s)

    bell.question()
    bell(AgentStart())
    bell.question()
    now_s += LONG_S + 1
    bell.question()

    assert rung == ["agent-cli: a question waits"]
