"""Messages queued for the model."""

import asyncio
import threading
from pathlib import Path

import pytest

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.images import Image
from agent_cli.contracts.errors import UsageError
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.repl.live.outbox import Outbox


class Waiting:
    """An outbox with a picture that is ready once `ready` is set, or damaged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, damage: Exception | None = None) -> None:
        self.ready = threading.Event()
        self.agent = Agent(LoopConfig())
        self.given_back: list[str] = []
        attachments = Attachments(Path.cwd())
        self.outbox = Outbox(self.agent, attachments, self.given_back.append)

        def fitted(image: Image) -> Image:
            assert self.ready.wait(30)
            if damage:
                raise damage
            return image

        monkeypatch.setattr("agent_cli.attachments.images.fitted", fitted)
        self.mark = attachments.add(Image("image/png", 8, 6, b"png"), "pic.png")

    def in_the_queues(self) -> list[str]:
        return [message.text for message in self.agent.clear_all_queues()]


async def test_messages_typed_after_an_image_wait_until_the_image_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They keep their order; the event loop, which releases the image, is not blocked."""
    waiting = Waiting(monkeypatch)
    waiting.outbox.put(f"see {waiting.mark}", follow_up=False)
    first = asyncio.ensure_future(waiting.outbox.hand_over())
    waiting.outbox.put("and\nthis", follow_up=False)
    waiting.outbox.put("later", follow_up=True)
    second = asyncio.ensure_future(waiting.outbox.hand_over())
    await asyncio.sleep(0)
    assert not waiting.agent.has_queued_messages()
    assert [(each.when, each.text) for each in waiting.outbox.messages] == [
        ("after this step", "see [image 1: pic.png 8×6]"),
        ("after this step", "and\nthis"),
        ("when done", "later"),
    ]

    waiting.ready.set()
    await asyncio.gather(first, second)

    assert waiting.in_the_queues() == [f"see {waiting.mark}", "and\nthis", "later"]


async def test_a_held_message_keeps_its_place_and_the_later_ones_of_its_kind_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those before it, and those for the end of the run, are delivered meanwhile."""
    waiting = await three(monkeypatch)
    _one, two, _three, _later = waiting.outbox.messages

    assert waiting.outbox.hold(two)
    assert waiting.in_the_queues() == ["one", "later"]
    waiting.outbox.release(two, "zwei")
    await waiting.outbox.hand_over()
    assert [each.text for each in waiting.outbox.messages] == ["one", "zwei", "three", "later"]
    assert waiting.in_the_queues() == ["zwei", "three"]


async def test_a_message_that_a_run_has_taken_cannot_be_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is neither sent twice nor lost."""
    waiting = await three(monkeypatch)
    waiting.in_the_queues()

    assert not any(waiting.outbox.hold(each) for each in waiting.outbox.messages)
    assert waiting.in_the_queues() == []


async def test_a_held_message_is_moved_or_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among those that are sent at the same time: beyond them it would change nothing."""
    waiting = await three(monkeypatch)
    one, two, three_, _later = waiting.outbox.messages

    waiting.outbox.hold(three_)
    waiting.outbox.move(three_, -1)
    waiting.outbox.release(three_, "three")
    waiting.outbox.hold(one)
    waiting.outbox.move(one, 5)
    waiting.outbox.release(one, "one")
    waiting.outbox.hold(two)
    waiting.outbox.release(two, "")

    assert waiting.in_the_queues() == ["three", "one", "later"]


async def test_a_message_held_while_its_image_is_prepared_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one whose text changed meanwhile is sent with the new text."""
    waiting = Waiting(monkeypatch)
    waiting.outbox.put(f"see {waiting.mark}", follow_up=False)
    handing_over = asyncio.ensure_future(waiting.outbox.hand_over())
    await asyncio.sleep(0)
    (message,) = waiting.outbox.messages
    assert waiting.outbox.hold(message)
    assert not waiting.outbox.can_deliver

    waiting.ready.set()
    await handing_over
    assert waiting.in_the_queues() == []
    waiting.outbox.release(message, "no image")
    await waiting.outbox.hand_over()

    assert waiting.in_the_queues() == ["no image"]


async def three(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Return an outbox with three messages for the next request and one for the end."""
    waiting = Waiting(monkeypatch)
    for text in ("one", "two", "three"):
        waiting.outbox.put(text, follow_up=False)
    waiting.outbox.put("later", follow_up=True)
    await waiting.outbox.hand_over()
    return waiting


@pytest.mark.parametrize("damage", [UsageError("it is damaged"), KeyError("it is damaged")])
async def test_message_with_a_damaged_image_returns_to_the_input(
    damage: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later messages can still be sent; one that stayed would be tried again for ever."""
    waiting = Waiting(monkeypatch, damage=damage)
    waiting.ready.set()
    waiting.outbox.put(f"see {waiting.mark}", follow_up=False)
    waiting.outbox.put("this too", follow_up=False)

    with pytest.raises(type(damage), match="damaged"):
        await waiting.outbox.hand_over()
    assert waiting.given_back == [f"see {waiting.mark}"]
    await waiting.outbox.hand_over()
    assert waiting.in_the_queues() == ["this too"]


async def test_what_is_taken_back_has_the_order_in_which_it_was_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever was to be sent first, and nothing is left for the agent."""
    waiting = Waiting(monkeypatch)
    for text, follow_up in [("one", False), ("two", True), ("three", False), ("four", True)]:
        waiting.outbox.put(text, follow_up=follow_up)
    await waiting.outbox.hand_over()

    assert waiting.outbox.take_all() == ["one", "two", "three", "four"]
    assert (len(waiting.outbox), waiting.in_the_queues()) == (0, [])
