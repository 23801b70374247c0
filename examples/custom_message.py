"""Keep messages of your own kind in the conversation, and decide what the model reads of them."""

import asyncio
from collections.abc import Sequence

from scripted import MODEL, says, scripted

from agent_cli import Agent, CustomMessage, LoopConfig, Message, UserMessage


def convert_to_llm(messages: Sequence[Message]) -> list[Message]:
    """Tell the model about new mail; leave out every other kind it does not know."""
    converted: list[Message] = []
    for message in messages:
        if isinstance(message, CustomMessage) and message.role == "mail":
            converted.append(UserMessage.of(f"[New mail: {message.data}]"))
        elif not isinstance(message, CustomMessage):
            converted.append(message)
    return converted


async def main() -> None:
    """Add two messages of our own; the model reads one of them."""
    agent = Agent(
        LoopConfig(
            model=MODEL,
            stream_fn=scripted(says("You have mail from Ann.")),
            convert_to_llm=convert_to_llm,
            transform_context=lambda messages, _cancel: print_roles("context", messages),
        )
    )
    agent.append_message(CustomMessage("mail", "Ann writes: lunch?"))
    agent.append_message(CustomMessage("weather", "rain"))

    await agent.prompt("Any news?")

    print_roles("history", agent.state.messages)
    print(f"the model read: {convert_to_llm(agent.state.messages)[0].text}")


def print_roles(title: str, messages: Sequence[Message]) -> Sequence[Message]:
    """Print whose messages these are."""
    print(f"{title}: {', '.join(message.role for message in messages)}")
    return messages


asyncio.run(main())
