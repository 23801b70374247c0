"""Every setting with its default, its unit and its allowed values, written once.

Loading, `config show` and the test of `appsettings.example.toml` all read these annotations.
The sections are named tuples, not frozen dataclasses: defining thirteen of those would take half
as long as Python's start-up, and settings are read before the first prompt is drawn.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

from agent_cli.contracts import options
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.wording import USD_MAX
from agent_cli.settings.extension_settings import HookSettings, McpSettings
from agent_cli.settings.rules import (
    SettingRule,
    choice,
    choices,
    flag,
    flag_or,
    key_map,
    lower_limit,
    lower_limit_but_0,
    number,
    off,
    optional,
    price_map,
    records,
    text,
    text_map,
    texts,
    whole,
)

Strategy: TypeAlias = Literal["summarize", "none"]
SandboxMode: TypeAlias = Literal["auto", "required", "off"]
CommandUndo: TypeAlias = Literal["auto", "off", "always"]
LEVELS = ("debug", "info", "warning", "error")
# The level names of other logging libraries, as in settings files of older programs.
_LEVEL_WORDS = {
    "trace": "debug",
    "verbose": "debug",
    "information": "info",
    "warn": "warning",
    "critical": "error",
    "fatal": "error",
}
# Claude Code's names of models: settings, agents and commands written for it use them.
_MODEL_WORDS = {
    "haiku": "small",
    "sonnet": "normal",
    "opus": "high",
    "fable": "claude-fable-5-2",  # no alias of ours
}
_DOLLARS = number(0, USD_MAX, "USD")._replace(stricter=lower_limit_but_0)
_ROUNDS = whole(0, 100_000, "rounds")._replace(stricter=lower_limit_but_0)
_THREADS = whole(0, 10_000_000, "tokens")._replace(user_only=True)


def _most(minimum: int, maximum: int, unit: str) -> SettingRule:
    return whole(minimum, maximum, unit)._replace(stricter=lower_limit)


class ProviderSettings(NamedTuple):
    """The connection to the model's API; `auto` leaves the platform to variables."""

    wire_api: Annotated[options.WireApi, choice(*get_args(options.WireApi), user_only=True)] = (
        "messages"
    )
    platform: Annotated[
        options.PlatformChoice, choice("auto", *get_args(options.PlatformName), user_only=True)
    ] = "auto"
    read_timeout_s: Annotated[float, number(1, 3600, "seconds")] = options.READ_TIMEOUT_S
    stall_timeout_s: Annotated[float, number(1, 86_400, "seconds")] = options.STALL_TIMEOUT_S
    compat: Annotated[bool, flag()] = False
    inference_geo: Annotated[
        options.InferenceGeo | None,
        optional(choice(*get_args(options.InferenceGeo), user_only=True)),
    ] = None
    service_tier: Annotated[
        options.ServiceTier | None,
        optional(choice(*get_args(options.ServiceTier), user_only=True)),
    ] = None
    threads_above_tokens: Annotated[int, _THREADS] = 200_000
    threads_elsewhere: Annotated[bool, flag()._replace(user_only=True)] = False

    @property
    def speaks_messages(self) -> bool:
        """Whether the server speaks the Messages API, its newer parts or not."""
        return self.wire_api == "messages"

    @property
    def is_whole(self) -> bool:
        """Whether the server has all of the Messages API: documents, betas, the API's own tools."""
        return self.speaks_messages and not self.compat


class HistorySettings(NamedTuple):
    """Limits on the history sent; 0 means unlimited results, or no trimming by count."""

    max_tool_result_chars: Annotated[int, whole(0, 10_000_000, "characters")] = 40_000
    max_conversation_messages: Annotated[int, whole(0, 100_000, "messages")] = 0
    leave_out_old_results: Annotated[bool, flag()] = True


