"""The options of a session, and the program that they describe."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agent_cli.agents.definitions import LEVEL_OF_EFFORT, AgentDefinition, require_name
from agent_cli.app.arguments import Arguments
from agent_cli.app.checks import check_access, check_guards
from agent_cli.app.startup import StartupContext, start
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.options import (
    Effort,
    Function,
    Network,
    require,
    require_all,
    require_number,
    require_one_of,
    require_whole,
)
from agent_cli.contracts.permission_modes import STRICTNESS, Mode
from agent_cli.contracts.provider import Provider
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Deny, Tool
from agent_cli.core.returned_values import Maybe, settled
from agent_cli.hooks.definition import Hook, require_usable
from agent_cli.plugins.api import Plugin
from agent_cli.settings import RULE_KINDS, Override
from agent_cli.settings.schema import SandboxMode
from agent_cli.system import paths
from agent_cli.system.programs import shield_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.app.app import App

Approve: TypeAlias = Callable[[ToolCall], Maybe[Allow | Deny]]
"""Decides about a call that needs a person's approval; `call.reason` says why it does."""

SETTING_OF: Final[Mapping[str, str]] = {
    "model": "model",
    "effort": "effort",
    "max_tokens": "max_tokens",
    "max_rounds": "max_rounds",
    "max_cost_usd": "max_cost_usd",
    "permission_mode": "permissions.mode",
    "allow": "permissions.allow",
    "ask": "permissions.ask",
    "deny": "permissions.deny",
    "sandbox": "sandbox.mode",
    "network": "sandbox.network",
    "keep_session": "session.enabled",
}
"""The options that are settings: name of the field → key of the setting."""


_PARTS: Final = {"tools": Tool, "agents": AgentDefinition, "hooks": Hook, "plugins": Plugin}
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("trust", "continue_session"), (bool,)),
    **dict.fromkeys(("system_prompt", "append_system_prompt", "resume", "fork"), (str, type(None))),
    **dict.fromkeys(("mcp_servers", "settings", "environment"), (Mapping,)),
    **dict.fromkeys(("settings_file", "record", "replay"), (Path, type(None))),
    "json_schema": (Mapping, type(None)),
}
"""The types of options whose values no setting checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The options of a session; omitted options come from the user's settings, as for `-p`.

    Attributes:
        workspace: The directory that the tools work in; None is the current one.
        add_dirs: Further directories that the tools may use.
        trust: Use the settings, hooks, servers and skills of the workspace. Without it they count
            only if the user trusted them with `agent-cli trust`.
        model: An id, or an alias of the settings.
        effort: How much the model thinks; "max" means "xhigh".
        system_prompt: Replaces the program's own; None keeps that.
        append_system_prompt: Added behind the system prompt.
        max_tokens: The limit of one reply.
        max_rounds: The limit of model calls for one prompt; 0 sets none.
        max_cost_usd: The limit of cost of one prompt and all done for it, never exceeded; 0 sets
            none.
        permission_mode: "ask" by default; a question that nobody answers is a denial.
        allow, ask, deny: Permission rules ("read", "bash(npm test *)"), added to the user's.
        sandbox: Whether commands run in the sandbox: "auto", "required" or "off".
        network: Whether commands in the sandbox reach the network; "hosts": only the hosts that
            `network` rules or a person allow.
        tools: Tools beside the built-in ones, for subagents too; see `tool`.
        agents: Subagents beside the built-in ones and the user's; of equal names these count.
        hooks: Lifecycle hooks beside those of the settings; they run for subagents too.
        plugins: Plugins beside the shipped and the installed ones, for the session's own agent.
        mcp_servers: MCP servers by name, each an entry in the format of `.mcp.json`.
        json_schema: A JSON Schema (`Model.model_json_schema()`): each answer is a value that fits.
        approve: Decides about calls that need approval, those of subagents too.
        resume: The id of a session to continue.
        fork: The id of a session to continue in a copy; "ID@ENTRY" copies up to that entry.
        continue_session: Continue the last session of the workspace.
        keep_session: Whether the conversation is stored, so that it can be resumed.
        settings: Any other settings, by dotted key: {"retry.max": 2}.
        settings_file: One more settings file, after the user's and the project's.
        record: A file to write the model's replies to.
        replay: A file that `record` wrote, played in place of a model: no key is needed.
        provider: Answers all model calls of the session, in place of the settings' server: a
            gateway of yours, or a fake for tests. No key is needed; retries are its own.
        environment: Variables that replace those of the process: keys, addresses, AGENT_CLI_*.
    """

    workspace: Path | str | None = None
    add_dirs: Sequence[Path | str] = ()
    trust: bool = False
    model: str | None = None
    effort: Effort | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    max_tokens: int | None = None
    max_rounds: int | None = None
    max_cost_usd: float | None = None
    permission_mode: Mode | None = None
    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: SandboxMode | None = None
    network: Network | None = None
    tools: Sequence[Tool] = ()
    agents: Sequence[AgentDefinition] = ()
    hooks: Sequence[Hook] = ()
    plugins: Sequence[Plugin] = ()
    mcp_servers: Mapping[str, Mapping[str, Json]] = field(
        default_factory=dict[str, Mapping[str, Json]]
    )
    json_schema: Mapping[str, Json] | None = None
    approve: Approve | None = None
    resume: str | None = None
    fork: str | None = None
    continue_session: bool = False
    keep_session: bool | None = None
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    settings_file: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    provider: Provider | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def build(options: SessionOptions) -> "App":
    """Return the program for *options*, not started; this may take a second.

    Raises:
        UsageError: Two options exclude each other, or a directory does not exist.
        SettingsError: A setting, a hook, an agent or a server is not valid.
        AgentCliError: An option is of another type.
        NoCredentials, GuardsChanged: As for `agent-cli -p`.
    """
    workspace = _directory(options.workspace or Path.cwd())
    _check(options)
    shield_path(workspace)
    startup = start(
        _arguments(options), may_ask=False, workspace=workspace, variables=options.environment
    )
    check_guards(startup)
    if options.provider is None:
        check_access(startup)
    from agent_cli.app.app import App  # slow, and the caller's import waits for it

    # The logs are the host's: they are not configured here.
    app = App(
        _with_parts(startup, options), one_shot=True, log_secrets=Redactor.of(startup.environment)
    )
    if options.approve:
        app.answer_calls(_CallsOfAgents(options.approve))
    if options.json_schema is not None:
        app.require_answer(options.json_schema)
    return app


