"""Talk to an agent while it works: steer it, and queue what comes after."""

import asyncio

from scripted import MODEL, calls, says, scripted

from agent_cli import (
    Agent,
    CancelToken,
    CustomMessage,
    Event,
    LoopConfig,
    MessageEnd,
    Tool,
    ToolContext,
    UserMessage,
)


async def paint(
    tool_call_id: str, params: dict[str, str], cancel: CancelToken, on_update: ToolContext
) -> str:
    """Paint something."""
    on_update("the first stroke")
    return f"painted it {params['colour']}"


PAINT = Tool(
    name="paint",
    label="Paint",
    description="Paint the shed",
    parameters={"type": "object", "properties": {"colour": {"type": "string"}}},
    execute=paint,
)


async def main() -> None:
    """Change our mind while the first of two calls runs."""
    script = scripted(
        calls(("paint", {"colour": "red"}), ("paint", {"colour": "blue"})),
        says("Only red, then."),
        says("Cleaned up."),
    )
    config = LoopConfig(model=MODEL, tools=[PAINT], stream_fn=script, tool_execution="sequential")
    agent = Agent(config)
    said_something = False

    def listen(event: Event) -> None:
        nonlocal said_something
        if event.type == "tool_execution_update" and not said_something:
            said_something = True
            agent.steer(UserMessage.of("Stop after red!"))
            agent.follow_up(UserMessage.of("And clean up."))
        if isinstance(event, MessageEnd):
            if isinstance(event.message, CustomMessage):
                return
            print(f"{event.message.role}: {event.message.text}")

    agent.subscribe(listen)
    await agent.prompt("Paint the shed red, then blue")


asyncio.run(main())
