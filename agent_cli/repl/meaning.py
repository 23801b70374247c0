"""From what was said to what is sent: with the pictures and the resources it names."""

from agent_cli.attachments import Attachments
from agent_cli.messages import UserMessage
from agent_cli.repl.mcp.resources import with_resources
from agent_cli.repl.mcp.servers import Servers
from agent_cli.terminal.writer import Lines


async def meant(
    said: str | UserMessage, attachments: Attachments, servers: Servers, lines: Lines
) -> UserMessage:
    """Return what *said* sends to the model; a message is one already.

    Raises:
        AgentCliError: Something it names cannot be read.
    """
    if isinstance(said, UserMessage):
        return said
    return await attachments.attached(
        await with_resources(attachments.marked(said), servers, lines)
    )
