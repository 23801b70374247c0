"""Give an agent a tool of your own: typed input, updates while it works, details for the screen."""

import asyncio

from pydantic import BaseModel, Field
from scripted import MODEL, calls, says, scripted

from agent_cli import (
    Agent,
    CancelToken,
    Event,
    LoopConfig,
    Tool,
    ToolContext,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
)


class CountTo(BaseModel):
    """The model's input, validated before `count` runs."""

    n: int = Field(ge=1, le=10, description="The last number")


async def count(
    tool_call_id: str, params: CountTo, cancel: CancelToken, on_update: ToolContext
) -> ToolResult:
    """Count, and show each number on the way; an abort interrupts the sleep."""
    for number in range(1, params.n + 1):
        on_update(f"{number} of {params.n}")
        await asyncio.sleep(0.001)
    return ToolResult.of(f"counted to {params.n}", details={"numbers": params.n})


COUNT = Tool(
    name="count", label="Count", description="Count to n", parameters=CountTo, execute=count
)


def show(event: Event) -> None:
    """Print the tools' progress."""
    match event:
        case ToolExecutionStart():
            print(f"{event.tool_name} {event.args}")
        case ToolExecutionUpdate():
            print(f"  {event.partial_result.text}")
        case ToolExecutionEnd():
            print(f"  {'failed' if event.is_error else 'done'}: {event.result.text}")
        case _:
            pass


async def main() -> None:
    """Let the model call the tool: once with good input, once with bad."""
    script = scripted(calls(("count", {"n": 3}), ("count", {"n": 99})), says("Three it is."))
    agent = Agent(LoopConfig(model=MODEL, tools=[COUNT], stream_fn=script))
    agent.subscribe(show)

    result = await agent.prompt("Count to three, then to ninety-nine")

    print(result.final_message.text if result.final_message else result.error)


asyncio.run(main())
