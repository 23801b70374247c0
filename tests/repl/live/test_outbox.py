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
    assert waiting.outbox.rows() == [
        "  after this step: see [image 1: pic.png 8×6]",
        "  after this step: and this",
        "  when done: later",
    ]

    waiting.ready.set()
    await asyncio.gather(first, second)

    assert waiting.in_the_queues() == [f"see {waiting.mark}", "and\nthis", "later"]


async def test_last_queued_message_is_taken_back_first_even_if_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message taken back is not sent when its picture is ready; the others stay in order."""
    waiting = Waiting(monkeypatch)
    for text in ("one", "two"):
        waiting.outbox.put(text, follow_up=False)
    await waiting.outbox.hand_over()
    waiting.outbox.put(f"see {waiting.mark}", follow_up=False)
    handing_over = asyncio.ensure_future(waiting.outbox.hand_over())
    await asyncio.sleep(0)

    assert [waiting.outbox.take_back(), waiting.outbox.take_back()] == [
        f"see {waiting.mark}",
        "two",
    ]
    waiting.ready.set()
    await handing_over
    assert waiting.in_the_queues() == ["one"]
    assert waiting.outbox.take_back() is None  # already being sent


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
