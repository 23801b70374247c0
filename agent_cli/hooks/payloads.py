"""Build the JSON that hooks read on standard input, in Claude Code's fields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli.hooks.claude_names import ClaudeCall, response_of, to_claude

_MODES: Final[Mapping[Mode, str]] = {
    "ask": "default",
    "auto-edit": "acceptEdits",
    "plan": "plan",
    "yolo": "bypassPermissions",
}


@dataclass(frozen=True, slots=True)
class Payloads:
    """The common part of all payloads, computed for each one because it may change.

    `inside` returns the fields about the subagent; none for the session's agent.
    """

    workspace: Path
    session_id: Callable[[], str]
    transcript: Callable[[], str]
    mode: Callable[[], Mode]
    inside: Callable[[], Mapping[str, Json]] = dict

    def payload(self, event: str, **more: Json) -> dict[str, Json]:
        """Return the payload of *event*."""
        return {
            "session_id": self.session_id(),
            "transcript_path": self.transcript(),
            "cwd": str(self.workspace),
            "permission_mode": _MODES[self.mode()],
            "hook_event_name": event,
            **self.inside(),
            **more,
        }

    def about_call(
        self, event: str, call: ToolCall, **more: Json
    ) -> tuple[ClaudeCall, dict[str, Json]]:
        """Return *call* in Claude Code's terms, and the payload of an event about it."""
        theirs = to_claude(call.name, call.input, self.workspace)
        return theirs, self.payload(
            event,
            tool_name=theirs.name,
            tool_input=theirs.input,
            tool_use_id=call.id,
            **more,
        )


def about_agent(agent: WorkingAgent) -> dict[str, Json]:
    """Return the fields that name a subagent, and those that differ from the session's."""
    return {
        "agent_id": agent.id,
        "agent_type": agent.name,
        "cwd": str(agent.directory),
        "permission_mode": _MODES[agent.mode],
    }


def after_call(theirs: ClaudeCall, result: ToolResult) -> Mapping[str, Json]:
    """Return the fields about *result* in the payload of an event after a call."""
    if result.is_error:
        return {"error": result.text, "is_interrupt": False}
    return {"tool_response": response_of(theirs, result)}
