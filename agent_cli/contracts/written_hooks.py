"""The table of a lifecycle hook as a file holds it, and the events whose hooks may block."""

from collections.abc import Mapping
from typing import Final

GUARDED: Final = frozenset(
    {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "ElicitationResult"}
)
"""The events whose hooks block the action if they cannot run."""

PROJECT_DIR: Final = "CLAUDE_PROJECT_DIR"
"""The variable with the workspace, for hooks and in their command lines."""

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
