"""From what was said to what is sent: with the pictures and the resources it names."""

import asyncio
from typing import Protocol

from agent_cli.messages import UserMessage
from agent_cli.repl.mcp.resources import with_resources
from agent_cli.repl.mcp.servers import Servers
from agent_cli.terminal.writer import Lines


class Images(Protocol):
    """Finds pictures in a text and puts them into its message."""

    def marked(self, text: str) -> str:
        """Return *text* with a mark for each picture that is named in it.

        Raises:
            UsageError: One cannot be read or sent.
        """
        ...

    def attached(self, message: UserMessage) -> UserMessage:
        """Return *message* with the pictures whose marks stand in it; called in a thread.

        Raises:
            UsageError: A picture is damaged.
        """
        ...


async def meant(
    said: str | UserMessage, images: Images, servers: Servers, lines: Lines
) -> UserMessage:
    """Return what *said* sends to the model; a message is one already.

    Raises:
        AgentCliError: Something it names cannot be read.
    """
    if isinstance(said, UserMessage):
        return said
    message = await with_resources(images.marked(said), servers, lines)
    # A large image is made smaller first, and the screen must not stand still for that.
    return await asyncio.to_thread(images.attached, message)
