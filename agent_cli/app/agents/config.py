"""The configuration of an agent: one builder for the session's agent and for its subagents.

The table of contributors to `prepare` says for each one whether it serves the session's agent, its
subagents, or both; the test of this table lists the result.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_cli.app import parts
from agent_cli.app.models.model_calls import AgentWatches
from agent_cli.app.workspace.session_workspace import SessionWorkspace
from agent_cli.contracts.events import EventSink, ToolCall
from agent_cli.contracts.tooling import Tool, ToolResult, Verdict
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.returned_values import Maybe, TakeMessages
from agent_cli.core.turn import Turn
from agent_cli.core.waits import InOrder
from agent_cli.plugins.facts import SessionFacts, tell_pins
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.history_cuts import Trimming
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.request_settings import note_effort, plan_mode, without_denied
from agent_cli.policies.results import HiddenCredentials, OldResults, Truncation
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.app.agents.workspaces import AgentWorkspace

Role: TypeAlias = Literal["session", "subagent"]
Contributor: TypeAlias = Callable[[Turn], Maybe[None]]
_BOTH: Final[tuple[Role, ...]] = ("session", "subagent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The parts of one agent.

    Attributes:
        role: Whose agent it is.
        where: Its workspace, with the settings, the sandbox and the permissions there.
        options: Its model, system prompt and limits.
        undone: Tells the model which of its changes the user undid.
        hook_changes: Tells it which files that it has read hooks changed; None without hooks.
        is_planning: Whether plan mode holds for it now.
        goal, style, agents: Only the session's agent has a goal, an output style, and agents of
            plugins.
        add_receipt: Adds to a result what it says as a check; the session's agent has it.
        plugins: Its plugins; a subagent has the project's instructions only, or none.
        publish: Receives the events of its results.
    """

    role: Role
    where: "SessionWorkspace | AgentWorkspace"
    options: LoopConfig
    tools: Sequence[Tool]
    path_order: InOrder
    directories: Contributor
    servers: Contributor
    undone: Contributor
    jobs: Contributor
    ledger: Ledger
    compaction: Compaction
    watches: AgentWatches
    is_planning: Callable[[], bool]
    authorize: Callable[[ToolCall, Tool, object], Maybe[Verdict]]
    follow_ups: TakeMessages
    publish: EventSink
    hook_changes: Contributor | None = None
    goal: Contributor | None = None
    style: Contributor | None = None
    plugins: Contributor | None = None
    agents: Contributor | None = None
    add_receipt: Callable[[ToolCall, ToolResult], Awaitable[ToolResult]] | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """A contributor to `prepare`, and the agents that get it."""

    name: str
    roles: tuple[Role, ...]
    of: Callable[[AgentParts], Contributor | None]


CONTRIBUTIONS: Final = (
    Contribution("old results", ("session",), lambda agent: _old_results(agent)),
    Contribution("directories", _BOTH, lambda agent: agent.directories),
    Contribution("output style", ("session",), lambda agent: agent.style),
    Contribution("plugins", _BOTH, lambda agent: agent.plugins),
    Contribution("agents of plugins", ("session",), lambda agent: agent.agents),
    Contribution("servers", _BOTH, lambda agent: agent.servers),
    # The last part of the system prompt: it differs from session to session.
    Contribution("facts", _BOTH, lambda agent: SessionFacts(agent.where.workspace.root)),
    Contribution(
        "plan mode",
        _BOTH,
        lambda agent: plan_mode(agent.is_planning, has_user=agent.role == "session"),
    ),
    Contribution("undone changes", _BOTH, lambda agent: agent.undone),
    Contribution("changes of hooks", _BOTH, lambda agent: agent.hook_changes),
    Contribution("pins", ("session",), lambda _agent: tell_pins),
    Contribution("jobs", _BOTH, lambda agent: agent.jobs),
    Contribution(
        "denied tools", _BOTH, lambda agent: without_denied(agent.where.permissions.denies_tool)
    ),
    Contribution("goal", ("session",), lambda agent: agent.goal),
    Contribution("model fallback", _BOTH, lambda agent: agent.watches.fallback),
    Contribution("effort", _BOTH, lambda _agent: note_effort),
    Contribution("budget", _BOTH, lambda agent: agent.ledger),
    Contribution("compaction", _BOTH, lambda agent: agent.compaction),
    Contribution("trimming", _BOTH, lambda agent: _trimming(agent)),
    Contribution("prefix watch", _BOTH, lambda agent: agent.watches.prefix),
)
"""In the order in which they are called; the prefix watch sees the changes of all others."""


def config_of(agent: AgentParts) -> LoopConfig:
    """Return the configuration of *agent*, without the hooks around it."""
    made = (each.of(agent) for each in CONTRIBUTIONS if agent.role in each.roles)
    history = agent.where.startup.loaded.settings.history
    return replace(
        agent.options,
        tools=agent.tools,
        stream_fn=agent.watches.fallback.stream,
        services={"workspace": agent.where.workspace.root, "sandbox": agent.where.sandbox},
        path_order=agent.path_order,
        prepare=tuple(each for each in made if each is not None),
        authorize_tool=agent.authorize,
        get_follow_up_messages=agent.follow_ups,
        finish_result=_finish(agent, history.max_tool_result_chars),
    )


def _finish(agent: AgentParts, limit_chars: int) -> Callable[..., Maybe[ToolResult]]:
    truncation = Truncation(agent.publish, limit_chars=limit_chars)
    without_credentials = HiddenCredentials(agent.where.workspace.root)
    add_receipt = agent.add_receipt

    async def finish(call: ToolCall, result: ToolResult) -> ToolResult:
        result = await without_credentials(result)
        return truncation(call, await add_receipt(call, result) if add_receipt else result)

    return finish


def _old_results(agent: AgentParts) -> OldResults | None:
    settings = agent.where.startup.loaded.settings
    if not (settings.history.leave_out_old_results and agent.compaction.can_recall):
        return None
    return OldResults(parts.price(agent.where.startup), used_s=lambda: agent.watches.prefix.used_s)


def _trimming(agent: AgentParts) -> Trimming:
    settings = agent.where.startup.loaded.settings
    return Trimming(
        max_messages=settings.history.max_conversation_messages,
        words_chars=settings.compaction.user_words_chars,
        can_recall=agent.compaction.can_recall,
    )
