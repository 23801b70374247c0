"""The permission modes: how much the program may do without asking.

The command line's parser reads them, so this module imports next to nothing.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["ask", "auto-edit", "auto", "plan", "yolo"]

STRICTNESS: Final[tuple[Mode, ...]] = ("plan", "ask", "auto-edit", "auto", "yolo")
"""The modes, in ascending order of what they allow."""

EDITING: Final[tuple[Mode, ...]] = ("auto-edit", "auto")
"""The modes in which tools write files of the workspace without approval."""

MODE_DESCRIPTIONS: Final[Mapping[Mode, str]] = {
    "ask": "asks before every change",
    "auto-edit": "edits files of the workspace without asking",
    "auto": "edits without asking, and has a small model judge what else would be asked",
    "plan": "only looks around, and presents a plan",
    "yolo": "runs almost everything without asking",
}


CLAUDE_MODES: Final[Mapping[str, Mode]] = {
    "default": "ask",
    "manual": "ask",
    "dontask": "ask",
    "acceptedits": "auto-edit",
    "auto_edit": "auto-edit",
    "bypasspermissions": "yolo",
}
"""Claude Code's and Gemini CLI's names of modes in lower case; `plan` is the same in all."""


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the stricter of two modes."""
    return one if STRICTNESS.index(one) <= STRICTNESS.index(other) else other


def mode_named(name: str) -> Mode | None:
    """Return the mode of that name; None if there is none."""
    modes: dict[str, Mode] = {mode: mode for mode in STRICTNESS}
    return modes.get(name)


def our_mode_name(name: str) -> str:
    """Return our name of another agent's mode *name*; other names stay as they are."""
    return CLAUDE_MODES.get(name.lower(), name)
