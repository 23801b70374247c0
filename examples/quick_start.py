"""Talk to an agent and print its answer as it comes."""

import asyncio

from scripted import MODEL, says, scripted

from agent_cli import Agent, Event, LoopConfig, MessageUpdate, TextDelta


def print_text(event: Event) -> None:
    """Print each piece of text when it arrives."""
    if isinstance(event, MessageUpdate) and isinstance(event.event, TextDelta):
        print(event.event.delta, end="", flush=True)


async def main() -> None:
    """Ask one question."""
    agent = Agent(
        LoopConfig(
            model=MODEL,
            system_prompt="You are a helpful assistant.",
            stream_fn=scripted(says("Hello! What can I do for you?")),
        )
    )
    agent.subscribe(print_text)

    await agent.prompt("Hello!")
    print()


asyncio.run(main())
