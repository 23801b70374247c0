"""The events of lifecycle hooks: those that run here, and why the others of Claude Code do not."""

from collections.abc import Mapping
from typing import Final

EVENTS: Final = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"),
    *("UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "SubagentStop"),
    *("PreCompact", "PostCompact", "Notification"),
    *("PermissionDenied", "PostToolBatch", "UserPromptExpansion", "StopFailure", "FileChanged"),
    *("PreModelSwitch", "PostModelSwitch", "DirectoryAdded"),
    *("Elicitation", "ElicitationResult"),
)

ABOUT_CALLS: Final = frozenset({*EVENTS[:4], "PermissionDenied"})
"""The events whose matcher is compared with the name of a tool."""

JUDGED: Final = frozenset(
    {*EVENTS[:4], "PostToolBatch", "UserPromptSubmit", "Stop", "SubagentStop"}
)
"""The events at which a model may be asked: a prompt is at work that bears the cost."""

MATCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "SessionStart": ("startup", "resume", "clear"),
    "SessionEnd": ("clear", "resume", "prompt_input_exit", "other"),
    "Notification": ("permission_prompt", "idle_prompt", "elicitation_dialog"),
    "PreCompact": ("manual", "auto"),
    "PostCompact": ("manual", "auto"),
    "StopFailure": (
        *("authentication_failed", "billing_error", "rate_limit", "overloaded"),
        *("server_error", "invalid_request", "unknown"),
    ),
}
"""What the matchers of other events are compared with; agents, servers and files have any name."""

_NO_CHANGE: Final = "the settings of a session are read once, at its start"
NOT_HERE: Final[Mapping[str, str]] = {
    "Setup": "this program has no set-up run; a SessionStart hook runs at each start",
    "InstructionsLoaded": "instruction files are read together, at the start; use SessionStart",
    "ConfigChange": _NO_CHANGE,
    "CwdChanged": "the directory of a session does not change; DirectoryAdded tells of /add-dir",
    "WorktreeCreate": "git alone makes worktrees here",
    "WorktreeRemove": "git alone makes worktrees here",
    "TaskCreated": "there is no task board; a PostToolUse hook for TodoWrite sees the to-do list",
    "TaskCompleted": "there is no task board; a PostToolUse hook for TodoWrite sees the to-do list",
    "TeammateIdle": "there are no teams of agents; SubagentStop tells of the end of an agent",
    "MessageDisplay": "a reply is shown as it arrives; a Stop hook gets its text",
}
"""Claude Code's other events, each with the reason and what to use instead."""
