"""The program behind a front end: one agent (workbench.py), the logs, and answers to queries."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from agent_cli.app import logs, parts
from agent_cli.app.mcp import server_contacts
from agent_cli.app.models import ModelSwitch, is_listed
from agent_cli.app.plugins import command_files
from agent_cli.app.startup import StartupContext
from agent_cli.app.status_line import status_line
from agent_cli.app.web_tools import page_contacts
from agent_cli.app.workbench import Workbench
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.options import FAST, ThinkingLevel
from agent_cli.contracts.permissions import CallJudgement, HostContact
from agent_cli.contracts.provider import Model
from agent_cli.contracts.wording import one_line
from agent_cli.mcp_client import McpServers
from agent_cli.plugins.todo import todo_list
from agent_cli.policies.cache_watch import cache_lines
from agent_cli.policies.side_questions import SideQuestions
from agent_cli.prompt_files.command_files import name_of_no_command, written_out
from agent_cli.providers.anthropic.models import doubt_about
from agent_cli.system import paths
from agent_cli.system.paths import real_path
from agent_cli.system.redaction import Redactor, secrets_in

if TYPE_CHECKING:
    from agent_cli.app.checks import CheckReport
    from agent_cli.contracts.dialogs import (
        CallDialogs,
        Documents,
        ModelDialogs,
        Reread,
        ServerDialogs,
    )
    from agent_cli.contracts.goals import GoalsPort
    from agent_cli.contracts.listings import ConfirmSwitch, OfferedModel, SwitchSource
    from agent_cli.contracts.prompt_commands import PromptCommand
    from agent_cli.contracts.timeline import Json
    from agent_cli.contracts.tooling import Tool
    from agent_cli.core.application import Todo
    from agent_cli.policies.accounts import Account

# The user waits for the list after typing /model.
_OFFERED_WITHIN_S: Final = 3.0


class App:
    """The program, built; `async with` starts and finally stops its background work.

    The constructor may take a second and may run in any thread; entering is quick.
    """

    def __init__(
        self, startup: StartupContext, *, one_shot: bool, log_secrets: Redactor | None = None
    ) -> None:
        """Build the program for the workspace of *startup*.

        Args:
            startup: Workspace, trust and settings.
            one_shot: The program answers one prompt, and no person can be asked.
            log_secrets: The redactor of logs that the process has already opened; None opens the
                logs of the settings.
        """
        self._startup = startup
        self._settings = startup.loaded.settings
        self._stack = AsyncExitStack()
        self._log_secrets = log_secrets
        self._bench = bench = Workbench(startup, one_shot=one_shot)
        self.agent = bench.agent
        self.sessions = bench.sessions
        self.permissions = bench.session.permissions
        self.hooks = bench.hooks
        self.remote_answers = bench.hooks.answers
        self.jobs = bench.jobs
        self.goals: GoalsPort = bench.goal
        self.receipts = bench.receipts.to_json
        self.agents = bench.agents.list
        self.launcher = bench.session.workspace.shared.launcher
        self.file_changes = bench.session.file_changes
        self.directories = bench.session.directories
        self.output_styles = bench.output_styles
        self.note_attached = bench.session.workspace.seen.note_all
        self.why_kept_back = parts.why_kept_back(startup)
        self.context_parts = bench.context.parts
        self.context_tokens = bench.context.tokens
        self.context_notes = bench.context.notes
        self.keep_session = bench.sessions.keep
        self.compact = bench.context.compact
        self.uncompact = bench.context.uncompact
        self.ask_aside = SideQuestions(
            bench.agent, bench.compaction, bench.ask_beside, check=bench.hooks.question_is_asked
        ).ask
        self._offered: Sequence[OfferedModel] = ()
        self._command_files = command_files(startup, bench.hooks.prompt_expands)
        self._switch = ModelSwitch(
            bench.agent, bench.hooks, price=parts.price(startup), tokens=bench.context.tokens
        )
        self.status_command = status_line(startup)

    async def __aenter__(self) -> "App":
        async with AsyncExitStack() as stack:
            notices = self._open_logs(stack)
            await stack.enter_async_context(self._bench)
            for text in notices:
                self._bench.announce.warn(text)
            name = self._settings.model
            is_alias = name != self._bench.model.id and not name.endswith(FAST)
            if self._startup.names("model") and not is_alias:
                self.find_model(name)  # warns; an alias was written with care
            self._stack = stack.pop_all()
        return self

    def _open_logs(self, stack: AsyncExitStack) -> Sequence[str]:
        """Open the logs until *stack* ends; return a notice for each that cannot be opened."""
        environment = self._startup.environment
        if self._log_secrets:
            self._log_secrets.learn(secrets_in(environment))
            return ()
        verbose = self._startup.arguments.verbose
        sinks = logs.configure(self._settings.logging, Redactor.of(environment), verbose=verbose)
        stack.callback(sinks.close)
        return sinks.notices

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def leave(self) -> None:
        """Close without waiting for SessionEnd hooks."""
        self.hooks.leave()

    @property
    def session_id(self) -> str | None:
        """The id of the session that stores the conversation."""
        return self.sessions.id

    @property
    def session_path(self) -> Path | None:
        """The file that stores the conversation."""
        return self.sessions.path

    @property
    def held_microdollars(self) -> int:
        """The possible cost of this prompt's calls that broke off."""
        return self.account.lost

    @property
    def account(self) -> "Account":
        """The spending of this prompt, and its limit."""
        return self._bench.calls.ledger.account

    def cache_lines(self) -> Sequence[str]:
        """Return the hits and losses of the prompt cache, with causes and money."""
        model, price = self._bench.model.id, parts.price(self._startup)
        usage = self.agent.conversation.usage
        watch = self._bench.watches.cache
        warm = watch.warming.lines() if watch.warming else []
        return [*cache_lines(usage, watch.losses, price=lambda of: price(model, of)), *warm]

    @property
    def attaches_names(self) -> bool:
        """Whether names with an @ in a prompt attach files."""
        return self._settings.attach

    @property
    def takes_documents(self) -> bool:
        """Whether the model's API takes PDF files."""
        return self._settings.provider.is_whole

    def why_outside(self, path: Path) -> str:
        """Return why a name in a text does not attach *path*: its file lies outside; or ""."""
        real = real_path(path)
        if any(map(real.is_relative_to, map(real_path, self.directories.all))):
            return ""
        leads = "it" if real == path else f"it leads to {real}, which"
        return f"{leads} is outside the workspace; --add-dir or /add-dir opens a folder"

    @property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        return self._startup.workspace

    @property
    def ignored(self) -> str:
        """The sentence about files of the workspace that do not act before it is trusted, or ""."""
        return self._startup.ignored

    @property
    def tools(self) -> Sequence["Tool"]:
        """All current tools of the model, including the tools of plugins and MCP servers."""
        return (*self._bench.own_tools(), *self.servers.tools())

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        return self._settings.models

    def prompt_commands(self) -> Sequence["PromptCommand"]:
        """Return the commands defined by prompt files; the first of each name."""
        return self._command_files.commands()

    async def written_out(self, prompt: str) -> tuple[str, Model | None]:
        """Expand *prompt* if it begins with a command defined by a prompt file."""
        written = await written_out(prompt, self._command_files.commands)
        if written.text == prompt and (name := name_of_no_command(prompt)):
            is_one_run = self._startup.arguments.print_prompt is not None
            built_in = " (--prompts-from runs the commands of the prompt)" if is_one_run else ""
            warning = f"there is no command {one_line(name)}: it is sent as text{built_in}"
            self._bench.announce.warn(warning)
        return written.text, self.find_model(written.model) if written.model else None

    def use_documents(self, documents: "Documents") -> None:
        """Read and write files of the workspace through an editor from now on."""
        self._bench.session.workspace.open_files.documents = documents

    def part_of_trace(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Make runs that the body starts part of the trace that W3C *headers* name, if any."""
        return self._bench.telemetry.part_of_trace(headers)

    def find_model(self, name: str) -> Model:
        """Return the model *name*, an alias or an id; warn of an unknown id."""
        model = self._bench.calls.named(name)
        price = parts.price(self._startup)
        if is_listed(model) and (doubt := doubt_about(model.id, price)):
            self._bench.announce.warn(doubt)
        return model

    async def switch_model(
        self,
        name: str,
        *,
        source: "SwitchSource",
        confirm: "ConfirmSwitch",
    ) -> None:
        """Use the model *name* from the next request on; *confirm* asks if a hook wants that.

        Raises:
            UsageError: The name cannot be a model's, or a hook or the person is against it.
        """
        model = self.find_model(name)
        await self._switch(model, requested=name, source=source, confirm=confirm)
        if lacking := self._bench.calls.lacking(model):
            self._bench.announce.warn(lacking)

    def price_of_model(self, name: str) -> "Reread | None":
        """Return the tokens that the next request to the model *name* reads anew; None if none."""
        options = self.agent.options
        model = self._bench.calls.named(name)
        return self._bench.watches.prefix.quote(
            self.agent.conversation, model_id=model.id, level=options.thinking_level
        )

    def price_of_effort(self, level: ThinkingLevel | None) -> "Reread | None":
        """Return the tokens that the next request with *level* reads anew; None if none."""
        return self._bench.watches.prefix.quote(
            self.agent.conversation, model_id=self._bench.model.id, level=level
        )

    async def offered_models(self) -> Sequence["OfferedModel"]:
        """Return the models the server offers; none if it does not answer soon."""
        if not self._offered and is_listed(self._bench.model):
            from agent_cli.providers.anthropic.model_list import offered_models  # rare

            connection = parts.connection(self._startup)
            with suppress(AgentCliError, TimeoutError):
                async with asyncio.timeout(_OFFERED_WITHIN_S):
                    self._offered = await offered_models(connection)
        return self._offered

    def todos(self) -> Sequence["Todo"]:
        """Return the to-do items of the model."""
        return todo_list(self.agent.conversation)

    def overview(self) -> Sequence[str]:
        """Return lines for the start: model, tools, sandbox, MCP servers."""
        from agent_cli.app.overview import overview_lines  # with a screen
        from agent_cli.undo.watchable import why_never_watched

        is_off = self._settings.undo.commands == "off"
        own, servers = self._bench.own_tools(), self.servers.states()
        tools = [tool for tool in own if not tool.is_deferred]
        head = f"{self._bench.model.id} · {paths.shown(self._startup.workspace)}"
        report, why = self._bench.session.sandbox.report, "" if is_off else why_never_watched()
        return [head, *overview_lines(tools, servers, report, why)]

    @property
    def servers(self) -> McpServers:
        """The MCP servers."""
        return self._bench.servers.all

    def answer(
        self, servers: "ServerDialogs", model: "ModelDialogs", calls: "CallDialogs | None" = None
    ) -> None:
        """Let these dialogs answer MCP servers, the model and its agents.

        Questions before this call are declined.
        """
        self._bench.servers.answer(servers)
        self.answer_model(model, calls)

    def answer_model(self, model: "ModelDialogs", calls: "CallDialogs | None" = None) -> None:
        """Let these dialogs answer the model and its agents."""
        self._bench.person.dialogs, self._bench.person.calls = model, calls
        self.jobs.is_attended = lambda: model.can_ask

    def allow_losses(self, command: str) -> None:
        """Let *command* go on however many files it takes: it was asked about before it began."""
        self._bench.session.losses.allow(command)

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that appeared beside commands and await a person's decision."""
        return self._bench.session.sandbox.undecided_files

    def require_answer(self, schema: "Mapping[str, Json]") -> None:
        """Have the model's answers fit *schema* where its server can hold them to it."""
        self._bench.answer_format.schema = schema

    @property
    def refused_commands(self) -> Mapping[str, Sequence[str]]:
        """Commands not allowed to go on as nobody could be asked, each with rules to allow it."""
        return self._bench.person.refused_commands

    @property
    def refused_hosts(self) -> Sequence[str]:
        """The hosts that commands could not reach, because nobody could be asked."""
        return [*hosts.refused] if (hosts := self._bench.session.hosts) else []

    @property
    def judged(self) -> Sequence[CallJudgement]:
        """The calls that the judge of the mode auto judged."""
        return [CallJudgement(each.call, each.reason) for each in self._bench.judge.verdicts]

    @property
    def contacts(self) -> Sequence[HostContact]:
        """The hosts that were asked for."""
        hosts = self._bench.session.hosts
        by_commands = hosts.contacts if hosts else {}
        agents = [self.agents.work(each.number).prompts for each in self.agents.all()]
        return [
            *(HostContact(host, "commands", refusal) for host, refusal in by_commands.items()),
            *page_contacts(chain(self.agent.conversation.prompts, *agents)),
            *server_contacts(self._startup, self.servers.states()),
        ]

    def answer_calls(self, calls: "CallDialogs") -> None:
        """Let *calls* decide about calls of agents; nobody answers other questions."""
        self._bench.person.calls = calls

    async def examine(self) -> "CheckReport":
        """Return the checks of `doctor` for this program; this sends the model a short request."""
        from agent_cli.app.checks.doctor import diagnosis  # rare

        return await diagnosis(
            self._startup, self._bench.model, self.servers.states(), self.agents.servers()
        )

    def badges(self) -> Sequence[str]:
        """Return words for the status line: permission mode, goal, jobs, sandbox, MCP servers."""
        words = [report.word] if (report := self._bench.session.sandbox.report) else []
        goal = [badge] if (badge := self._bench.goal.badge) else []
        servers, jobs = self._bench.servers.badges(), self.jobs.badges()
        return [self.permissions.mode, *goal, *jobs, *words, *servers]

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        self.agent.reset()
        self.sessions.follow()
