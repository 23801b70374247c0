"""A person's no to what the model wants: the sentences it reads, and how a run ends."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from agent_cli.contracts.events import AgentStart, Event
from agent_cli.core.agent import Agent
from agent_cli.core.run_result import RunResult

UNWANTED: Final = "The user does not want this call to run. Do not try it again in another form."
STOPPED: Final = "The user stopped here instead of answering."
CLOSED: Final = (
    "The user closed the question without an answer. Do not ask it again: end your reply, and say"
    " what you need to know."
)
UNDECIDED: Final = (
    "The user did not approve the plan. Plan mode stays on: end your reply and wait for them."
)
CHANGE_PLAN: Final = (
    "The user did not approve the plan. Plan mode stays on: change the plan and present it again."
    " They say: "
)
NOBODY_ALLOWS: Final = (
    "This call needs a person's approval and nobody can be asked in this run. Go on without it, and"
    " say at the end what was left out."
)
REFUSALS_MAX: Final = 10
"""Refusals for want of a person, after which a run ends: a refused model may ask for ever."""
SAYING: Final = "The user does not want this call to run and says: "


def unwanted_because(comment: str) -> str:
    """Return what the model reads when somebody says *comment* instead of yes or no."""
    return f"{SAYING}{comment}"


async def decline_and_stop(agent: Agent, call_ids: Iterable[str]) -> RunResult:
    """Answer every waiting call with no, and do not ask the model again."""
    unsubscribe = agent.subscribe(partial(_stop_at_start, agent))
    result = RunResult((), None, 0, "aborted")
    try:
        for call_id in call_ids:
            result = await agent.reject(call_id, STOPPED)
        return result
    finally:
        unsubscribe()


def _stop_at_start(agent: Agent, event: Event) -> None:
    """Abort the run that begins only to record a rejection."""
    if isinstance(event, AgentStart):
        agent.abort()