def _with_parts(startup: StartupContext, options: SessionOptions) -> StartupContext:
    from agent_cli.app.mcp import servers_of_program

    return startup._replace(
        servers=tuple(servers_of_program(startup, options.mcp_servers)),
        tools=tuple(options.tools),
        agents=tuple(options.agents),
        hooks=tuple(options.hooks),
        python_plugins=tuple(options.plugins),
        provider=options.provider,
    )


def _arguments(options: SessionOptions) -> Arguments:
    return Arguments(
        command="print",
        settings_file=options.settings_file,
        record=options.record,
        replay=options.replay,
        continue_session=options.continue_session,
        resume=options.resume,
        fork=options.fork,
        system_prompt=options.system_prompt,
        append_system_prompt=options.append_system_prompt,
        add_dirs=tuple(map(_directory, options.add_dirs)),
        trust=options.trust,
        overrides=tuple(_overrides(options)),
    )


def _overrides(options: SessionOptions) -> Iterator[Override]:
    for name, key in SETTING_OF.items():
        # Any: the types of the fields differ.
        value: Any = getattr(options, name)
        if name in RULE_KINDS:
            value = tuple(value) or None
        if value is not None:
            yield Override(key, value, name)
    for key, value in options.settings.items():
        yield Override(key, value, "settings")


def _check(options: SessionOptions) -> None:
    for name, part in _PARTS.items():
        require_all(getattr(options, name), part, what=name)
    for name, kinds in _KINDS.items():
        require(getattr(options, name), *kinds, what=name)
    chosen = [options.resume is not None, options.fork is not None, options.continue_session]
    if sum(chosen) > 1:
        raise UsageError("resume, fork and continue_session exclude each other: give one of them")
    if sum(map(bool, (options.record, options.replay, options.provider))) > 1:
        raise UsageError("record, replay and provider exclude each other: give one of them")
    provider: object = options.provider
    if isinstance(provider, type):
        name = provider.__name__
        raise UsageError(f"provider must be an object with a stream, not a class: {name}()")
    if options.provider is not None:
        require(getattr(options.provider, "stream", None), Function, what="provider.stream")
    require(options.approve, Function, type(None), what="approve")
    if "" in (options.resume, options.fork):
        raise UsageError("resume and fork need the id of a session; list_sessions() returns them")
    for name in (*RULE_KINDS, "add_dirs"):
        if isinstance(getattr(options, name), str):
            raise UsageError(f"{name} must be a list of texts, not one text")
        require_all(getattr(options, name), what=name)
    if options.json_schema is not None:
        from agent_cli.headless.structured import OutputSchema  # rare

        OutputSchema.of(options.json_schema, "json_schema")
    for hook in options.hooks:
        require_usable(hook)
    for agent in options.agents:
        _check_agent(agent)


def _check_agent(agent: AgentDefinition) -> None:
    require(agent.name, str, what="the name of an agent")
    try:
        require_name(agent.name)
    except ValueError as error:
        raise SettingsError(f"agents: {error}") from error
    named = f"agent {agent.name}:"
    for name in ("description", "prompt", "model"):
        require(getattr(agent, name), str, what=f"{named} {name}")
    for name in ("tools", "denied_tools", "servers"):
        if (patterns := getattr(agent, name)) is not None:
            require_all(patterns, str, what=f"{named} {name}")
    require_one_of(agent.mode, (*STRICTNESS, None), what=f"{named} mode")
    require_one_of(agent.effort, (*LEVEL_OF_EFFORT, None), what=f"{named} effort")
    require_whole(agent.max_rounds, 0, what=f"{named} max_rounds")
    require_number(agent.max_cost_usd, what=f"{named} max_cost_usd")


def _directory(directory: Path | str) -> Path:
    path = paths.expanded(str(directory))
    if not paths.is_dir(path):
        raise UsageError(f"{directory} is not a directory")
    return path.resolve()


@dataclass(frozen=True, slots=True)
class _CallsOfAgents:
    """Lets `approve` decide about the calls of subagents."""

    approve: Approve
    can_ask: bool = True

    async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:  # noqa: ARG002 - the port has it
        """Return a decision about each of *calls*."""
        return [await decided(self.approve, call) for call in calls]


async def decided(approve: Approve, call: ToolCall) -> Decision:
    """Return the decision of *approve* about *call*; raises TypeError if it is none."""
    verdict: object = await settled(approve(call))
    match verdict:
        case Allow():
            return Approved(verdict.input)
        case Deny():
            return Rejected(verdict.reason)
        case _:
            raise TypeError(f"approve must return Allow or Deny, not {type(verdict).__name__}")
