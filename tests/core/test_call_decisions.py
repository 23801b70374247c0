"""The user's decisions about pending calls."""

from dataclasses import replace
from typing import Literal

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import Notice, ToolCall
from agent_cli.contracts.timeline import Error, text_block
from agent_cli.contracts.tooling import Approval, ToolContext
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import (
    STOPPED,
    apply_decisions,
    decline_and_stop,
    record_decision,
    unwanted_because,
)
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import (
    ScriptedModel,
    calls,
    returns,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
)
from tests.tables import each_row


async def test_declining_answers_the_calls_without_asking_the_model_again() -> None:
    """The record stays valid for the API, and the user gets the prompt back."""
    asking = replace(tool("danger", returns("boom")), require_approval=Approval(required=True))
    agent, model, events = scripted_agent(calls(tool_use("danger", {})), says("ok"), tools=[asking])
    await agent.prompt("go")

    await decline_and_stop(agent, ["t1"])

    assert len(model.requests) == 1
    said = Error((text_block(STOPPED),))
    assert agent.conversation.call("t1").result == said
    told = len(events)
    await agent.prompt("something else")
    assert not any(isinstance(event, Notice) for event in events[told:])


@each_row("approval", ["defer", "batch"])
async def test_call_deferred_by_a_declined_call_is_answered_as_not_run(
    approval: Literal["defer", "batch"],
) -> None:
    """S0-51: the user was never asked about that call; the record needs no repair."""
    asking = replace(tool("danger", returns("boom")), require_approval=Approval(required=True))
    agent, _, events = scripted_agent(
        calls(tool_use("danger", {}, "t1"), tool_use("look", {}, "t2")),
        says("ok"),
        tools=[asking, tool("look", returns("seen"))],
        options=LoopConfig(approval=approval),
    )
    await agent.prompt("go")

    await decline_and_stop(agent, [call.tool_call_id for call in agent.conversation.questions()])

    assert texts(agent.state.messages) == {
        "t1": STOPPED,
        "t2": "Not run: the run was stopped before its turn.",
    }
    told = len(events)
    await agent.prompt("something else")
    assert not any(isinstance(event, Notice) for event in events[told:])


def _two_waiting() -> tuple[Agent, ScriptedModel, list[str]]:
    """Return an agent whose model makes two calls that ask, and the inputs that were run."""
    ran: list[str] = []

    async def execute(_id: str, given: dict[str, str], _c: CancelToken, _u: ToolContext) -> str:
        ran.append(given["path"])
        return "done"

    asking = replace(tool("danger", execute), require_approval=Approval(required=True))
    uses = [tool_use("danger", {"path": path}, id) for path, id in (("a", "t1"), ("b", "t2"))]
    agent, model, _ = scripted_agent(calls(*uses), says("ok"), tools=[asking])
    return agent, model, ran


async def test_prompt_before_the_decision_is_refused_and_names_pending_calls() -> None:
    """S2-33: the user has to decide about those calls first."""
    agent, model, _ = _two_waiting()
    await agent.prompt("go")

    with pytest.raises(ConversationError) as refused:
        await agent.prompt("and?")

    assert str(refused.value) == "a decision is due first: approve or reject t1, t2"
    assert len(model.requests) == 1


@each_row(
    ("decisions", "ran", "requests"),
    [
        ([Approved(), Rejected("use uv")], ["a"], 2),
        ([Approved({"path": "c"}), Approved()], ["c", "b"], 2),
        ([Rejected("no"), Rejected(STOPPED, stop=True)], [], 1),
    ],
)
async def test_decisions_are_applied_to_their_calls_before_the_run_resumes(
    decisions: list[Decision], ran: list[str], requests: int
) -> None:
    """Every front end decides through this function; a decision that stops ends the run."""
    agent, model, has_run = _two_waiting()
    await agent.prompt("go")
    waiting = [ToolCall.of(call) for call in agent.conversation.questions()]

    result = await apply_decisions(agent, waiting, decisions)

    assert sorted(has_run) == sorted(ran)
    assert len(model.requests) == requests
    assert result.stop_reason == ("end_turn" if requests == 2 else "aborted")
    assert not agent.conversation.waiting


@each_row("recorded", [0, 1])
async def test_a_decision_recorded_while_another_call_waits_is_applied_with_the_last(
    recorded: int,
) -> None:
    """A program that is killed between the two asks about the other one only."""
    agent, _, ran = _two_waiting()
    await agent.prompt("go")
    waiting = [ToolCall.of(call) for call in agent.conversation.questions()]
    decisions: list[Decision] = [Approved({"path": "c"}), Rejected("use uv")]

    record_decision(agent, waiting[recorded], decisions[recorded])
    left = [ToolCall.of(call) for call in agent.conversation.questions()]
    result = await apply_decisions(agent, waiting, decisions)

    assert left == [waiting[1 - recorded]]
    assert (ran, result.stop_reason) == (["c"], "end_turn")
    assert texts(agent.state.messages)["t2"] == "use uv"


@each_row("recorded", [0, 1])
async def test_a_call_that_was_allowed_does_not_run_if_the_user_stops_at_the_next(
    recorded: int,
) -> None:
    """Ctrl-C stops the run: nothing of it goes on."""
    agent, model, ran = _two_waiting()
    await agent.prompt("go")
    waiting = [ToolCall.of(call) for call in agent.conversation.questions()]
    record_decision(agent, waiting[recorded], Approved())

    result = await apply_decisions(agent, waiting, [Rejected(STOPPED, stop=True)] * 2)

    assert (ran, len(model.requests), result.stop_reason) == ([], 1, "aborted")
    assert not agent.conversation.open_calls()


async def test_declining_no_calls_aborts_without_a_run() -> None:
    """The abort holds even if every call was decided in the meantime."""
    agent, model, events = scripted_agent()

    result = await decline_and_stop(agent, [])

    assert (result.stop_reason, result.iterations, result.messages) == ("aborted", 0, ())
    assert (events, model.requests) == ([], [])


def test_rejection_comment_is_passed_on_as_the_users_words() -> None:
    """S2-33: the model reads the reason, and that the user gave it."""
    assert unwanted_because("use uv").endswith("does not want this call to run and says: use uv")
