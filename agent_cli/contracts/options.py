"""Choices and defaults shared by the settings and the library's types, permission modes among them.

A default used only by a setting is in `settings/schema.py`; a default that lower layers also offer
to callers without settings is here, and both refer to it. The command line's parser reads this
module, so it imports next to nothing.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

ToolExecution: TypeAlias = Literal["parallel", "sequential"]
Steering: TypeAlias = Literal["skip_unstarted", "cancel_running", "after_batch"]
ApprovalOrder: TypeAlias = Literal["defer", "batch"]
Network: TypeAlias = bool | Literal["hosts"]
WebFetch: TypeAlias = bool | Literal["api"]
WebSearch: TypeAlias = bool | Literal["rule"]
AutoAllow: TypeAlias = Literal["never", "auto-edit", "always"]
Jitter: TypeAlias = Literal["none", "full"]
FailureKind: TypeAlias = Literal["429", "529", "5xx", "connection"]
Streaming: TypeAlias = Literal["live", "sequential"]
ThemeName: TypeAlias = Literal["dark", "light", "high-contrast", "none"]
ThemeChoice: TypeAlias = Literal["auto", "dark", "light", "high-contrast", "none"]
Notify: TypeAlias = Literal["auto", "bell", "osc9", "off"]
PlatformName: TypeAlias = Literal["anthropic", "bedrock", "vertex", "foundry", "aws"]
PlatformChoice: TypeAlias = Literal["auto"] | PlatformName
KeepWarm: TypeAlias = Literal["off", "idle", "always"]
WireApi: TypeAlias = Literal["messages", "chat"]

MAX_TOKENS: Final = 32_000
MAX_ROUNDS: Final = 100
CONCURRENCY: Final = 8
TOOL_TIMEOUT_S: Final = 120
TOOL_EXECUTION: Final[ToolExecution] = "parallel"
STEERING: Final[Steering] = "skip_unstarted"
APPROVAL: Final[ApprovalOrder] = "batch"
AUTO_ALLOW: Final[AutoAllow] = "auto-edit"
USER_WORDS_CHARS: Final = 40_000
PROTECTED_TAIL_MESSAGES: Final = 6
JOBS_MAX: Final = 8
JOB_TIMEOUT_S: Final = 7_200

READ_TIMEOUT_S: Final = 90
STALL_TIMEOUT_S: Final = 600
RETRIES: Final = 5
RETRY_BASE_S: Final = 10
RETRY_OTHER_BASE_S: Final = 1
RETRY_FACTOR: Final = 2
RETRY_JITTER: Final[Jitter] = "none"
MAX_SERVER_DELAY_S: Final = 60

MCP_STARTUP_TIMEOUT_S: Final = 30
MCP_CALL_TIMEOUT_S: Final = 300

STREAMING: Final[Streaming] = "live"
THEME: Final[ThemeChoice] = "auto"
NOTIFY: Final[Notify] = "auto"

UNDO_KEEP_DAYS: Final = 30

# The permission modes: how much the program may do without asking.

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
    "bypasspermissions": "yolo",
}
"""Claude Code's names of modes in lower case; `plan` is the same in both."""


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the stricter of two modes."""
    return one if STRICTNESS.index(one) <= STRICTNESS.index(other) else other


def mode_named(name: str) -> Mode | None:
    """Return the mode of that name; None if there is none."""
    modes: dict[str, Mode] = {mode: mode for mode in STRICTNESS}
    return modes.get(name)


def our_mode_name(name: str) -> str:
    """Return our name of Claude Code's mode *name*; other names stay as they are."""
    return CLAUDE_MODES.get(name.lower(), name)
