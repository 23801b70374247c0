"""Build the JSON that hooks read on standard input, in Claude Code's fields."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.options import Mode
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli.hooks.claude_names import ClaudeCall, response_of, to_claude
from agent_cli.hooks.events import JUDGED
from agent_cli.system.records import dataclass

_MODES: Final[Mapping[Mode, str]] = {
    "ask": "default",
    "auto-edit": "acceptEdits",
    "auto": "auto",
    "plan": "plan",
    "yolo": "bypassPermissions",
}
# Where a model is at work: the others do not depend on how much it thinks.
_WHILE_WORKING: Final = JUDGED | {"PermissionDenied"}


@dataclass(frozen=True, slots=True)
class Payloads:
    """The common part of all payloads, computed for each one because it may change.

    `transcript` writes what was said until now and returns the file; it is called for payloads
    only, so that nothing is written where no hook runs. `prompt` returns the id of the prompt at
    work, or "", `model` the model in use, and `effort` how much it thinks, or "". `inside` returns
    the fields about the subagent; none for the session's agent.
    """

    workspace: Path
    session_id: Callable[[], str]
    transcript: Callable[[], str]
    mode: Callable[[], Mode]
    prompt: Callable[[], str] = str
    model: Callable[[], str] = str
    effort: Callable[[], str] = str
    inside: Callable[[], Mapping[str, Json]] = dict

    def payload(self, event: str, /, **more: Json) -> dict[str, Json]:
        """Return the payload of *event*."""
        return {
            "session_id": self.session_id(),
            "transcript_path": self.transcript(),
            "cwd": str(self.workspace),
            "permission_mode": _MODES[self.mode()],
            "hook_event_name": event,
            **({"prompt_id": prompt} if (prompt := self.prompt()) else {}),
            **(about_effort(self.effort()) if event in _WHILE_WORKING else {}),
            **self.inside(),
            **more,
        }

    def translated(self, call: ToolCall) -> ClaudeCall:
        """Return *call* in Claude Code's terms."""
        return to_claude(call.name, call.input, self.workspace)

    def about_call(
        self, event: str, call_id: str, theirs: ClaudeCall, **more: Json
    ) -> dict[str, Json]:
        """Return the payload of an event about a call, translated."""
        return self.payload(
            event,
            tool_name=theirs.name,
            tool_input=theirs.input,
            tool_use_id=call_id,
            **more,
        )


def about_effort(level: str) -> Mapping[str, Json]:
    """Return the field about the effort *level*; none where the model has no such levels."""
    return {"effort": {"level": level}} if level else {}


def about_agent(agent: WorkingAgent) -> dict[str, Json]:
    """Return the fields that name a subagent, and the fields that differ from the session's."""
    return {
        "agent_id": agent.id,
        "agent_type": agent.name,
        "cwd": str(agent.directory),
        "permission_mode": _MODES[agent.mode],
        **about_effort(agent.effort),
    }


def after_call(theirs: ClaudeCall, result: ToolResult, took_ms: int | None) -> dict[str, Json]:
    """Return the fields about *result* in the payload of an event after a call.

    *took_ms* is how long the tool itself took; None for a call that never began.
    """
    took: dict[str, Json] = {} if took_ms is None else {"duration_ms": took_ms}
    code = exit_code(result)
    if result.is_error or code:
        told = f"Exit code {code}\n{result.text}" if code else result.text
        return {"error": told, "is_interrupt": False, **took}
    return {"tool_response": response_of(theirs, result), **took}


def exit_code(result: ToolResult) -> int:
    """Return the exit code of the command that *result* is about; 0 for any other result.

    For the model a failed command is an answer, for hooks it is a failed call.
    """
    details = result.details
    code = details.get("exit_code") if isinstance(details, dict) else None
    return code if isinstance(code, int) else 0
