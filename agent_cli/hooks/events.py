"""The events of lifecycle hooks, the JSON that hooks read about them, and hooks in Python.

The JSON has Claude Code's fields.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.claude_tools import our_tool_name
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Deny, ToolResult, Verdict
from agent_cli.core.returned_values import settled
from agent_cli.hooks.claude_terms import ClaudeCall, from_claude, response_of, to_claude
from agent_cli.system.records import dataclass

EVENTS: Final = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"),
    *("UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "SubagentStop"),
    *("PreCompact", "PostCompact", "Notification"),
    *("PermissionDenied", "PostToolBatch", "UserPromptExpansion", "StopFailure", "FileChanged"),
    *("PreModelSwitch", "PostModelSwitch", "DirectoryAdded"),
    *("Elicitation", "ElicitationResult"),
    *("InstructionsLoaded", "TaskCreated", "TaskCompleted"),
)

ABOUT_CALLS: Final = frozenset({*EVENTS[:4], "PermissionDenied"})
"""The events whose matcher is compared with the name of a tool."""

QUESTIONS: Final = frozenset({"Elicitation", "ElicitationResult"})
"""The events about a question of an MCP server, which comes while a tool of it is called."""

JUDGED: Final = frozenset(
    {
        *(*EVENTS[:4], "PostToolBatch", "UserPromptSubmit", "Stop", "SubagentStop"),
        *("TaskCreated", "TaskCompleted"),
    }
)
"""The events at which a model may be asked: a prompt is at work that bears the cost."""

MATCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "SessionStart": ("startup", "resume", "clear"),
    "SessionEnd": ("clear", "resume", "prompt_input_exit", "other"),
    "Notification": ("permission_prompt", "idle_prompt", "elicitation_dialog"),
    "PreCompact": ("manual", "auto"),
    "PostCompact": ("manual", "auto"),
    "InstructionsLoaded": (
        *("session_start", "nested_traversal", "path_glob_match", "include", "compact"),
    ),
    "StopFailure": (
        *("authentication_failed", "billing_error", "rate_limit", "overloaded"),
        *("server_error", "invalid_request", "unknown"),
    ),
}
"""The values that matchers of other events match; agents, servers and files have any name."""

_MODES: Final[Mapping[Mode, str]] = {
    "ask": "default",
    "auto-edit": "acceptEdits",
    "auto": "auto",
    "plan": "plan",
    "yolo": "bypassPermissions",
}
# Where a model is at work: the others do not depend on how much it thinks.
_WHILE_WORKING: Final = JUDGED | {"PermissionDenied"}


# A function's answer becomes the JSON that a program would print, so that both are read in one
# place.
@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of a session, as a hook function reads it.

    Attributes:
        name: The event ("PreToolUse", "Stop", ...).
        payload: All fields of the event, as a hook program reads them: docs/hooks.md lists them.
    """

    name: str
    payload: Mapping[str, Json]

    @property
    def tool(self) -> str:
        """The tool of the call ("bash", "mcp__tickets__create"); "" for an event about no call."""
        return our_tool_name(str(self.payload.get("tool_name", "")))

    @property
    def input(self) -> Mapping[str, Json]:
        """The input of the call in the fields of the tool, with absolute paths."""
        theirs = self.payload.get("tool_input")
        return from_claude(self.tool, theirs) if isinstance(theirs, dict) else {}


HookReply: TypeAlias = Verdict | str | None
"""A verdict; a text that the model reads; or None for neither."""

HookFunction: TypeAlias = Callable[[HookEvent], Awaitable[HookReply]]


async def printed_by(function: HookFunction, payload: Mapping[str, Json], workspace: Path) -> str:
    """Call *function* and return its reply as the text that a hook program would print.

    Raises:
        TypeError: It is no `async def`, or replies with something else.
        Exception: Whatever the function raises.
    """
    event = HookEvent(str(payload["hook_event_name"]), payload)
    # Any: callers without a type checker may pass a function that returns anything.
    replying: Any = function(event)
    if not isinstance(replying, Awaitable):
        raise TypeError("it must be an async def")
    reply: object = await settled(cast("Awaitable[object]", replying))
    if reply is None:
        return ""
    return json.dumps(_answer(event, reply, workspace), ensure_ascii=False)


def _answer(event: HookEvent, reply: object, workspace: Path) -> dict[str, Json]:
    match reply:
        case str():
            return {"hookSpecificOutput": {"additionalContext": reply}}
        case Allow(input=None):
            return {"decision": "allow"}
        case Deny():
            return {"decision": "deny", "reason": reply.reason}
        case Ask(input=None):
            return {"decision": "ask", "reason": reply.reason}
        case Allow() | Ask():
            theirs = to_claude(event.tool, reply.input, workspace)
            word = "allow" if isinstance(reply, Allow) else "ask"
            reason = reply.reason if isinstance(reply, Ask) else ""
            changed: dict[str, Json] = {"updatedInput": theirs.input}
            return {"decision": word, "reason": reason, "hookSpecificOutput": changed}
        case _:
            raise TypeError(
                f"it returned {type(reply).__name__}; return Allow, Deny, Ask, a text or None"
            )


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
        error = f"Exit code {code}\n{result.text}" if code else result.text
        return {"error": error, "is_interrupt": False, **took}
    return {"tool_response": response_of(theirs, result), **took}


def for_model(text: str) -> str:
    """Return *text* of a hook as the model reads it."""
    return f"[A hook of the user's says: {text}]"


def exit_code(result: ToolResult) -> int:
    """Return the exit code of the command that *result* is about; 0 for any other result.

    For the model a failed command is an answer, for hooks it is a failed call.
    """
    details = result.details
    code = details.get("exit_code") if isinstance(details, dict) else None
    return code if isinstance(code, int) else 0
