"""A program to be killed: for each line on stdin it forks a run that continues one session.

    python counting_runs.py SESSIONS SESSION_ID RAN

A run writes the pid of its process, then the number of whole records after each event, a line
each. Its tool appends the id of each call that runs to the file RAN. Forking spares the imports.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

from agent_cli.contracts.events import Event
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    StreamEvent,
)
from agent_cli.contracts.timeline import Usage, text_block
from agent_cli.contracts.tooling import Allow, Ask, Tool, ToolContext, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.session_store import SessionStore


class Run:
    """Endless prompts; every third call needs approval, and gets it after the pause."""

    def __init__(self, folder: Path, id: str, ran: Path) -> None:
        store = SessionStore(folder)
        if (folder / f"{id}.jsonl").exists():
            self._session, conversation = store.resume(id)
        else:
            conversation = Conversation(id=id)
            self._session = store.create(conversation, folder)
        self._ran = os.open(ran, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._numbers = count(1)
        tool = Tool(
            name="count",
            label="Count",
            description="Counts",
            parameters={"type": "object"},
            execute=self._execute,
        )
        config = LoopConfig(
            model=Model("m"), stream_fn=self._stream, tools=[tool], authorize_tool=self._authorize
        )
        self._agent = Agent(config, conversation=conversation)
        self._agent.subscribe(self._session.record)
        self._agent.subscribe(self._acknowledge)

    async def forever(self) -> None:
        while True:
            while questions := self._agent.conversation.questions():
                await self._agent.approve(questions[0].tool_call_id)
            await self._agent.prompt("Count")

    async def _execute(
        self, tool_call_id: str, params: object, cancel: object, on_update: ToolContext
    ) -> str:
        os.write(self._ran, f"{tool_call_id}\n".encode())
        await asyncio.sleep(0)
        return "counted"

    def _authorize(self, call: object, tool: object, params: object) -> Verdict:
        return Allow() if next(self._numbers) % 3 else Ask("every third one")

    async def _stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        number = next(self._numbers)
        yield ReplyStart("m")
        if number % 4 == 0:
            yield ReplyEnd(Reply("r", "m", (text_block("So far."),), "end_turn", Usage(1, 1)))
            return
        ids = [f"{os.getpid()}-{number}-{letter}" for letter in "ab"]
        uses = [{"type": "tool_use", "id": id, "name": "count", "input": {}} for id in ids]
        yield ReplyEnd(Reply("r", "m", tuple(uses), "tool_use", Usage(1, 1)))  # type: ignore[arg-type]  # nested JSON

    def _acknowledge(self, event: Event) -> None:
        if self._session.path.exists():
            size = self._session.path.stat().st_size
            os.write(1, f"{size}\n".encode())


def main() -> None:
    folder, id, ran = sys.argv[1:]
    for _line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.write(1, f"{os.getpid()}\n".encode())
            asyncio.run(Run(Path(folder), id, Path(ran)).forever())
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
