"""The limit on a run's cost."""

from dataclasses import replace

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import Usage, text_block
from agent_cli.contracts.tooling import Approval
from agent_cli.core.api_messages import problems, to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.budget import Budget
from tests.fakes import MODEL, returns, scripted_agent, tool, tool_use
from tests.policies.histories import Listener, llm, turn_of


def priced(microdollars: int | None, *, call: str | None = None) -> Reply:
    """Return a reply that cost so much, and asks for a tool if *call* is its id."""
    content = (text_block("so"), *([tool_use("look", id=call)] if call else []))
    usage = Usage(10, 5, cost_microdollars=microdollars)
    return Reply("msg", MODEL.id, content, "tool_use" if call else "end_turn", usage)


def conversation_that_cost(*microdollars: int | None) -> Conversation:
    conversation = Conversation()
    for cost in microdollars:
        conversation.begin(UserMessage.of("go"))
        conversation.add_reply(priced(cost))
    conversation.begin(UserMessage.of("last"))
    return conversation


async def test_a_run_ends_with_its_own_stop_reason_when_it_has_cost_enough() -> None:
    """S0-26: as with the limit of rounds, a call more than allowed is not made; history valid."""
    agent, model, _ = scripted_agent(
        priced(400_000, call="t1"),
        priced(600_000, call="t2"),
        priced(1),
        tools=[tool("look", returns("a tree"))],
        options=LoopConfig(prepare=[Budget(max_cost_usd=1)]),
    )

    result = await agent.prompt("go")

    assert (result.stop_reason, result.iterations) == ("max_cost", 2)
    assert result.error == (
        "cost limit reached: $1.00 of $1 (max_cost); send a message to continue"
    )
    assert len(model.requests) == 2
    assert problems(to_api(llm(agent.conversation.context()))) == []


def test_who_spends_beside_the_model_calls_can_ask_first() -> None:
    """Before the first run nothing is spent; without a limit there is nothing to ask."""
    conversation = conversation_that_cost(5_000_000)
    budget, unlimited = Budget(max_cost_usd=1), Budget(max_cost_usd=0)
    for each in (budget, unlimited):
        each.check()
        each(turn_of(conversation))
        each.check()
    conversation.add_usage(Usage(cost_microdollars=1_000_000))

    unlimited.check()
    with pytest.raises(LimitReached):
        budget.check()


async def test_each_run_has_the_whole_limit() -> None:
    """What earlier runs cost is the base, so that the user can go on."""
    agent, model, _ = scripted_agent(
        priced(900_000),
        priced(900_000),
        options=LoopConfig(prepare=[Budget(max_cost_usd=1)]),
    )

    await agent.prompt("one")
    result = await agent.prompt("two")

    assert result.stop_reason == "end_turn"
    assert len(model.requests) == 2


async def test_a_run_that_goes_on_with_a_prompt_has_the_whole_limit_too() -> None:
    """After a decision the prompt is the same, but not the run."""
    asks = replace(tool("look", returns("a tree")), require_approval=Approval(required=True))
    agent, _, _ = scripted_agent(
        priced(900_000, call="t1"),
        priced(500_000, call="t2"),
        priced(1),
        tools=[asks],
        options=LoopConfig(prepare=[Budget(max_cost_usd=1)]),
    )
    await agent.prompt("go")
    agent.set_tools([replace(asks, require_approval=None)])

    result = await agent.approve("t1")

    assert (result.stop_reason, result.error) == ("end_turn", None)


def test_what_is_spent_beside_the_replies_counts() -> None:
    """A summary is a model call too."""
    conversation = conversation_that_cost(5_000_000)
    budget, cancel = Budget(max_cost_usd=1), CancelToken()
    budget(turn_of(conversation, cancel=cancel))

    conversation.add_usage(Usage(cost_microdollars=1_000_000))

    with pytest.raises(LimitReached):
        budget(turn_of(conversation, cancel=cancel))


def test_an_unknown_price_is_told_once_and_limits_nothing() -> None:
    """A limit that silently does not hold is worse than none."""
    listener = Listener()
    conversation = conversation_that_cost()
    budget, cancel = Budget(max_cost_usd=1), CancelToken()
    budget(turn_of(conversation, listener, cancel=cancel))
    conversation.add_reply(priced(None))

    for _ in range(2):
        budget(turn_of(conversation, listener, cancel=cancel))

    warning = "unknown price for scripted-model: max_cost $1 is not enforced"
    assert listener.warnings == [warning]


def test_an_unknown_price_long_ago_does_not_lift_the_limit() -> None:
    """Only what this run costs has to be known."""
    listener = Listener()
    conversation = conversation_that_cost(None)
    budget, cancel = Budget(max_cost_usd=1), CancelToken()
    budget(turn_of(conversation, listener, cancel=cancel))
    conversation.add_reply(priced(2_000_000))

    with pytest.raises(LimitReached):
        budget(turn_of(conversation, listener, cancel=cancel))

    assert listener.warnings == []


def test_open_calls_are_answered_first_and_0_is_no_limit() -> None:
    """A turn that only runs an approved batch costs nothing."""
    conversation = conversation_that_cost()
    budget, cancel = Budget(max_cost_usd=1), CancelToken()
    budget(turn_of(conversation, cancel=cancel))
    conversation.add_reply(priced(2_000_000, call="t1"))

    budget(turn_of(conversation, cancel=cancel))
    Budget(max_cost_usd=0)(turn_of(conversation, cancel=cancel))

    conversation.settle_open_calls("no")
    with pytest.raises(LimitReached):
        budget(turn_of(conversation, cancel=cancel))