class CompactionSettings(NamedTuple):
    """Summaries of old messages; 0 tokens means 80 % of the window, no model the session's own."""

    strategy: Annotated[Strategy, choice(*get_args(Strategy))] = "summarize"
    threshold_tokens: Annotated[int, whole(0, 10_000_000, "tokens")] = 0
    protected_tail_messages: Annotated[int, whole(1, 1000, "messages")] = (
        options.PROTECTED_TAIL_MESSAGES
    )
    user_words_chars: Annotated[int, whole(0, 10_000_000, "characters")] = options.USER_WORDS_CHARS
    model: Annotated[str | None, optional(text("a model id or an alias from [models]"))] = None


class RetrySettings(NamedTuple):
    """Retries of a failed model call: `base_s` after a 429, `other_base_s` after other failures."""

    max: Annotated[int, whole(0, 20, "retries")] = options.RETRIES
    base_s: Annotated[float, number(0, 3600, "seconds")] = options.RETRY_BASE_S
    other_base_s: Annotated[float, number(0, 3600, "seconds")] = options.RETRY_OTHER_BASE_S
    factor: Annotated[float, number(1, 10)] = options.RETRY_FACTOR
    jitter: Annotated[options.Jitter, choice(*get_args(options.Jitter))] = options.RETRY_JITTER
    on: Annotated[tuple[options.FailureKind, ...], choices(*get_args(options.FailureKind))] = (
        get_args(options.FailureKind)
    )
    respect_retry_after: Annotated[bool, flag()] = True
    max_server_delay_s: Annotated[float, number(0, 86_400, "seconds")] = options.MAX_SERVER_DELAY_S
    shared_file: Annotated[str | None, optional(text("a path"))._replace(user_only=True)] = None


class PermissionSettings(NamedTuple):
    """The permission mode, and rules for tools. Each layer adds rules to the layers before.

    `claude_files` also reads the rules in `settings.json` of `~/.claude` and, if the workspace is
    trusted, those that ask or deny in `settings.json` and `settings.local.json` of its `.claude`.
    """

    mode: Annotated[Mode, choice(*get_args(Mode), user_only=True)] = "ask"
    allow: Annotated[tuple[str, ...], texts(append=True, user_only=True)] = ()
    ask: Annotated[tuple[str, ...], texts(append=True)] = ()
    deny: Annotated[tuple[str, ...], texts(append=True)] = ()
    claude_files: Annotated[bool, flag()._replace(user_only=True)] = True


class SandboxSettings(NamedTuple):
    """The sandbox for commands that the model runs."""

    mode: Annotated[SandboxMode, choice(*get_args(SandboxMode), user_only=True)] = "auto"
    network: Annotated[options.Network, flag_or("hosts")._replace(user_only=True)] = False
    auto_allow: Annotated[
        options.AutoAllow, choice(*get_args(options.AutoAllow), user_only=True)
    ] = options.AUTO_ALLOW


class UndoSettings(NamedTuple):
    """The copies kept to undo changes of commands; files above `max_mb` are not copied.

    A command that deletes or overwrites more than `ask_beyond_files`, or `ask_beyond_mb` in all,
    stands still until a person has answered; 0 is no limit. Records are removed `keep_days` after
    their session's last change, and the oldest kept files beyond `max_gb`, unless that is 0.
    Commands that `leave_out` names are not watched; with "auto", nor those that may gain rights.
    """

    commands: Annotated[CommandUndo, choice(*get_args(CommandUndo), user_only=True)] = "auto"
    max_mb: Annotated[float, number(0, 1_000_000, "MB")._replace(user_only=True)] = 100
    ask_beyond_files: Annotated[int, whole(0, 1_000_000, "files")._replace(user_only=True)] = 20
    ask_beyond_mb: Annotated[float, number(0, 1_000_000, "MB")._replace(user_only=True)] = 50
    keep_days: Annotated[int, whole(1, 3650, "days")._replace(user_only=True)] = (
        options.UNDO_KEEP_DAYS
    )
    max_gb: Annotated[float, number(0, 1_000_000, "GB")._replace(user_only=True)] = 10
    leave_out: Annotated[tuple[str, ...], texts(append=True, user_only=True)] = ()


