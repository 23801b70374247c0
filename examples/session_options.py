"""Ask with a system prompt of your own, and at most one model call."""

import asyncio

from agent_cli import SessionOptions, query

OPTIONS = SessionOptions(system_prompt="You are a helpful assistant", max_rounds=1)

print(asyncio.run(query("Tell me a joke", OPTIONS)).text)
