"""Let the model change files without asking, and watch its calls."""

import asyncio

from agent_cli import AgentSession, SessionOptions

OPTIONS = SessionOptions(allow=["bash"], permission_mode="auto-edit")


async def main() -> None:
    """Print each call as it starts."""
    async with AgentSession(OPTIONS) as session:
        async for event in session.stream("Create a hello.py file"):
            if event.type == "tool_execution_start":
                print(event.tool_name, event.args)


asyncio.run(main())