class ToolSettings(NamedTuple):
    """Limits of tool calls; `concurrency` is per reply."""

    timeout_s: Annotated[float, number(1, 86_400, "seconds")] = options.TOOL_TIMEOUT_S
    concurrency: Annotated[int, whole(1, 64, "calls")] = options.CONCURRENCY
    fold_output: Annotated[bool, flag()] = True
    web_fetch: Annotated[options.WebFetch, flag_or("api")._replace(stricter=off)] = True
    web_search: Annotated[options.WebSearch, flag_or("rule")._replace(stricter=off)] = "rule"


class JobSettings(NamedTuple):
    """Limits of background commands: how many at once, and how long each may run."""

    max: Annotated[int, _most(0, 64, "commands")] = options.JOBS_MAX
    timeout_s: Annotated[float, number(1, 86_400, "seconds")] = options.JOB_TIMEOUT_S


class PluginSettings(NamedTuple):
    """Enabled plugins; `disabled` names built-in and installed ones alike.

    Plugins hold hooks that guard, so a project cannot switch them off.
    """

    enabled: Annotated[bool, flag()._replace(user_only=True)] = True
    disabled: Annotated[tuple[str, ...], texts(append=True, user_only=True)] = ()
    reminders: Annotated[bool, flag()] = False


class StatusLineSettings(NamedTuple):
    """A command of the user; the first line of its output is shown below the prompt.

    It runs after each turn, and also every `refresh_s` seconds unless that is 0.
    """

    command: Annotated[str | None, optional(text("a command line"))._replace(user_only=True)] = None
    timeout_s: Annotated[float, number(0.1, 60, "seconds")] = 5
    refresh_s: Annotated[float, number(0, 3600, "seconds")] = 0


class UiSettings(NamedTuple):
    """The look of the terminal; 0 characters per second means no limit.

    `notify` chooses how the user is alerted after a run of more than ten seconds; `vi` selects vi
    keys in the prompt, and `keys` lets keys do the work of others there. `screen_reader` repaints
    nothing and describes states in words.
    """

    theme: Annotated[options.ThemeChoice, choice(*get_args(options.ThemeChoice))] = options.THEME
    show_thinking: Annotated[bool, flag()] = False
    chars_per_second: Annotated[float, number(0, 100_000, "characters")] = 0
    notify: Annotated[options.Notify, choice(*get_args(options.Notify))] = options.NOTIFY
    vi: Annotated[bool, flag()] = False
    keys: Annotated[Mapping[str, str], key_map()] = MappingProxyType({})
    screen_reader: Annotated[bool, flag()] = False


class LogSink(NamedTuple):
    """One destination of log records, by default at `logging.level` in the state directory."""

    type: Annotated[str, choice("file", "console")] = "file"
    level: Annotated[str | None, optional(choice(*LEVELS, also=_LEVEL_WORDS))] = None
    path: Annotated[str | None, optional(text("a path"))] = None


class LoggingSettings(NamedTuple):
    """The log sinks, and the default level."""

    level: Annotated[str, choice(*LEVELS, also=_LEVEL_WORDS)] = "info"
    sinks: Annotated[tuple[LogSink, ...], records(LogSink)._replace(user_only=True)] = (
        LogSink("file", "info"),
        LogSink("console", "warning"),
    )


class AgentSettings(NamedTuple):
    """Subagents: how many at once, how many without asking, how deep, and how many rounds."""

    enabled: Annotated[bool, flag()._replace(stricter=off)] = True
    max_parallel: Annotated[int, _most(1, 64, "agents")] = 4
    ask_beyond: Annotated[int, _most(0, 64, "agents")] = 3
    max_depth: Annotated[int, _most(1, 8, "levels")] = 2
    max_rounds: Annotated[int, _ROUNDS] = 50


