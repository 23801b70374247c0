"""A tool that reports its progress, and a screen that handles every event of a reply."""

import asyncio
from typing import assert_never

from pydantic import BaseModel, Field
from scripted import MODEL, calls, says, scripted

from agent_cli import (
    Agent,
    BlockEnd,
    CancelToken,
    Event,
    LoopConfig,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCallDelta,
    ToolCallStart,
    ToolContext,
)


class Download(BaseModel):
    """The model's input for a download."""

    name: str
    parts: int = Field(ge=1, le=100)


async def download(
    _tool_call_id: str, params: Download, cancel: CancelToken, on_update: ToolContext
) -> str:
    """Fetch part after part; an abort interrupts whatever is awaited in the scope."""
    async with cancel.scope():
        for part in range(1, params.parts + 1):
            await asyncio.sleep(0.001)
            on_update(f"{params.name}: {part} of {params.parts}")
    return f"{params.name} is complete"


DOWNLOAD = Tool(
    name="download",
    label="Download",
    description="Fetch a file in parts",
    parameters=Download,
    execute=download,
    changes=False,
    summary=lambda params: f"{params.name}",
)


def piece(event: StreamEvent) -> str:
    """Return the text to print for a reply event; a type checker finds a missing kind."""
    match event:
        case TextDelta() | ThinkingDelta():
            return event.delta
        case ToolCallStart():
            return f"({event.name} …) "
        case Retrying():
            return f"(again in {event.wait_s:g} s) "
        case ReplyStart() | ToolCallDelta() | BlockEnd() | ReplyEnd():
            return ""
        case _:
            assert_never(event)


def show(event: Event) -> None:
    """Print the reply, and the tools' progress."""
    if event.type == "message_update":
        print(piece(event.event), end="")
    elif event.type == "message_end" and event.message.role == "assistant":
        print()
    elif event.type == "tool_execution_start":
        print(f"{event.tool_name} begins")
    elif event.type == "tool_execution_update":
        print(f"  {event.partial_result.text}")
    elif event.type == "tool_execution_end":
        print(f"  {'failed' if event.is_error else 'done'}: {event.result.text}")
    elif event.type == "agent_end":
        print(f"ended: {event.stop_reason}")


async def main() -> None:
    """Run two downloads concurrently."""
    script = scripted(
        calls(
            ("download", {"name": "a.bin", "parts": 2}), ("download", {"name": "b.bin", "parts": 3})
        ),
        says("Both are here."),
    )
    agent = Agent(LoopConfig(model=MODEL, tools=[DOWNLOAD], stream_fn=script))
    agent.subscribe(show)

    await agent.prompt("Fetch a and b")


asyncio.run(main())
