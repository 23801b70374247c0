"""Subagents of the session's agent, built from its parts and never with more rights than it has."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from agent_cli.agents.catalogue import AgentCatalogue, AgentFolder
from agent_cli.agents.children import Assignment, Children, ParallelLimit, Worker
from agent_cli.agents.definition import AgentDefinition
from agent_cli.agents.tool import TOOL, agent_tool
from agent_cli.app import parts
from agent_cli.app.agent_jobs import AgentJobs
from agent_cli.app.plugins import agent_plugins, skill_texts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import Mode, stricter
from agent_cli.contracts.tooling import Tool, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.batches import InOrder
from agent_cli.core.conversation import Conversation
from agent_cli.core.declining import REFUSALS_MAX, decline_and_stop
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run_result import RunResult
from agent_cli.core.turn import Turn
from agent_cli.mcp_client.deferral import SEARCH_TOOL
from agent_cli.plugins.workspace_facts import WorkspaceDirectories
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.trimming import Trimming
from agent_cli.policies.truncation import Truncation
from agent_cli.prompt_files import front_matter
from agent_cli.system import paths
from agent_cli.trust.store import AGENT_FOLDERS
from agent_cli_tools.workspace import Workspace

if TYPE_CHECKING:
    from agent_cli.app.workbench import Workbench

_SENT_BACK_MAX: Final = 3
_KEEPS_ASKING: Final = (
    "The agent {} kept asking for what needs a person's approval, and nobody can be asked in this"
    " run; so it was stopped. Go on without it, and say at the end what was left out."
)
_CHANGED: Final = "what acts in this workspace changed; `agent-cli trust` trusts it as it is now"


@dataclass(frozen=True, slots=True)
class _Rank:
    """The rights and limits of an agent, which those of its children never exceed.

    Attributes:
        allows: Returns whether it may have the tool of that name.
        mode: Its own permission mode; the session's applies as well.
        depth: The depth of its children.
        place: The holder of its place among the running agents; the session's agent needs none.
    """

    agent: Callable[[], Agent]
    ledger: Ledger
    allows: Callable[[str], bool] = lambda _name: True
    mode: Mode = "yolo"
    depth: int = 1
    place: object = None


class AgentTree:
    """The agents of one session, nested ones too: one ledger, one file queue, one person."""

    def __init__(self, bench: "Workbench", startup: StartupContext) -> None:
        """Start no agent yet; agents are built from the parts of *bench* when they start."""
        self.path_order = InOrder()
        self._bench = bench
        self._startup = startup
        self._settings = startup.loaded.settings.agents
        self._places = ParallelLimit(self._settings.max_parallel)
        self._catalogue = _catalogue(startup, bench.announce.warn)

    def tools(self) -> Sequence[Tool]:
        """Return the tool with which the session's agent starts subagents, if it may."""
        bench = self._bench
        return self._tools_of(_Rank(lambda: bench.agent, bench.ledger))

    def _tools_of(self, rank: _Rank) -> Sequence[Tool]:
        if not self._settings.enabled or rank.depth > self._settings.max_depth:
            return ()
        children = Children(
            self._catalogue,
            lambda assignment: self._built(assignment, rank),
            places=self._places,
            publish=lambda event: rank.agent().publish(event),
            conversation=lambda: rank.agent().conversation,
            depth=rank.depth,
            place=rank.place,
            begin=self._bench.jobs.start_agent if rank.depth == 1 else None,
        )
        return (agent_tool(children, ask_beyond=self._settings.ask_beyond),)

    @asynccontextmanager
    async def _built(self, assignment: Assignment, parent: _Rank) -> AsyncGenerator[Worker]:
        """Build the agent for *assignment*; close its session afterwards."""
        definition, bench = assignment.definition, self._bench
        ledger = parent.ledger.child(lambda: agent.conversation, limit_usd=definition.max_cost_usd)
        rank = _Rank(
            lambda: agent,
            ledger,
            lambda name: parent.allows(name) and _allows(definition, name),
            stricter(parent.mode, definition.mode or parent.mode),
            assignment.depth + 1,
            assignment,
        )
        workspace = bench.workspace.for_another_agent()
        jobs = AgentJobs(workspace, bench.announce, lambda: agent)
        config = bench.hooks.around_calls(
            self._config(assignment, parent, rank, workspace, jobs), parts.place(self._startup)
        )
        agent = Agent(bench.telemetry.around_calls(config), conversation=Conversation())
        closing = bench.sessions.keep_agent(
            agent,
            parent=assignment.parent,
            tool_call_id=assignment.tool_call_id,
            name=definition.name,
        )
        agent.subscribe(ledger.listen)
        try:
            contexts = await bench.hooks.agent_starts(agent.conversation.id, definition.name)
            if contexts:
                prompt = "\n\n".join((agent.state.system_prompt, *contexts))
                agent.set_system_prompt(prompt)
            yield _Worker(bench, assignment, agent, jobs)
        finally:
            await jobs.end()
            closing()

    def _config(
        self,
        assignment: Assignment,
        parent: _Rank,
        rank: _Rank,
        workspace: Workspace,
        jobs: AgentJobs,
    ) -> LoopConfig:
        startup, bench, definition = self._startup, self._bench, assignment.definition
        settings = startup.loaded.settings
        own = (*parts.tools(startup, workspace, bench.sandbox), *self._tools_of(rank))
        options = parts.run_options(startup)
        model = front_matter.model_name(assignment.model)

        async def authorize(call: ToolCall, tool: Tool, params: object) -> Verdict:
            return await bench.permissions(call, tool, params, mode=rank.mode)

        def offer_servers(turn: Turn) -> None:
            tools = bench.servers.offered()
            turn.tools += [
                tool for tool in tools if rank.allows(tool.name) and tool.name != SEARCH_TOOL
            ]

        return replace(
            options,
            system_prompt="\n\n".join(
                (definition.prompt, *skill_texts(startup, definition.skills))
            ),
            model=bench.named_model(model) if model else parent.agent().state.model,
            thinking_level=definition.effort or options.thinking_level,
            max_rounds=definition.max_rounds or self._settings.max_rounds,
            tools=[tool for tool in own if rank.allows(tool.name)],
            stream_fn=rank.ledger.stream,
            services={"workspace": workspace.root, "sandbox": bench.sandbox},
            path_order=self.path_order,
            prepare=(
                WorkspaceDirectories(workspace.root, bench.directories.all[1:]),
                *([agent_plugins(startup, bench.announce.warn)] * definition.has_instructions),
                offer_servers,
                jobs,
                rank.ledger,
                parts.compaction(startup, rank.ledger.stream, bench.hooks),
                Trimming(max_messages=settings.history.max_conversation_messages),
            ),
            authorize_tool=authorize,
            get_follow_up_messages=jobs.follow_ups,
            finish_result=Truncation(
                lambda event: rank.agent().publish(event),
                limit_chars=settings.history.max_tool_result_chars,
            ),
        )


