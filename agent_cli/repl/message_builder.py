"""Build the user message from typed text, attachments and MCP resources."""

from typing import Final

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.wording import one_line
from agent_cli.repl.mcp.ports import ServersPort
from agent_cli.repl.mcp.resources import with_resources
from agent_cli.terminal.writer import Lines

# More unreadable names than this are not typing errors: the text was pasted.
_MISSING_MAX: Final = 3


async def build_message(
    prompt: str | UserMessage, attachments: Attachments, servers: ServersPort, lines: Lines
) -> UserMessage:
    """Return *prompt* as a message for the model; a message is returned as it is.

    Raises:
        AgentCliError: A file or resource it names cannot be read.
    """
    if isinstance(prompt, UserMessage):
        return prompt
    for path in attachments.missing(prompt)[:_MISSING_MAX]:
        lines.aside(f"{one_line(path)} not found; sent as plain text", "dim")
    return await attachments.attached(
        await with_resources(attachments.marked(prompt), servers, lines)
    )
