"""A person's decisions about waiting calls: record and apply them, and answer the model."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from agent_cli.contracts.dialogs import Approved, Decision
from agent_cli.contracts.events import (
    AgentStart,
    Event,
    ToolCall,
    ToolExecutionEnd,
    ToolExecutionStart,
    innermost,
)
from agent_cli.contracts.timeline import Json
from agent_cli.core.agent import Agent
from agent_cli.core.run import RunResult

UNWANTED: Final = "The user does not want this call to run. Do not try it again in another form."
STOPPED: Final = "The user stopped here instead of answering."
AGENT_STOPPED: Final = "The user stopped this agent. Do not start it again unless they ask for it."
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
    "This call needs a person's approval and nobody can be asked here. Go on without it, and say"
    " at the end what was left out."
)
REFUSALS_MAX: Final = 10
"""A run ends after so many refusals without a person: the model might call for ever."""
SAYING: Final = "The user does not want this call to run and says: "


class DeniedCalls:
    """Finds the calls that a rule, a hook or the mode denied in the events of a run, in order."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._input: Json = None

    def ended_by(self, event: Event) -> ToolCall | None:
        """Return the call that *event* ends, with the reason, if it was denied."""
        inner = innermost(event)
        if isinstance(inner, ToolExecutionStart):
            self._input = inner.args  # The end of a call that never runs comes right behind it.
        elif isinstance(inner, ToolExecutionEnd) and inner.result.is_denied:
            return ToolCall(inner.tool_call_id, inner.tool_name, self._input, inner.result.text)
        return None


def closed_after(answered: Iterable[tuple[str, str]]) -> str:
    """Return the model's result when the user closes a question after the *answered* ones."""
    pairs = [f"{question}\n→ {answer}" for question, answer in answered]
    return "\n".join([CLOSED, *(["They had answered:", *pairs] if pairs else ())])


def unwanted_because(comment: str) -> str:
    """Return the model's result when the user answers with *comment* instead of yes or no."""
    return f"{SAYING}{comment}"


def record_decision(agent: Agent, call: ToolCall, decision: Decision) -> None:
    """Record the decision about *call* while others still wait, so that no kill loses it.

    The last one is left to `apply_decisions`, which resumes the run with it.
    """
    if _waiting(agent) == {call.id}:
        return
    if isinstance(decision, Approved):
        agent.conversation.decide_call(call.id, "approved", edited=decision.edited)
    else:
        agent.conversation.decide_call(call.id, "rejected", decision.reason)


async def decisions_about(
    agent: Agent,
    calls: Iterable[ToolCall],
    decide: Callable[[ToolCall], Awaitable[Decision]],
) -> list[Decision]:
    """Return the decision of *decide* about each of *calls*, in order, recorded at once."""
    decisions: list[Decision] = []
    for call in calls:
        decisions.append(await decide(call))
        record_decision(agent, call, decisions[-1])
    return decisions


async def apply_decisions(
    agent: Agent, calls: Sequence[ToolCall], decisions: Sequence[Decision]
) -> RunResult:
    """Approve or reject each of *calls* and resume the run; a decision that stops ends it.

    Args:
        agent: The agent whose run waits.
        calls: All calls that waited; at least one still waits, and the others are recorded.
        decisions: One for each call, in the same order.
    """
    result: RunResult | None = None
    waiting = _waiting(agent)
    for call, decision in zip(calls, decisions, strict=True):
        if call.id not in waiting:
            continue
        if isinstance(decision, Approved):
            result = await agent.approve(call.id, edited=decision.edited)
        elif decision.stop:
            return await decline_and_stop(agent, [each.id for each in calls])
        else:
            result = await agent.reject(call.id, decision.reason)
    assert result is not None, "a run that waits has a call to decide about"
    return result


async def decline_and_stop(agent: Agent, call_ids: Iterable[str]) -> RunResult:
    """Reject every waiting call, and end the run without another model call.

    A call that was approved does not run.
    """
    unsubscribe = agent.subscribe(partial(_stop_at_start, agent))
    result = RunResult((), None, 0, "aborted")
    waiting = _waiting(agent)
    try:
        for call_id in call_ids:
            if call_id in waiting:
                result = await agent.reject(call_id, STOPPED)
        return result
    finally:
        unsubscribe()


def _waiting(agent: Agent) -> set[str]:
    return {call.tool_call_id for call in agent.conversation.questions()}


def _stop_at_start(agent: Agent, event: Event) -> None:
    """Abort the run, which began only to record a rejection."""
    if isinstance(event, AgentStart):
        agent.abort()
