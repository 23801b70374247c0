"""The two queues of an agent beside a caller's own message source. S0-59, S0-61."""

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import MessageQueue, combined
from tests.fakes import says, scripted_agent, users
from tests.tables import each_row

ONE, TWO, THREE = (UserMessage.of(text) for text in ("one", "two", "three"))


async def test_own_messages_come_before_those_of_the_callers_source() -> None:
    """S0-22: both are lent: a run that ends before it delivers them leaves them in the queue."""
    queue = MessageQueue("one_at_a_time")
    queue.put(ONE)
    queue.put(TWO)

    taken = await combined(queue, lambda: [THREE])()  # type: ignore[misc]

    assert taken == [ONE, THREE]
    assert queue.undelivered == (ONE, THREE)
    queue.delivered(ONE)
    queue.take_back()
    assert [*queue.take(), *queue.take()] == [THREE, TWO]


async def test_a_source_that_fails_loses_no_queued_message() -> None:
    queue = MessageQueue("all")
    queue.put(ONE)

    with pytest.raises(ConversationError):
        await combined(queue, lambda: [TWO, UserMessage.of(" ")])()  # type: ignore[misc]

    queue.take_back()
    assert queue.take() == [ONE]


async def test_queues_are_separate_and_each_has_its_mode() -> None:
    """The steering messages leave together, before the follow-ups, which leave one by one."""
    agent, model, _ = scripted_agent(*[says("ok")] * 4)
    agent.set_steering_mode("all")
    agent.set_follow_up_mode("one_at_a_time")
    for text in ("a", "b"):
        agent.steer(text)
        agent.follow_up(text.upper())

    await agent.prompt("go")

    sent = [users(request.messages) for request in model.requests]
    assert sent == [
        ["go"],
        ["go", "a", "b"],
        ["go", "a", "b", "A"],
        ["go", "a", "b", "A", "B"],
    ]


@each_row("queue", ["steering", "follow-ups"])
async def test_undelivered_message_returns_to_the_queue_it_was_taken_from(queue: str) -> None:
    """The caller's source fails after the queue gave its message, and that ends the run."""

    def fail() -> None:
        raise ConversationError("no")

    is_steering = queue == "steering"
    agent, _, _ = scripted_agent(
        says("ok"),
        options=LoopConfig(
            get_steering_messages=fail if is_steering else None,
            get_follow_up_messages=None if is_steering else fail,
        ),
    )
    (agent.steer if is_steering else agent.follow_up)(ONE)

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    left = (agent.clear_steering_queue(), agent.clear_follow_up_queue())
    assert left == (([ONE], []) if is_steering else ([], [ONE]))
