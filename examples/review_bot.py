"""Review several files at once, a few at a time, and stop the reviews that take too long."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from scripted import MODEL, says, scripted

from agent_cli import Agent, LoopConfig, ModelRequest, ReplyStart, StreamEvent, StreamFn

AT_ONCE = 2
LIMIT_S = 0.2


@dataclass(frozen=True)
class Review:
    """The outcome of a review."""

    path: str
    text: str
    is_complete: bool


async def review(path: str, code: str, ask: StreamFn, places: asyncio.Semaphore) -> Review:
    """Return the review of one file. Each has a separate agent, so none reads the others."""
    async with places:
        agent = Agent(LoopConfig(model=MODEL, system_prompt="Review this code.", stream_fn=ask))
        stop = asyncio.get_running_loop().call_later(LIMIT_S, agent.abort)
        try:
            result = await agent.prompt(f"{path}:\n{code}")
        finally:
            stop.cancel()
    if result.stop_reason == "end_turn" and result.final_message:
        return Review(path, result.final_message.text.strip(), is_complete=True)
    return Review(path, result.error or result.stop_reason, is_complete=False)


async def review_all(files: dict[str, str], models: dict[str, StreamFn]) -> list[Review]:
    """Return the reviews in the order of *files*; leaving early cancels the running ones."""
    places = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(review(path, code, models[path], places))
            for path, code in files.items()
        ]
    return [task.result() for task in running]


async def never_answers(request: ModelRequest) -> AsyncIterator[StreamEvent]:
    """Stand for a server that hangs."""
    await asyncio.Event().wait()
    yield ReplyStart(request.model.id)


async def main() -> None:
    """Review three files, one of which never gets an answer."""
    files = {"a.py": "x = 1", "b.py": "def f(): pass", "c.py": "import os"}
    models: dict[str, StreamFn] = {
        "a.py": scripted(says("Fine.")),
        "b.py": never_answers,
        "c.py": scripted(says("An unused import.")),
    }

    reviews = await review_all(files, models)

    for one in reviews:
        print(f"{one.path}: {one.text}")
    if not any(one.is_complete for one in reviews):
        sys.exit("no review was completed")


asyncio.run(main())
