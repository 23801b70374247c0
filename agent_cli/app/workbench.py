"""One agent with all its parts: every feature is switched on here.

Start (arguments, settings, environment)
  → provider, tools, MCP servers
  → prepare: facts, plugins, MCP servers, plan mode,               before every model call
             undone changes, jobs, budget, compaction, trimming, prefix watch
  → authorize_tool: permissions    finish_result: truncation       around every tool call
  → lifecycle hooks around both, before prompts and at the end      if any are defined
  → Agent; front ends subscribe to it

It knows no front end. A process may have several workbenches, one for each session.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType

from agent_cli.app import logs, parts
from agent_cli.app.agents import AgentTree
from agent_cli.app.announcements import Announcements
from agent_cli.app.context_window import ContextWindow
from agent_cli.app.hooks import HookHost, SessionHooks
from agent_cli.app.jobs import JobHost
from agent_cli.app.left_worktrees import tell_left_worktrees
from agent_cli.app.mcp import Servers
from agent_cli.app.mcp_host import ServerHost
from agent_cli.app.person import ModelsPerson
from agent_cli.app.plugins import output_styles, plugins
from agent_cli.app.preparations import Preparations
from agent_cli.app.sessions import Sessions
from agent_cli.app.startup import StartupContext
from agent_cli.app.telemetry import SessionTelemetry
from agent_cli.contracts.money import in_microdollars
from agent_cli.contracts.provider import Model
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.session_facts import SessionFacts
from agent_cli.plugins.workspace_facts import WorkspaceDirectories
from agent_cli.policies.accounts import Account
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.plan_mode import plan_mode
from agent_cli.policies.prefix_watch import PrefixWatch
from agent_cli.policies.trimming import Trimming
from agent_cli.policies.truncation import Truncation
from agent_cli.providers.anthropic_messages import AnthropicMessages
from agent_cli.providers.models import cost_microdollars, model_by_id

# Most plugins are ready at once; the rest delay the first model call, not the first prompt.
_PLUGINS_LIMIT_S = 1.0


class Workbench:
    """The agent of one session, built; `async with` starts and finally stops its parts.

    The constructor may take a second and may run in any thread; entering is quick. Configure the
    logs before entering it. Parts that need one built later get a function that returns it; none
    is called before the constructor has ended.
    """

    def __init__(self, startup: StartupContext, *, one_shot: bool) -> None:
        """Build for the workspace of *startup*; *one_shot* is one prompt, with no one to ask."""
        settings = startup.loaded.settings
        self._startup = startup
        self._settings = settings
        self._stack = AsyncExitStack()
        self.file_changes = parts.snapshots(startup)
        self.workspace = parts.workspace(startup, self.file_changes, one_shot=one_shot)
        connection = parts.connection(startup, lambda: self._preparations.request_sent())
        self._provider = AnthropicMessages(connection, parts.retry_policy(startup))
        self.announce = Announcements(lambda event: self.agent.publish(event))
        self.telemetry = SessionTelemetry(startup, self.announce.warn)
        self.workspace.command_variables = self.telemetry.command_variables
        self.ledger = Ledger(
            self.telemetry.stream(self._provider.stream),
            lambda: self.agent.conversation,
            price=cost_microdollars,
            account=Account(in_microdollars(settings.max_cost_usd)),
            of_agents=lambda prompt: self.sessions.cost_of_agents(prompt),
        )
        self.servers = self._new_servers(one_shot=one_shot)
        self.person = ModelsPerson(lambda: self.permissions)
        warn = self.announce.warn
        self.jobs = JobHost(self.workspace, self.announce, lambda: self.agent)
        self._plugins = plugins(startup, warn=warn, one_shot=one_shot, person=self.person)
        self.sandbox = parts.sandbox(startup, warn)
        self._log = logs.EventLog()
        launcher = self.workspace.launcher
        tell_left = partial(tell_left_worktrees, self.workspace.root, warn)
        self._preparations = Preparations(
            self.sandbox, launcher, self._log, tell_left, one_shot=one_shot
        )
        self.output_styles = output_styles(startup, warn)
        self.agents = AgentTree(self, startup, of_plugins=self._plugins.agent_folders)
        self._builtin_tools = parts.tools(startup, self.workspace, self.sandbox)
        reach = None if one_shot else self.workspace  # with a user present, who may grant more
        self.permissions = parts.permissions(startup, self.sandbox, reach)
        self.hooks = self._new_hooks(one_shot=one_shot)
        self._compaction = parts.compaction(startup, self.ledger.stream, self.hooks)
        opens = [self.workspace.open_dir, self.sandbox.open_dir, self.servers.tell_roots]
        opens.append(self.permissions.open_dir)  # last: it allows what the others can reach by then
        extra_dirs = startup.arguments.add_dirs
        self.directories = WorkspaceDirectories(self.workspace.root, extra_dirs, opens=opens)
        config = self.hooks.around(self._config(), parts.place(startup))
        self.agent = Agent(self.telemetry.around_calls(config))
        self.context = ContextWindow(
            self.agent,
            self._compaction,
            model=lambda: self.model,
            tools=lambda: (*self.own_tools(), *self.servers.offered()),
            publish=self.announce,
        )
        on_copy = self.file_changes.copy
        self.sessions = Sessions(startup, self.agent, self.announce, on_copy=on_copy)
        told = (self.ledger.listen, self.file_changes, self.servers.note_run, self.hooks.listen)
        for listener in (self._log, *told):
            self.agent.subscribe(listener)
        self.telemetry.follow(self.agent)

    def _config(self) -> LoopConfig:
        startup, settings = self._startup, self._settings
        return replace(
            parts.run_options(startup),
            model=self.named_model(),
            tools=(*self._builtin_tools, *self.agents.tools()),
            stream_fn=self.ledger.stream,
            services={"workspace": self.workspace.root, "sandbox": self.sandbox},
            path_order=self.agents.path_order,
            prepare=(
                self.directories,
                SessionFacts(self.workspace.root, trusted=startup.trusted),
                self.output_styles,
                self._plugins,
                self.agents,
                self.servers,
                plan_mode(lambda: self.permissions.mode == "plan"),
                self.file_changes.tell_model,
                self.jobs.told,
                self.ledger,
                self._compaction,
                Trimming(max_messages=settings.history.max_conversation_messages),
                PrefixWatch(cost_microdollars),
            ),
            authorize_tool=self.permissions,
            get_follow_up_messages=self.jobs.told.follow_ups,
            finish_result=Truncation(
                self.announce, limit_chars=settings.history.max_tool_result_chars
            ),
        )

    def _new_servers(self, *, one_shot: bool) -> Servers:
        host = ServerHost(
            self._startup,
            stream=self.ledger.stream,
            model=self.named_model("small"),
            check_budget=self.ledger.check,
            agent=lambda: self.agent,
            sessions=lambda: self.sessions,
            directories=lambda: self.directories.all,
            publish=self.announce,
        )
        return Servers(self._startup, host, publish=self.announce, one_shot=one_shot)

    def _new_hooks(self, *, one_shot: bool) -> SessionHooks:
        host = HookHost(
            lambda: self.agent,
            lambda: self.sessions,
            self.announce,
            self.telemetry.command_variables,
        )
        return SessionHooks(self._startup, self.permissions, host, one_shot=one_shot)

    async def __aenter__(self) -> "Workbench":
        async with AsyncExitStack() as stack:
            stack.callback(self._log.release)
            await stack.enter_async_context(self.telemetry)
            await self.sessions.begin()
            stack.callback(self.sessions.close)
            stack.callback(self.sandbox.close)
            stack.callback(self.workspace.close)
            stack.push_async_callback(self._provider.aclose)
            await stack.enter_async_context(self.servers)
            await stack.enter_async_context(self._plugins)
            await self._start()
            await stack.enter_async_context(self.hooks)
            await stack.enter_async_context(self.jobs)
            self._stack = stack.pop_all()
        # A front end subscribes right after entering, before any other task runs.
        asyncio.get_running_loop().call_soon(self.announce.release)
        return self

    async def _start(self) -> None:
        self._provider.preload()
        self._preparations.started()
        for text in self._startup.notices:
            self.announce.warn(text)
        self.servers.start()
        self._plugins.start(self.agent)
        await self._plugins.wait_loaded(_PLUGINS_LIMIT_S)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def own_tools(self) -> Sequence[Tool]:
        """Return the tools of this program and its plugins, without those of MCP servers."""
        agents, plugins = self.agents.tools(), self._plugins.tools()
        return (*self._builtin_tools, *agents, *plugins, *self.jobs.told.tools())

    @property
    def model(self) -> Model:
        """The current model."""
        return self.agent.state.model or self.named_model()

    def named_model(self, name: str | None = None) -> Model:
        """Return the model *name*, an alias or an id; the settings' model without a name."""
        return model_by_id(self._settings.model_id(name))