class _Worker:
    """An agent with its task, as `Children` needs it."""

    def __init__(
        self, bench: "Workbench", assignment: Assignment, agent: Agent, jobs: AgentJobs
    ) -> None:
        self.agent = agent
        self._bench = bench
        self._assignment = assignment
        self._jobs = jobs
        self._sent_back = 0
        self._refusals = 0

    async def decide(self) -> RunResult:
        """Have the person decide the waiting calls, and continue the run.

        Raises:
            ToolError: Nobody is there, and it has been told so often enough.
        """
        if not self._bench.person.can_decide:
            if self._refusals == REFUSALS_MAX:
                waiting = self.agent.conversation.questions()
                await decline_and_stop(self.agent, [call.tool_call_id for call in waiting])
                raise ToolError(_KEEPS_ASKING.format(self._assignment.definition.name))
            self._refusals += 1
        result = await self._bench.person.decide(self.agent, self._assignment.who)
        if result.stop_reason == "aborted":
            self._bench.agent.abort()  # stopping at a question stops the whole session's run
        return result

    async def send_back(self, text: str) -> str:
        """Return why SubagentStop hooks do not let the agent end, "" after a few times."""
        if self._sent_back == _SENT_BACK_MAX:
            return ""
        again, self._sent_back = self._sent_back > 0, self._sent_back + 1
        name = self._assignment.definition.name
        why = await self._bench.hooks.agent_ends(
            self.agent.conversation.id, name, text, again=again
        )
        return f"[A SubagentStop hook of the user's does not let you end yet: {why}]" if why else ""

    async def end(self) -> str:
        """End what it left running; return what else the model has to be told."""
        return await self._jobs.end()


def _allows(definition: AgentDefinition, name: str) -> bool:
    """Return whether *definition* lets its agent have the tool *name*."""
    server = name.split("__")[1] if name.startswith("mcp__") else ""
    if server and definition.servers is not None and server not in definition.servers:
        return False
    if _is_named(name, definition.denied_tools):
        return False
    return definition.tools is None or _is_named(name, definition.tools)


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) or name.startswith(f"{each}__") for each in patterns)


def _catalogue(startup: StartupContext, warn: Callable[[str], None]) -> AgentCatalogue:
    """Return the defined agents; those of a workspace only if it is trusted."""

    def objection() -> str:
        try:
            return "" if startup.is_unchanged() else _CHANGED
        except SettingsError as error:
            return str(error)

    workspace = startup.workspace
    project = [AgentFolder(workspace / folder, inside=workspace) for folder in AGENT_FOLDERS]
    folders = [AgentFolder(paths.config_dir() / "agents"), *(project if startup.trusted else ())]
    return AgentCatalogue(folders, warn=warn, our_tool_name=_our_tool_name, objection=objection)


def _our_tool_name(name: str) -> str:
    from agent_cli.hooks.claude_names import our_tool_name  # noqa: PLC0415 - most define none

    return TOOL if name in ("Agent", "Task") else our_tool_name(name)
