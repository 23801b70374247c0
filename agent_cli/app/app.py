"""The composition root: everything that is switched on is switched on here.

Start (arguments, settings, environment)
  → provider, tools, MCP servers
  → prepare: facts, plugins, MCP servers, plan mode,               before every model call
             undone changes, ended jobs, budget, compaction, trimming, prefix watch
  → authorize_tool: permissions    finish_result: truncation       around every tool call
  → lifecycle hooks around both, before prompts and at the end      where any are defined
  → Agent; the front end subscribes to it
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from agent_cli.app import logs, parts
from agent_cli.app.announcements import Announcements
from agent_cli.app.checks import CheckReport
from agent_cli.app.hooks import HookHost, SessionHooks
from agent_cli.app.job_news import JobNews
from agent_cli.app.mcp import Servers
from agent_cli.app.mcp_host import ServerHost
from agent_cli.app.overview import overview_lines
from agent_cli.app.person import ModelsPerson
from agent_cli.app.plugins import command_files, plugins
from agent_cli.app.sessions import Sessions
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.provider import Model
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.mcp_client import McpServers
from agent_cli.plugins.session_facts import SessionFacts
from agent_cli.plugins.todo import todo_list
from agent_cli.plugins.workspace_facts import WorkspaceDirectories
from agent_cli.policies.budget import Budget
from agent_cli.policies.estimate import estimate_parts, measured_tokens
from agent_cli.policies.plan_mode import plan_mode
from agent_cli.policies.prefix_watch import PrefixWatch
from agent_cli.policies.trimming import Trimming
from agent_cli.policies.truncation import Truncation
from agent_cli.prompt_files.command_files import written_out
from agent_cli.providers.anthropic_messages import AnthropicMessages
from agent_cli.providers.models import cost_microdollars, doubt_about, model_by_id
from agent_cli.repl.mcp.questions import ServerDialogs
from agent_cli.repl.model_dialogs import ModelDialogs
from agent_cli.repl.ports import PromptCommand
from agent_cli.repl.todos import Todo
from agent_cli.system.redaction import Redactor
from agent_cli.terminal.background import in_background

# Most are there at once; the first model call waits longer than the first prompt does.
_PLUGINS_LIMIT_S = 1.0


class App:
    """The program, built; `async with` starts, and in the end stops, what runs beside it.

    Building may take a second and may happen in any thread; entering is quick.
    """

    def __init__(self, startup: StartupContext, *, one_shot: bool) -> None:
        """Build for where *startup* says we are; *one_shot* is one prompt with nobody to ask."""
        settings = startup.loaded.settings
        self._startup = startup
        self._settings = settings
        self._stack = AsyncExitStack()
        self.file_changes = parts.snapshots(startup)
        self._workspace = parts.workspace(startup, self.file_changes)
        self._provider = AnthropicMessages(parts.connection(startup), parts.retry_policy(startup))
        self._announce = Announcements(lambda event: self.agent.publish(event))
        self._budget = Budget(max_cost_usd=settings.max_cost_usd)
        self._servers = self._new_servers(one_shot=one_shot)
        self._person = ModelsPerson(lambda: self.permissions)
        warn, person = self._announce.warn, self._person
        self._plugins = plugins(startup, warn=warn, one_shot=one_shot, person=person)
        self._command_files = command_files(startup)
        self.why_kept_back = parts.why_kept_back(startup)
        self.note_attached = self._workspace.seen.all_of
        self._sandbox = parts.sandbox(startup)
        self._builtin_tools = parts.tools(startup, self._workspace, self._sandbox)
        reach = None if one_shot else self._workspace  # with a person there, who may grant more
        self.permissions = parts.permissions(startup, self._sandbox, reach)
        host = HookHost(lambda: self.agent, lambda: self.sessions, self._announce)
        self.hooks = SessionHooks(startup, self.permissions, host, one_shot=one_shot)
        self._compaction = parts.compaction(startup, self._provider.stream, self.hooks)
        opens = [self._workspace.open_dir, self._sandbox.open_dir, self._servers.tell_roots]
        opens.append(self.permissions.open_dir)  # last: the others know what it allows
        extra_dirs = startup.arguments.add_dirs
        self.directories = WorkspaceDirectories(self._workspace.root, extra_dirs, opens=opens)
        self.agent = Agent(self.hooks.around(self._config(), parts.place(startup)))
        on_copy = self.file_changes.copy
        self.sessions = Sessions(startup, self.agent, self._announce, on_copy=on_copy)
        for listener in (logs.record, self.file_changes, self._servers.note_run, self.hooks.listen):
            self.agent.subscribe(listener)

    def _config(self) -> LoopConfig:
        startup, settings = self._startup, self._settings
        news = JobNews(self._workspace.jobs.take_news, lambda: self.agent.conversation)
        return replace(
            parts.run_options(startup),
            model=self._model(),
            tools=self._builtin_tools,
            stream_fn=self._provider.stream,
            services={"workspace": self._workspace.root, "sandbox": self._sandbox},
            prepare=(
                self.directories,
                SessionFacts(self._workspace.root, trusted=startup.trusted),
                self._plugins,
                self._servers,
                plan_mode(lambda: self.permissions.mode == "plan"),
                self.file_changes.tell_model,
                news,
                self._budget,
                self._compaction,
                Trimming(max_messages=settings.history.max_conversation_messages),
                PrefixWatch(cost_microdollars),
            ),
            authorize_tool=self.permissions,
            get_follow_up_messages=news.follow_ups,
            finish_result=Truncation(
                self._announce, limit_chars=settings.history.max_tool_result_chars
            ),
        )

    def _new_servers(self, *, one_shot: bool) -> Servers:
        host = ServerHost(
            self._startup,
            stream=self._provider.stream,
            model=self._model("small"),
            budget=self._budget,
            agent=lambda: self.agent,
            sessions=lambda: self.sessions,
            directories=lambda: self.directories.all,
            publish=self._announce,
        )
        return Servers(self._startup, host, publish=self._announce, one_shot=one_shot)

    async def __aenter__(self) -> "App":
        environment = self._startup.environment
        sinks = logs.configure(
            self._settings.logging,
            Redactor.of(environment),
            verbose=self._startup.arguments.verbose,
        )
        async with AsyncExitStack() as stack:
            stack.callback(sinks.close)
            await self.sessions.begin()
            stack.callback(self.sessions.close)
            stack.callback(self._sandbox.close)
            stack.callback(self._workspace.close)
            stack.push_async_callback(self._provider.aclose)
            await stack.enter_async_context(self._servers)
            await stack.enter_async_context(self._plugins)
            await self._start(sinks.notices)
            await stack.enter_async_context(self.hooks)
            self._stack = stack.pop_all()
        # The front end subscribes as soon as it is in, before anything else gets its turn.
        asyncio.get_running_loop().call_soon(self._announce.release)
        return self

    async def _start(self, notices: Sequence[str]) -> None:
        self._provider.preload()
        self._sandbox.start(self._announce.warn)
        # Early, so that the first command does not wait for it.
        in_background(self._workspace.launcher.start)
        for text in (*self._startup.notices, *notices):
            self._announce.warn(text)
        self._servers.start()
        self._plugins.start(self.agent)
        await self._plugins.wait_loaded(_PLUGINS_LIMIT_S)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    @property
    def session_id(self) -> str | None:
        """The session the conversation is kept in."""
        return self.sessions.id

    @property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        return self._startup.workspace

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools the model has at the moment, those of plugins and MCP servers included."""
        return (*self._own_tools(), *self.servers.tools())

    def _own_tools(self) -> Sequence[Tool]:
        return (*self._builtin_tools, *self._plugins.tools())

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        return self._settings.models

    def prompt_commands(self) -> Sequence[PromptCommand]:
        """Return the commands that are prompts somebody wrote; of two with one name the first."""
        return self._command_files.commands()

    async def written_out(self, prompt: str) -> str:
        """Return what *prompt* says: a command's text where it begins with one somebody wrote."""
        return await written_out(prompt, self._command_files.commands())

    def use_model(self, name: str) -> None:
        """Ask the model *name*, an alias or an id, from the next call on; warn of an unknown id."""
        model = self._model(name)
        self.agent.set_model(model)
        if doubt := doubt_about(model.id):
            self._announce.warn(doubt)

    def todos(self) -> Sequence[Todo]:
        """Return the steps the model noted for its task."""
        return todo_list(self.agent.conversation)

    def overview(self) -> Sequence[str]:
        """Return lines for the start: model, tools, sandbox, MCP servers."""
        tools, servers = self._own_tools(), self.servers.states()
        head = f"{self._model_now().id} · {self._startup.workspace}"
        return [head, *overview_lines(tools, servers, self._sandbox.report)]

    @property
    def servers(self) -> McpServers:
        """The MCP servers."""
        return self._servers.all

    def answer(self, servers: ServerDialogs, model: ModelDialogs) -> None:
        """Put questions of MCP servers and the model to these; before, they are declined."""
        self._servers.answer(servers)
        self._person.dialogs = model

    async def examine(self) -> CheckReport:
        """Return a check for each part of the program; asks the model for one word."""
        from agent_cli.app.doctor import diagnosis  # noqa: PLC0415 - rare

        return await diagnosis(self._startup, self._model_now(), self.servers.states())

    def badges(self) -> Sequence[str]:
        """Return words for the status line: the permission mode, sandbox, MCP servers."""
        words = [report.word] if (report := self._sandbox.report) else []
        return [self.permissions.mode, *words, *self._servers.badges()]

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; events tell what came of it.

        Raises:
            AgentCliError: There is nothing to compact, or it did not work.
        """
        if not await self._compaction.compact_now(
            self.agent.conversation, self._model_now(), emit=self._announce, focus=focus
        ):
            raise AgentCliError("there is nothing to compact yet")

    def uncompact(self) -> None:
        """Send the older messages again that a summary, or a limit of messages, left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        if not self.agent.conversation.uncompact():
            raise AgentCliError("nothing is left out: the model is sent the whole conversation")

    def context_parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by what they are."""
        return estimate_parts(
            [self.agent.state.system_prompt],
            [tool.spec for tool in (*self._own_tools(), *self._servers.offered())],
            self.agent.conversation.context(),
        )

    def context_tokens(self) -> int:
        """Return the tokens of the next request, as the API counted them or estimated."""
        return measured_tokens(self.agent.conversation) or sum(self.context_parts().values())

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        self.agent.reset()
        self.sessions.follow()

    def _model_now(self) -> Model:
        return self.agent.state.model or self._model()

    def _model(self, name: str | None = None) -> Model:
        return model_by_id(self._settings.model_id(name))
