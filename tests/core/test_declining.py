"""A person's no to all that waits."""

from dataclasses import replace

from agent_cli.contracts.events import Notice
from agent_cli.contracts.timeline import Error, text_block
from agent_cli.contracts.tooling import Approval
from agent_cli.core.declining import STOPPED, decline_and_stop, unwanted_because
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use


async def test_declined_calls_are_answered_and_the_model_is_not_asked_again() -> None:
    """The record stays one that the API accepts, and the person has the prompt back."""
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


async def test_nothing_to_decline_is_an_abort_without_a_run() -> None:
    """Whoever stopped has stopped, whatever had been decided by then."""
    agent, model, events = scripted_agent()

    result = await decline_and_stop(agent, [])

    assert (result.stop_reason, result.iterations, result.messages) == ("aborted", 0, ())
    assert (events, model.requests) == ([], [])


def test_a_comment_is_passed_on_as_the_persons_words() -> None:
    """S2-33: the model reads why, and whose words they are."""
    assert unwanted_because("use uv").endswith("does not want this call to run and says: use uv")
