"""Ask one question: the whole program answers, with its tools, rights and settings."""

import asyncio

from agent_cli import query

print(asyncio.run(query("What is 2 + 2?")).text)
