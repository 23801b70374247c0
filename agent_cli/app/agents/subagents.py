"""Subagents of the session's agent, built from its parts and never with more rights than it has."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.agents.children import Assignment, Children, Worker
from agent_cli.agents.definitions import LEVEL_OF_EFFORT, AgentDefinition
from agent_cli.agents.tool import agent_tool, updated_description
from agent_cli.app import parts
from agent_cli.app.agents import AgentList, catalogue, plugin_agents
from agent_cli.app.agents.config import AgentParts, config_of
from agent_cli.app.jobs import AgentJobs
from agent_cli.app.plugins import agent_plugins, skill_texts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.servers import is_of_server
from agent_cli.contracts.tooling import RECALL_TOOL, Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.turn import Turn
from agent_cli.core.waits import AGENT_SLOT_LIMIT_S, CapacityLimiter, InOrder
from agent_cli.plugins.facts import WorkspaceDirectories
from agent_cli.policies.ledger import Ledger
from agent_cli.prompt_files import model_name
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.app.agents.worker import AgentServers
    from agent_cli.app.agents.workspaces import AgentWorkspace
    from agent_cli.app.workbench import Workbench


@dataclass(frozen=True, slots=True)
class _Rank:
    """The rights and limits of an agent; its children never get more.

    Attributes:
        allows: Returns whether it may use the tool of that name.
        assignment: Its task; the session's agent has none.
        where: Returns its workspace; its children share that unless they are isolated.
    """

    agent: Callable[[], Agent]
    ledger: Ledger
    where: Callable[[], "AgentWorkspace"]
    allows: Callable[[str], bool] = lambda _name: True
    assignment: Assignment | None = None


class AgentTree:
    """The agents of one session, nested ones too: one ledger, one file queue, one person."""

    def __init__(
        self,
        bench: "Workbench",
        startup: StartupContext,
        *,
        of_plugins: Callable[[], Mapping[str, Path]],
    ) -> None:
        """Start no agent yet.

        Args:
            bench: Agents are built from its parts when they start.
            startup: The workspace and the settings.
            of_plugins: Returns the directories of definitions of the loaded packages.
        """
        self.path_order = InOrder()
        self._bench = bench
        self._startup = startup
        self._settings = startup.loaded.settings.agents
        self._slots = CapacityLimiter(
            self._settings.max_parallel, "a slot among the agents", limit_s=AGENT_SLOT_LIMIT_S
        )
        self._catalogue = catalogue(startup, bench.announce.warn)
        self._of_plugins = of_plugins
        self._warned: set[str] = set()
        self.list = AgentList(self._with_servers)
        self._own_tools = self._tools_of(
            _Rank(lambda: bench.agent, bench.calls.ledger, self._session_workspace)
        )

    def tools(self) -> Sequence[Tool]:
        """Return the tool with which the session's agent starts subagents, if it may.

        It names the agents of plugins only once these are loaded.
        """
        if folders := plugin_agents(self._startup, self._of_plugins()):
            self._catalogue.add_plugins(folders)
            agents = self._catalogue.all()
            self._own_tools = [updated_description(tool, agents) for tool in self._own_tools]
        return self._own_tools

    async def __call__(self, turn: Turn) -> None:
        """Offer the agents of plugins, which are loaded by now; a `prepare` contributor."""
        own = {tool.name: tool for tool in self.tools()}
        turn.tools = [own.get(tool.name, tool) for tool in turn.tools]

    def _tools_of(self, rank: _Rank) -> Sequence[Tool]:
        depth = rank.assignment.depth if rank.assignment else 0
        if not self._settings.enabled or depth >= self._settings.max_depth:
            return ()
        children = Children(
            self._catalogue,
            lambda assignment: self._built(assignment, rank),
            slots=self._slots,
            parent=rank.agent,
            above=rank.assignment,
            begin=None if rank.assignment else self._bench.jobs.start_agent,
            listing=self.list.working,
        )
        person = self._bench.person
        ask_beyond = self._settings.ask_beyond
        return (agent_tool(children, ask_beyond=ask_beyond, can_ask=lambda: person.can_decide),)

    def _session_workspace(self) -> "AgentWorkspace":
        from agent_cli.app.agents.workspaces import AgentWorkspace  # with the first agent

        return AgentWorkspace.of_session(self._bench.session)

    @asynccontextmanager
    async def _built(self, assignment: Assignment, parent: _Rank) -> AsyncGenerator[Worker]:
        """Build the agent for *assignment*; close its session afterwards.

        Its parts come first, and take functions that return the agent: these raise a `NameError`
        if a part calls them before the agent is there.
        """
        from agent_cli.app.agents.worker import AgentWorker  # with the first agent

        definition, bench = assignment.definition, self._bench
        self.list.note(assignment, "starting")
        ledger = parent.ledger.child(lambda: agent.conversation, limit_usd=definition.max_cost_usd)
        above = parent.where()
        async with AsyncExitStack() as stack:
            mode = definition.mode
            agent_workspace = (
                await above.isolated(mode) if assignment.is_isolated else above.shared(mode)
            )
            stack.push_async_callback(agent_workspace.leave)
            directories = stack.enter_context(agent_workspace.directories())
            rank = _Rank(
                lambda: agent,
                ledger,
                lambda: agent_workspace,
                lambda name: parent.allows(name) and _allows(definition, name),
                assignment,
            )
            jobs = AgentJobs(agent_workspace.workspace, bench.announce, lambda: agent)
            own_servers = self._servers(definition, rank)
            self.list.uses(assignment, own_servers.states)
            servers = await stack.enter_async_context(own_servers)
            config = bench.hooks.around_calls(
                self._config(assignment, parent, rank, directories, jobs, servers),
                parts.reach(agent_workspace.startup),
                lambda: agent_workspace.working(agent, definition.name),
            )
            agent = Agent(bench.telemetry.around_calls(config), conversation=Conversation())
            closing = bench.sessions.keep_agent(
                agent,
                parent=assignment.parent,
                tool_call_id=assignment.tool_call_id,
                name=definition.name,
            )
            stack.callback(closing)
            stack.push_async_callback(jobs.end)
            agent.subscribe(ledger.listen)
            if contexts := await bench.hooks.agent_starts(
                agent_workspace.working(agent, definition.name)
            ):
                prompt = "\n\n".join((agent.state.system_prompt, *contexts))
                agent.set_system_prompt(prompt)
            stack.enter_context(self.list.following(assignment, agent))
            yield AgentWorker(bench, assignment, agent, jobs, agent_workspace, servers)

    def _with_servers(self) -> Sequence[AgentDefinition]:
        """Return the definitions whose agents start MCP servers."""
        if not (self._settings.enabled and self._startup.loaded.settings.mcp.enabled):
            return ()
        return [each for each in self._catalogue.all() if each.own_servers]

    def _servers(self, definition: AgentDefinition, rank: _Rank) -> "AgentServers":
        from agent_cli.app.agents.worker import AgentServers  # with the first agent

        directories, root = self._bench.session.directories, rank.where().workspace.root
        return AgentServers(
            self._startup,
            definition,
            self._bench.servers,
            lambda: (root, *directories.all[1:]),
            rank.allows,
        )

    def _config(
        self,
        assignment: Assignment,
        parent: _Rank,
        rank: _Rank,
        directories: WorkspaceDirectories,
        jobs: AgentJobs,
        servers: "AgentServers",
    ) -> LoopConfig:
        agent_workspace = rank.where()
        workspace, definition = agent_workspace.workspace, assignment.definition
        startup, bench = self._startup, self._bench
        own = (*parts.tools(startup, workspace, agent_workspace.sandbox), *self._tools_of(rank))
        model = model_name(assignment.model)
        effort = definition.effort or startup.loaded.settings.effort
        prompt = (definition.prompt, *skill_texts(startup, definition.skills), agent_workspace.note)
        denies = agent_workspace.permissions.denies_tool
        recalls = rank.allows(RECALL_TOOL) and not denies(RECALL_TOOL)
        instructs = bench.tell_hooks if definition.has_instructions else None
        watches = bench.calls.watches(rank.ledger.stream, lambda: rank.agent().conversation)
        summarizes = watches.fallback.beside(rank.ledger.stream)
        around = bench.hooks.around_compaction(
            lambda: agent_workspace.working(rank.agent(), definition.name)
        )
        return config_of(
            AgentParts(
                role="subagent",
                where=agent_workspace,
                options=replace(
                    parts.run_options(startup),
                    system_prompt="\n\n".join(filter(None, prompt)),
                    model=bench.calls.named(model) if model else parent.agent().state.model,
                    thinking_level=LEVEL_OF_EFFORT[effort] if effort else None,
                    max_rounds=definition.max_rounds or self._settings.max_rounds,
                ),
                tools=self._checked(definition, [each for each in own if rank.allows(each.name)]),
                path_order=self.path_order,
                directories=directories,
                plugins=agent_plugins(startup, bench.announce.warn, instructs, recalls=recalls),
                servers=servers,
                # One that always plans has that in its prompt.
                is_planning=lambda: agent_workspace.mode == "plan" and definition.mode != "plan",
                undone=bench.session.file_changes.teller(),
                hook_changes=bench.hooks.changes_for(workspace),
                jobs=jobs,
                ledger=rank.ledger,
                compaction=parts.compaction(startup, summarizes, around, recalls=recalls),
                watches=watches,
                authorize=bench.judge.around(
                    agent_workspace.authorize,
                    mode=lambda: agent_workspace.mode,
                    agent=lambda: rank.agent().conversation,
                ),
                follow_ups=jobs.follow_ups,
                publish=lambda event: rank.agent().publish(event),
            )
        )

    def _checked(self, definition: AgentDefinition, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return *tools*; warn once of tools that *definition* names and the session lacks.

        Those of servers come later.
        """
        there = [tool.name for tool in tools]
        named = [name for name in definition.tools or () if not name.startswith(OF_SERVERS)]
        missing = [name for name in named if not any(fnmatchcase(each, name) for each in there)]
        if not missing or definition.name in self._warned:
            return tools
        self._warned.add(definition.name)
        names = ", ".join(missing)
        goes = f"has no tools: there are none named {names}"
        if there or len(named) < len(definition.tools or ()):
            goes = f"goes without {names}: there are no such tools for it here"
        self._bench.announce.warn(f"agent {definition.name} {goes}")
        return tools


def _allows(definition: AgentDefinition, name: str) -> bool:
    """Return whether *definition* allows its agent the tool *name*."""
    servers = definition.servers if name.startswith(OF_SERVERS) else None
    if servers is not None and not any(is_of_server(name, server) for server in servers):
        return False
    if _is_named(name, definition.denied_tools):
        return False
    return definition.tools is None or _is_named(name, definition.tools)


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) or name.startswith(f"{each}__") for each in patterns)
