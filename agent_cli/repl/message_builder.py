"""From what was said to what is sent: with the pictures and the resources it names."""

from typing import Final

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.messages import UserMessage
from agent_cli.repl.mcp.ports import ServersPort
from agent_cli.repl.mcp.resources import with_resources
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.writer import Lines

# More slips than this in one text are none: it was pasted.
_MISSING_MAX: Final = 3


async def meant(
    said: str | UserMessage, attachments: Attachments, servers: ServersPort, lines: Lines
) -> UserMessage:
    """Return what *said* sends to the model; a message is one already.

    Raises:
        AgentCliError: Something it names cannot be read.
    """
    if isinstance(said, UserMessage):
        return said
    for path in attachments.missing(said)[:_MISSING_MAX]:
        lines.aside(f"{one_line(path)} not found; sent as plain text", "dim")
    return await attachments.attached(
        await with_resources(attachments.marked(said), servers, lines)
    )
