"""Choices and defaults shared by the settings and the library's types, each defined once.

A default used only by a setting is in `settings/schema.py`; a default that lower layers also offer
to callers without settings is here, and both refer to it.
"""

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
