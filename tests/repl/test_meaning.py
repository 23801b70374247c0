"""What is sent of what was said."""

import asyncio
import io
import threading

from agent_cli.messages import UserMessage
from agent_cli.repl.meaning import meant
from agent_cli.terminal.writer import Writer
from tests.repl.scripted_servers import Servers


class Images:
    """Made smaller for as long as `ready` is not set."""

    def __init__(self) -> None:
        self.ready = threading.Event()

    def marked(self, text: str) -> str:
        return text.replace("@pic.png", "[image]")

    def attached(self, message: UserMessage) -> UserMessage:
        assert self.ready.wait(10)
        return message


async def test_the_screen_goes_on_while_a_large_image_is_made_smaller() -> None:
    """What sets the event is this very loop: it must not be the one that waits."""
    images = Images()
    asyncio.get_running_loop().call_soon(images.ready.set)
    writer = Writer(io.StringIO(), io.StringIO(), color=False)

    sent = await meant("see @pic.png", images, Servers(), writer)

    assert sent.text == "see [image]"
