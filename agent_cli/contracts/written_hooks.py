"""The table of a lifecycle hook as a file holds it, and which events may block or are not here."""

from collections.abc import Mapping
from typing import Final

GUARDED: Final = frozenset(
    {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "ElicitationResult"}
)
"""The events whose hooks block the action if they cannot run."""

PROJECT_DIR: Final = "CLAUDE_PROJECT_DIR"
"""The variable with the workspace, for hooks and in their command lines."""

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

_FOLDED: Final = frozenset(event.lower() for event in GUARDED)


def guards_on(event: str) -> bool:
    """Return whether hooks of *event* guard; `pre_tool_use` is a spelling of its name too."""
    return event.replace("_", "").replace("-", "").lower() in _FOLDED


def folded_keys(hook: Mapping[str, object]) -> dict[str, object]:
    """Return the table of a hook with its keys in lowercase and without underscores.

    The code that defines hooks and the code that describes them to the user both read this form: a
    key that only the first understood would hide a command.
    """
    return {str(key).replace("_", "").lower(): value for key, value in hook.items()}


def with_project_dir(text: str, workspace: str) -> str:
    """Return *text* of a hook's command line with *workspace* for `$CLAUDE_PROJECT_DIR`."""
    return text.replace(f"${{{PROJECT_DIR}}}", workspace).replace(f"${PROJECT_DIR}", workspace)
