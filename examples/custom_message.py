"""Keep your own kinds of messages in the conversation, and decide what the model reads of them."""

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel
from scripted import MODEL, says, scripted

from agent_cli import Agent, CustomKind, CustomMessage, LoopConfig, Message, UserMessage


class Mail(BaseModel):
    """The data of a mail message; a session keeps it as JSON."""

    sender: str
    text: str


MAIL = CustomKind("mail", Mail)


def convert_to_llm(messages: Sequence[Message]) -> list[Message]:
    """Tell the model about new mail; leave out every other kind it does not know."""
    converted: list[Message] = []
    for message in messages:
        mail = MAIL.data_of(message)
        if mail:
            converted.append(UserMessage.of(f"[New mail: {mail.sender} writes: {mail.text}]"))
        elif not isinstance(message, CustomMessage):
            converted.append(message)
    return converted


def print_roles(title: str, messages: Sequence[Message]) -> None:
    """Print the roles of these messages."""
    print(f"{title}: {', '.join(message.role for message in messages)}")


async def main() -> None:
    """Add two messages of our own; the model reads one of them."""
    agent = Agent(
        LoopConfig(
            model=MODEL,
            stream_fn=scripted(says("You have mail from Ann.")),
            convert_to_llm=convert_to_llm,
        )
    )
    agent.append_message(MAIL.message(Mail(sender="Ann", text="lunch?")))
    agent.append_message(CustomMessage("weather", "rain"))
    print_roles("before", agent.state.messages)

    await agent.prompt("Any news?")

    print_roles("history", agent.state.messages)
    for message in convert_to_llm(agent.state.messages)[:1]:
        if isinstance(message, UserMessage):
            print(f"the model read: {message.text}")


asyncio.run(main())