class TelemetrySettings(NamedTuple):
    """Export of spans and metrics: whether, where to, and whether with message texts.

    The end of a session waits at most `flush_timeout_s` for the last export.

    The standard variables win: OTEL_EXPORTER_OTLP_ENDPOINT and its kin, OTEL_SDK_DISABLED.
    """

    enabled: Annotated[bool, flag()._replace(user_only=True)] = False
    endpoint: Annotated[
        str, text("the address of an OTLP/HTTP receiver")._replace(user_only=True)
    ] = "http://localhost:4318"
    content: Annotated[bool, flag()._replace(user_only=True)] = False
    flush_timeout_s: Annotated[float, number(0, 60, "seconds")._replace(user_only=True)] = 2


class SessionSettings(NamedTuple):
    """The storage of conversations."""

    enabled: Annotated[bool, flag()._replace(stricter=off)] = True


class Settings(NamedTuple):
    """All settings of one run; immutable, `_replace` makes a changed copy."""

    model: Annotated[str, text("a model id or an alias from [models]")] = "claude-sonnet-5-5"
    model_fallback: Annotated[tuple[str, ...], texts(user_only=True)] = ()
    max_tokens: Annotated[int, whole(1, 1_000_000, "tokens")] = options.MAX_TOKENS
    temperature: Annotated[float | None, optional(number(0, 1))] = None
    effort: Annotated[
        options.ThinkingLevel | None,
        optional(choice(*get_args(options.ThinkingLevel), also=options.EFFORT_ALIASES)),
    ] = None
    streaming: Annotated[options.Streaming, choice(*get_args(options.Streaming))] = (
        options.STREAMING
    )
    tool_execution: Annotated[options.ToolExecution, choice(*get_args(options.ToolExecution))] = (
        options.TOOL_EXECUTION
    )
    steering: Annotated[options.Steering, choice(*get_args(options.Steering))] = options.STEERING
    approval: Annotated[options.ApprovalOrder, choice(*get_args(options.ApprovalOrder))] = (
        options.APPROVAL
    )
    output_style: Annotated[str, text("the name of an output style")] = "default"
    max_rounds: Annotated[int, _ROUNDS] = options.MAX_ROUNDS
    max_cost_usd: Annotated[float, _DOLLARS] = 0
    reread_question_usd: Annotated[float, _DOLLARS] = 0.05
    keep_cache_warm: Annotated[
        options.KeepWarm, choice(*get_args(options.KeepWarm), user_only=True)
    ] = "off"
    attach: Annotated[bool, flag()._replace(user_only=True)] = True
    working_directory: Annotated[str | None, optional(text("a path"))._replace(user_only=True)] = (
        None
    )
    models: Annotated[Mapping[str, str], text_map(by_name=True)] = MappingProxyType(
        {
            "normal": "claude-sonnet-5-5",
            "high": "claude-opus-5-5",
            "small": "claude-haiku-5-5",
        }
    )
    prices: Annotated[Mapping[str, str], price_map()] = MappingProxyType({})
    provider: ProviderSettings = ProviderSettings()
    history: HistorySettings = HistorySettings()
    compaction: CompactionSettings = CompactionSettings()
    retry: RetrySettings = RetrySettings()
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    undo: UndoSettings = UndoSettings()
    tools: ToolSettings = ToolSettings()
    jobs: JobSettings = JobSettings()
    agents: AgentSettings = AgentSettings()
    mcp: McpSettings = McpSettings()
    plugins: PluginSettings = PluginSettings()
    hooks: HookSettings = HookSettings()
    ui: UiSettings = UiSettings()
    status_line: StatusLineSettings = StatusLineSettings()
    logging: LoggingSettings = LoggingSettings()
    session: SessionSettings = SessionSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    def model_id(self, name: str | None = None) -> str:
        """Return the model id for an alias of `[models]`, or for Claude Code's name of one.

        Other names are returned unchanged, but for the window that Claude Code adds: "opus[1m]".
        What ends in "-fast" asks for fast mode of the model that the rest names.
        """
        requested = (self.model if name is None else name).removesuffix("[1m]")
        alias = requested.lower()
        if alias.endswith(options.FAST) and alias not in self.models:
            return f"{self.model_id(requested[: -len(options.FAST)])}{options.FAST}"
        known = alias if alias in self.models else _MODEL_WORDS.get(alias, requested)
        return self.models.get(known, known)
