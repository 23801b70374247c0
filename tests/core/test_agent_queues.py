"""The two queues of an agent beside a caller's own message source. S0-59, S0-61."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import AgentQueues, MessageQueue, combined
from tests.fakes import LIMIT_S
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


def test_queues_are_separate_and_each_has_its_mode() -> None:
    queues = AgentQueues(steering_mode="all", follow_up_mode="one_at_a_time")
    for text in ("a", "b"):
        queues.steer(text)
        queues.follow_up(text.upper())

    assert [m.text for m in queues._steering.take()] == ["a", "b"]
    assert [m.text for m in queues._follow_ups.take()] == ["A"]
    queues.set_follow_up_mode("all")
    queues.follow_up("C")
    assert [m.text for m in queues.clear_all_queues()] == ["B", "C"]
    assert not queues.has_queued_messages()


@each_row("source", ["queue", "caller"])
async def test_the_wait_for_steering_ends_with_either_source(source: str) -> None:
    arrived = asyncio.Event()
    options = LoopConfig()
    if source == "caller":
        options = replace(options, wait_for_steering=lambda: _wait(arrived))
    queues = AgentQueues(steering_mode="all", follow_up_mode="all")
    waiting = asyncio.ensure_future(_call(queues._steering_arrives(options)))
    for _ in range(4):
        await asyncio.sleep(0)
    assert not waiting.done()

    if source == "queue":
        queues.steer("now")
    else:
        arrived.set()

    await asyncio.wait_for(waiting, LIMIT_S)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _call(wait: object) -> Sequence[object]:
    await wait()  # type: ignore[operator]
    return ()


async def test_what_an_ended_run_took_stands_in_its_own_queue_again() -> None:
    queues = AgentQueues(steering_mode="all", follow_up_mode="all")
    queues.steer(ONE)
    queues.follow_up(TWO)
    await _call(combined(queues._steering, None))
    await _call(combined(queues._follow_ups, None))
    assert queues.clear_all_queues() == []

    queues._take_back()

    assert queues.clear_steering_queue() == [ONE]
    assert queues.clear_follow_up_queue() == [TWO]
