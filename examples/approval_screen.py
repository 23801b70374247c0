"""Require a person's approval for the built-in tools: the run pauses until the answer."""

import asyncio
import tempfile
from pathlib import Path

from scripted import MODEL, calls, says, scripted

from agent_cli import (
    Agent,
    ApprovalRequested,
    Event,
    LoopConfig,
    RunResult,
    ToolCall,
    Workspace,
    builtin_tools,
)


class Screen:
    """The calls that wait for an answer, as announced."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._waiting: list[ToolCall] = []
        agent.subscribe(self._listen)

    def _listen(self, event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            self._waiting.append(event.call)

    async def prompt(self, text: str) -> RunResult:
        """Run a prompt to its end, with a question for each call that needs one."""
        result = await self._agent.prompt(text)
        while result.stop_reason == "waiting_for_approval" and self._waiting:
            call = self._waiting.pop(0)
            if self._is_wanted(call):
                result = await self._agent.approve(call.id)
            else:
                result = await self._agent.reject(call.id, "The user wants no other files.")
        return result

    def _is_wanted(self, call: ToolCall) -> bool:
        """Ask the person; here, the person only wants notes."""
        answer = isinstance(call.input, dict) and call.input.get("path") == "notes.txt"
        print(f"{call.name} {call.input}? ({call.reason}) {'yes' if answer else 'no'}")
        return answer


async def main() -> None:
    """Let the model write two files; one of them is refused."""
    script = scripted(
        calls(
            ("write", {"path": "notes.txt", "content": "milk\n"}),
            ("write", {"path": "other.txt", "content": "no\n"}),
        ),
        says("Your notes are written."),
    )
    with tempfile.TemporaryDirectory() as folder, Workspace(Path(folder)) as workspace:
        agent = Agent(LoopConfig(model=MODEL, tools=builtin_tools(workspace), stream_fn=script))

        result = await Screen(agent).prompt("Note that we need milk")

        print(result.final_message.text if result.final_message else result.error)
        print(*sorted(path.name for path in Path(folder).iterdir()))


asyncio.run(main())
