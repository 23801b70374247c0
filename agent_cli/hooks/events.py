"""The events of lifecycle hooks; for each event of Claude Code without hooks here, the reason."""

from collections.abc import Mapping
from typing import Final

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
"""What the matchers of other events are compared with; agents, servers and files have any name."""

NOT_HERE: Final[Mapping[str, str]] = {
    "Setup": "this program has no set-up run; a SessionStart hook runs at each start",
    "ConfigChange": "the settings of a session are read once, at its start; a FileChanged hook"
    " can watch their files",
    "CwdChanged": "the directory of a session does not change; DirectoryAdded tells of /add-dir",
    "WorktreeCreate": "git alone makes worktrees here; a SubagentStart hook gets that of an agent"
    " as cwd, and can set it up",
    "WorktreeRemove": "git alone removes worktrees here; a SubagentStop hook gets that of an agent"
    " as cwd",
    "TeammateIdle": "there are no teams of agents; SubagentStop tells of the end of an agent",
    "MessageDisplay": "a reply is shown as it arrives; a Stop hook gets its text",
}
"""Claude Code's other events, each with the reason and what to use instead."""
