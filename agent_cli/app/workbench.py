"""One agent with all its parts: every feature is switched on here.

Start (arguments, settings, environment)
  → workspace, sandbox, permissions, tools                         session_workspace.py
  → calls: provider, budget                                        model_calls.py
  → MCP servers, plugins, subagents, hooks
  → prepare: facts, plugins, plan mode, ...; also for subagents    agents/config.py
  → authorize_tool: permissions, judge   finish_result: truncation   around every tool call
  → lifecycle hooks around both, before prompts and at the end      if any are defined
  → Agent; front ends subscribe to it

It knows no front end. A process may have several workbenches, one for each session.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from agent_cli.app import parts
from agent_cli.app.agents.config import AgentParts, config_of
from agent_cli.app.agents.subagents import AgentTree
from agent_cli.app.checks.named_tools import dead_rules
from agent_cli.app.goals import SessionGoal, SessionReceipts, before, session_goal
from agent_cli.app.hooks.lifecycle import HookHost, SessionHooks
from agent_cli.app.jobs import JobHost
from agent_cli.app.mcp.host import ServerHost
from agent_cli.app.mcp.servers import Servers
from agent_cli.app.models.context_window import ContextWindow
from agent_cli.app.models.model_calls import ModelCalls, SessionJudge, kept_warm
from agent_cli.app.person import ModelsPerson
from agent_cli.app.plugins import instructions_at_start, output_styles, plugins
from agent_cli.app.preparations import Preparations
from agent_cli.app.sessions import Sessions
from agent_cli.app.startup import StartupContext
from agent_cli.app.telemetry import SessionTelemetry
from agent_cli.app.web_tools import platform_has
from agent_cli.app.workspace.session_workspace import SessionWorkspace
from agent_cli.contracts.claude_tools import CLAUDE_NAMES
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import RECALL_TOOL, WEB_FETCH_TOOL, WEB_SEARCH_TOOL, Tool
from agent_cli.core.agent import Agent
from agent_cli.core.listeners import HeldEvents
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.request_settings import AnswerFormat, undeclared

if TYPE_CHECKING:
    from agent_cli.hooks.judging import HookServices

# Most plugins are ready at once; the rest delay the first model call, not the first prompt.
_PLUGINS_LIMIT_S = 1.0


class Workbench:
    """The agent of one session, built; `async with` starts and finally stops its parts.

    The constructor may take a second and may run in any thread; entering is quick. Configure the
    logs before entering it. Parts are built in the order in which they need each other. If one
    needs a part that is built later (the agent, its sessions), it gets a function to call once the
    constructor has ended; an earlier call raises an `AttributeError` at every start.
    """

    def __init__(self, startup: StartupContext, *, one_shot: bool) -> None:
        """Build for the workspace of *startup*; *one_shot* is one prompt, with no one to ask."""
        self._startup = startup
        self._stack = AsyncExitStack()
        self.announce = announce = HeldEvents(lambda event: self.agent.publish(event))
        warn = self.announce.warn
        self.telemetry = SessionTelemetry(startup, warn)
        self.person = ModelsPerson(lambda: self.session.permissions)
        self.session = SessionWorkspace(
            startup,
            warn,
            command_variables=self.telemetry.command_variables,
            opened=self._opened,
            one_shot=one_shot,
            person=self.person,
        )
        self._preparations = Preparations(self.session, one_shot=one_shot)
        self.calls = ModelCalls(
            startup,
            telemetry=self.telemetry,
            on_sent=self._preparations.request_sent,
            on_refused_tool=self._leave_out,
            conversation=lambda: self.agent.conversation,
            of_agents=lambda prompt: self.sessions.cost_of_agents(prompt),
            publish=self.announce,
        )
        rules, reach = self.session.permissions, parts.reach(startup)
        self.judge = SessionJudge(self.calls, rules, reach, lambda: self.agent.conversation)
        self.answer_format = AnswerFormat(self.calls.ledger.stream)
        self.watches = self.calls.watches(
            self.answer_format.stream, lambda: self.agent.conversation, consent=self.person.pays
        )
        self.ask_beside = self.watches.fallback.beside(self.calls.stream)
        self._kept_warm = kept_warm(self, startup, one_shot=one_shot)
        self.jobs = JobHost(
            self.session.workspace,
            self.announce,
            lambda: self.agent,
            until_compacted=lambda: self.context.until_compacted(),
        )
        self.goal = self._new_goal(one_shot=one_shot)
        self.receipts = SessionReceipts(self.session, lambda: self.agent.conversation, announce)
        self.servers = self._new_servers(one_shot=one_shot)
        self._plugins = plugins(
            startup, warn=warn, one_shot=one_shot, person=self.person, tell_hooks=self.tell_hooks
        )
        self.output_styles = output_styles(startup, warn)
        self.agents = AgentTree(self, startup, of_plugins=self._plugins.agent_folders)
        self.hooks = self._new_hooks(one_shot=one_shot)
        self.person.elsewhere = self.hooks.answers.questions if self.hooks.answers else None
        around, recalls = self.hooks.around_compaction(), not rules.denies_tool(RECALL_TOOL)
        self.compaction = parts.compaction(startup, self.ask_beside, around, recalls=recalls)
        config = self.hooks.around(self._config(), reach)
        self.agent = Agent(self.telemetry.around_calls(config))
        self.person.steer = self.agent.steer
        self.context = self._new_context(startup)
        on_copy = self.session.file_changes.copy
        self.sessions = Sessions(startup, self.agent, self.announce, on_copy=on_copy)
        self._subscribe_listeners()

    def _subscribe_listeners(self) -> None:
        for listener in (
            self._preparations.log,
            self.calls.ledger.listen,
            self.goal.listen,
            self.session.file_changes,
            self.servers.note_run,
            self.hooks.listen,
        ):
            self.agent.subscribe(listener)
        self.telemetry.follow(self.agent)

    def _new_context(self, startup: StartupContext) -> ContextWindow:
        return ContextWindow(
            self.agent,
            self.compaction,
            model=lambda: self.model,
            tools=lambda: (*self.own_tools(), *self.servers.offered()),
            publish=self.announce,
            at_start=partial(instructions_at_start, startup),
        )

    def tell_hooks(self, event: str, matched: str, about: Mapping[str, Json]) -> None:
        """Run the hooks of *event*; see `SessionHooks.tell`."""
        if event == "InstructionsLoaded":
            self.context.note_instructions(event, matched, about)
        self.hooks.tell(event, matched, about)

    def _opened(self, folder: Path) -> None:
        self.servers.tell_roots()
        about: dict[str, Json] = {"directory": str(folder), "source": "slash_command"}
        self.hooks.tell("DirectoryAdded", folder.name, about)

    def _leave_out(self, tool: str, reason: str) -> None:
        if tool in (WEB_SEARCH_TOOL, WEB_FETCH_TOOL):
            self.announce.warn(f"the API refuses {tool}; this session goes on without: {reason}")
            return  # what is read anew is told afterwards
        self.servers.leave_out(tool, reason)
        self.calls.forget_tool(tool)

    def _config(self) -> LoopConfig:
        startup, session = self._startup, self.session
        config = config_of(
            AgentParts(
                role="session",
                where=session,
                options=replace(parts.run_options(startup), model=self.calls.named()),
                tools=(*session.tools, *self.agents.tools()),
                path_order=self.agents.path_order,
                directories=session.directories,
                style=self.output_styles,
                plugins=self._plugins,
                agents=self.agents,
                servers=self.servers,
                is_planning=lambda: session.permissions.mode == "plan",
                undone=session.file_changes.tell_model,
                hook_changes=self.hooks.changes_for(session.workspace),
                jobs=self.jobs.own_jobs,
                ledger=self.calls.ledger,
                compaction=self.compaction,
                watches=self.watches,
                authorize=self.judge.around(
                    session.permissions,
                    mode=lambda: session.permissions.mode,
                    agent=lambda: self.agent.conversation,
                ),
                goal=self.goal,
                add_receipt=self.receipts.add,
                follow_ups=before(
                    self.jobs.own_jobs.follow_ups, self.goal.follow_ups, self.receipts.follow_ups
                ),
                publish=self.announce,
            )
        )
        return replace(config, explain_missing=self.servers.why_missing)

    def _new_goal(self, *, one_shot: bool) -> SessionGoal:
        return session_goal(
            self.session,
            lambda: self.agent.conversation,
            has_jobs=lambda: any(job.is_running for job in self.jobs.own_jobs.started()),
            cost_of_agents=lambda: self.sessions.cost_of_all_agents(),
            publish=self.announce,
            one_shot=one_shot,
        )

    def _new_servers(self, *, one_shot: bool) -> Servers:
        host = ServerHost(
            self._startup,
            stream=self.calls.stream,
            model=self.calls.named("small"),
            check_budget=self.calls.ledger.check,
            agent=lambda: self.agent,
            sessions=lambda: self.sessions,
            directories=lambda: self.session.directories.all,
            publish=self.announce,
            hooks=lambda: self.hooks.server_questions(),
        )
        return Servers(
            self._startup,
            host,
            publish=self.announce,
            one_shot=one_shot,
            own_tools=lambda: [tool.name for tool in self.own_tools()],
            denies=self.session.permissions.denies_tool,
        )

    def _new_hooks(self, *, one_shot: bool) -> SessionHooks:
        host = HookHost(
            agent=lambda: self.agent,
            sessions=lambda: self.sessions,
            publish=self.announce,
            command_variables=self.telemetry.command_variables,
            tools=self._hooked_tools,
            sandbox=self.session.sandbox,
            model=lambda: self.model.id,
            exports=self.session.workspace.shared.exports,
            wake=self.jobs.wake,
            services=self._hook_services,
            workspace=self.session.workspace,
        )
        return SessionHooks(self._startup, self.session.permissions, host, one_shot=one_shot)

    def _hook_services(self) -> "HookServices":
        from agent_cli.app.hooks.services import SessionHookServices  # with hooks

        return SessionHookServices(
            self.calls,
            self.servers,
            self.session.permissions,
            agent=lambda: self.agent,
            tools=self.own_tools,
        )

    async def __aenter__(self) -> "Workbench":
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._preparations.aclose)
            await stack.enter_async_context(self.telemetry)
            await self.sessions.begin()
            stack.callback(self.sessions.close)
            stack.callback(self.session.close)
            stack.push_async_callback(self.calls.aclose)
            await stack.enter_async_context(self.servers)
            await stack.enter_async_context(self._plugins)
            await stack.enter_async_context(self._kept_warm)
            await self._start()
            await stack.enter_async_context(self.hooks)
            await stack.enter_async_context(self.jobs)
            self._stack = stack.pop_all()
        # A front end subscribes right after entering, before any other task runs.
        asyncio.get_running_loop().call_soon(self.announce.release)
        return self

    async def _start(self) -> None:
        self.calls.preload()
        self._preparations.started()
        for text in self._startup.notices:
            self.announce.warn(text)
        self.servers.start()
        self._plugins.start(self.agent)
        await self._plugins.wait_loaded(_PLUGINS_LIMIT_S)
        servers = [state.name for state in self.servers.all.states()]
        for text in dead_rules(self._startup, self._tool_names, self.own_tools, servers):
            self.announce.warn(text)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def own_tools(self) -> Sequence[Tool]:
        """Return the tools of this program and its plugins, without tools of MCP servers.

        Tools of which a rule denies every call are deferred: requests do not declare them.
        """
        others = (*self.agents.tools(), *self._plugins.tools(), *self.jobs.own_jobs.tools())
        return undeclared((*self.session.tools, *others), self.session.permissions.denies_tool)

    def _tool_names(self) -> Collection[str]:
        """Return the names of tools that a call may have, without tools of MCP servers."""
        known = {*CLAUDE_NAMES, RECALL_TOOL} - {WEB_FETCH_TOOL}  # it may not be installed
        known -= set() if platform_has(self._startup, WEB_SEARCH_TOOL) else {WEB_SEARCH_TOOL}
        return {*known, *(tool.name for tool in self.own_tools())}

    def _hooked_tools(self) -> Collection[str]:
        """Return the names of tools whose calls hooks see: all but the tools that the API runs."""
        own = self.own_tools()
        open = {tool.name for tool in own if tool.hosted and tool.hosted.is_open}
        is_asked = WEB_SEARCH_TOOL in {tool.name for tool in own} - open
        return {*self._tool_names()} - open - (set() if is_asked else {WEB_SEARCH_TOOL})

    @property
    def model(self) -> Model:
        """The current model."""
        return self.agent.state.model or self.calls.named()
