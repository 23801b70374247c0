"""Give the model a tool of your own: its signature is the schema, its docstring the description."""

import asyncio

from agent_cli import SessionOptions, query, tool


@tool
async def greet(name: str) -> str:
    """Greet a user."""
    return f"Hello, {name}!"


print(asyncio.run(query("Greet Alice", SessionOptions(tools=[greet], allow=["greet"]))).text)
