"""Run the loop without an agent: no state but what you pass in, events to iterate over."""

import asyncio
from collections.abc import AsyncIterator

from agent_cli import (
    AgentContext,
    LoopConfig,
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    StreamEvent,
    TextDelta,
    UserMessage,
    agent_loop,
)


async def echo(request: ModelRequest) -> AsyncIterator[StreamEvent]:
    """Act as a model: a `stream_fn` is enough; a remote one would open its connection here."""
    last = request.messages[-1]
    text = f"You said: {last.text}"
    yield ReplyStart(request.model.id)
    yield TextDelta(0, text)
    yield ReplyEnd(Reply("msg_1", request.model.id, ({"type": "text", "text": text},), "end_turn"))


async def main() -> None:
    """Run twice; the second run starts from what the first one added."""
    context = AgentContext(system_prompt="You are an echo.")
    config = LoopConfig(model=Model("echo"), stream_fn=echo)
    for prompt in ("Hello", "Hello again"):
        stream = agent_loop([UserMessage.of(prompt)], context, config)
        print([event.type async for event in stream if not event.type.startswith("app.")])
        result = stream.result()
        context.append(*result.messages)
        print(result.final_message.text if result.final_message else result.error)
    print(f"{len(context.messages)} messages")


asyncio.run(main())
