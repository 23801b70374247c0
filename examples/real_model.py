"""Ask a real model; needs a key. The README shows this program."""

import asyncio

from agent_cli import Agent, AnthropicMessages, Event, LoopConfig, ProviderRegistry, get_model


def show(event: Event) -> None:
    if event.type == "message_update" and event.event.type == "text_delta":
        print(event.event.delta, end="", flush=True)


async def main() -> None:
    registry = ProviderRegistry({"anthropic-messages": AnthropicMessages()})
    agent = Agent(LoopConfig(model=get_model("claude-sonnet-5-5"), registry=registry))
    agent.subscribe(show)
    await agent.prompt("Hello!")


asyncio.run(main())
