"""Messages built from typed input."""

import asyncio
import io
import threading
from pathlib import Path

import pytest

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.images import Image
from agent_cli.repl.dispatch import build_message
from agent_cli.terminal.writer import Writer
from tests.repl.scripted_servers import Servers


async def test_event_loop_is_not_blocked_while_a_large_image_is_shrunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop sets the event, so it must not be the one that waits."""
    ready = threading.Event()

    def fitted(image: Image) -> Image:
        assert ready.wait(10)
        return image

    monkeypatch.setattr("agent_cli.attachments.images.fitted", fitted)
    attachments = Attachments(Path.cwd())
    mark = attachments.add(Image("image/png", 8, 6, b"png"), "pic.png")
    asyncio.get_running_loop().call_soon(ready.set)
    writer = Writer(io.StringIO(), io.StringIO(), color=False)

    sent = await build_message(f"see {mark}", attachments, Servers(), writer)

    assert sent.text == f"see {mark}"
    assert [block["type"] for block in sent.content] == ["image", "text"]
