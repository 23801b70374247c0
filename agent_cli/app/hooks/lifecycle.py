"""The lifecycle hooks of a session: run them and list them. Free of cost without any."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent_cli.app.hooks import (
    covers,
    defined_hooks,
    environment_of_hooks,
    listed,
    overview,
    waits_for,
    without_matches,
)
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.events import Event, EventSink, Notice, ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Deny, Tool, Verdict
from agent_cli.contracts.written_hooks import guards_on
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.todo import TodoInput, new_and_done, todo_list
from agent_cli.policies.compaction import AroundCompaction
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell.reach import Reach
from agent_cli.providers.anthropic.models import effort_level
from agent_cli.sandbox import Sandbox
from agent_cli_tools import Workspace
from agent_cli_tools.session_resources import CommandExports

if TYPE_CHECKING:
    from agent_cli.app.hooks.confinement import HookChangesTeller, HookConfinement, HookTranscripts
    from agent_cli.app.hooks.remote_answers import RemoteAnswers
    from agent_cli.app.sessions import Sessions  # it imports `models`, which imports this
    from agent_cli.hooks.answers import Exports, HookAnswer
    from agent_cli.hooks.definition import Hook
    from agent_cli.hooks.event_hooks import EventHooks, ServerQuestionHooks
    from agent_cli.hooks.judging import HookServices
    from agent_cli.hooks.lifecycle import Lifecycle

_STEP_EVENTS: Final = {"new": "TaskCreated", "done": "TaskCompleted"}
_IDLE_AFTER_S = 60.0  # the same limit as Claude Code


class HookHost(NamedTuple):
    """The session that hooks are informed about; it is built after the hooks."""

    agent: Callable[[], Agent]
    sessions: "Callable[[], Sessions]"
    publish: EventSink
    command_variables: Callable[[], Mapping[str, str]]
    tools: Callable[[], Collection[str]]
    sandbox: Sandbox
    model: Callable[[], str]
    exports: CommandExports
    wake: Callable[[Callable[[], bool]], None]
    services: "Callable[[], HookServices]"
    workspace: Workspace


class _Parts(NamedTuple):
    """What runs the hooks of a session that has some."""

    asking: "EventHooks"
    lifecycle: "Lifecycle"
    confinement: "HookConfinement"
    transcripts: "HookTranscripts"


class SessionHooks:
    """The hooks of this session; `async with` runs SessionStart and SessionEnd hooks.

    Without any hooks the methods do nothing, so that callers need not ask whether there are some.
    These are the callers:

    | when | caller | methods |
    |---|---|---|
    | the session's agent is built | workbench | `around`, `around_compaction`, `changes_for` |
    | a subagent is built | agents/subagents | `around_calls` and the other two |
    | a subagent starts, ends | agents/subagents, agents/worker | `agent_starts`, `agent_ends` |
    | an event is published | the session's agent | `listen` |
    | instructions are read, a directory is added | workbench | `tell` |
    | the user enters a prompt command | app, for front ends | `prompt_expands` |
    | the user enters `/btw` | app, for front ends | `question_is_asked` |
    | the model is to change | models | `watch_models`, `model_switches`, `model_switched` |
    | an MCP server asks the user | mcp/host | `server_questions` |
    | the program ends at once | app | `leave` |
    | any time | front ends | `status`, `report` |
    """

    def __init__(
        self, startup: StartupContext, permissions: Permissions, host: HookHost, *, one_shot: bool
    ) -> None:
        """Read the definitions; the modules that run hooks are imported only if there are any.

        *permissions* decide about calls; hooks run before and after them.
        """
        self._publish = host.publish
        self._stack = AsyncExitStack()
        self._parts: _Parts | None = None
        self.answers: RemoteAnswers | None = None
        self._permissions = permissions
        self._startup = startup
        self._host = host
        self._one_shot = one_shot
        self._problems: Sequence[str] = ()
        if startup.loaded.hooks or startup.lost_guards or startup.hooks:
            self._parts = self._built()

    def _built(self) -> _Parts:
        from agent_cli.app.hooks.confinement import HookConfinement, HookTranscripts
        from agent_cli.hooks.event_hooks import EventHooks
        from agent_cli.hooks.events import Payloads
        from agent_cli.hooks.lifecycle import Lifecycle
        from agent_cli.hooks.run import HookEnvironment
        from agent_cli.hooks.runs import HookRuns

        startup, host = self._startup, self._host
        hooks, self._problems = defined_hooks(startup)
        copies = HookTranscripts(startup.workspace)
        self._stack.callback(copies.close)
        confinement = HookConfinement(startup, host.sandbox, lambda: copies.folder, host.workspace)
        environment = HookEnvironment(
            startup.workspace,
            environment_of_hooks(startup),
            host.command_variables,
            confinement,
            host.services(),
        )
        runs = HookRuns(hooks, environment, objection=lambda hook: _objection(hook, startup))
        if self._one_shot:  # elsewhere the screen shows it
            runs.waits = lambda hook: self._publish(Notice("info", waits_for(hook)))
        payloads = Payloads(
            startup.workspace,
            session_id=self._session_id,
            transcript=lambda: copies.of_session(self._conversation(), self._session_id()),
            mode=lambda: self._permissions.mode,
            prompt=lambda: next((each.id for each in self._conversation().prompts[-1:]), ""),
            model=host.model,
            effort=lambda: _effort_of(host.agent()),
        )
        asking = EventHooks(runs, payloads, conversation=self._conversation, publish=self._publish)
        asking.late.wake = host.wake
        if any(hook.event == "FileChanged" for hook in hooks):
            from agent_cli.app.hooks.changed_files import ChangedFiles  # few have such hooks

            asking.changes = ChangedFiles(startup, host.workspace).follow(confinement)
        if any(hook.answers for hook in hooks):
            from agent_cli.app.hooks.remote_answers import RemoteAnswers  # rare

            self.answers = RemoteAnswers(startup, payloads.session_id, self._permissions, asking)
        lifecycle = Lifecycle(
            asking,
            end_reason="other" if self._one_shot else "prompt_input_exit",
            idle_after_s=None if self._one_shot else _IDLE_AFTER_S,
            export=self._export,
            answers=self.answers.signed if self.answers else None,
        )
        return _Parts(asking, lifecycle, confinement, copies)

    def _conversation(self) -> Conversation:
        return self._host.agent().conversation

    def _session_id(self) -> str:
        return self._host.sessions().id or ""

    def _export(self, exports: "Sequence[Exports]") -> None:
        to = self._host.exports
        anywhere: dict[str, str] = {}
        confined: dict[str, str] = {}
        for each in exports:
            (confined if each.is_confined else anywhere).update(each.variables)
            if each.fault:
                self._publish(Notice("warning", f"a SessionStart hook: {each.fault}"))
        to.anywhere, to.confined = anywhere, confined

    def around(self, config: LoopConfig, reach: Reach) -> LoopConfig:
        """Return *config* with hooks wrapped around its actions; unchanged without hooks."""
        if self._parts is None:
            return config
        lifecycle = self._parts.lifecycle
        config = self.around_calls(config, reach)
        return replace(
            config,
            authorize_tool=_around_tasks(self._parts.asking, config.authorize_tool),
            prepare=(lifecycle, *config.prepare),
            get_follow_up_messages=lifecycle.follow_ups_beside(config.get_follow_up_messages),
        )

    def around_calls(
        self, config: LoopConfig, reach: Reach, agent: Callable[[], WorkingAgent] | None = None
    ) -> LoopConfig:
        """Return *config* with hooks around its tool calls only, for the subagent *agent*."""
        if self._parts is None or config.finish_result is None:
            return config
        from agent_cli.hooks.events import about_agent
        from agent_cli.hooks.tool_calls import CallHooks

        asking = self._parts.asking
        # In this program it is a coroutine function.
        authorize: Any = config.authorize_tool
        calls = CallHooks(
            asking.runs,
            replace(
                asking.payloads,
                workspace=reach.root,
                inside=lambda: about_agent(agent()) if agent else {},
                effort=lambda: agent().effort if agent else _effort_of(self._host.agent()),
            ),
            authorize=authorize,
            finish=config.finish_result,
            covers=lambda call, rule: covers(call, rule, reach),
            heard=asking.heard,
            asks=self._permissions.ask_each_time,
            stopped=lambda: asking.stop,
        )
        return replace(
            config,
            prepare=(calls, *config.prepare),
            authorize_tool=calls.authorize,
            finish_result=calls.finish,
        )

    def changes_for(self, workspace: Workspace) -> "HookChangesTeller | None":
        """Return a contributor that reports hooks' changes in *workspace*; None without hooks."""
        return self._parts.confinement.changes.teller(workspace) if self._parts else None

    def around_compaction(
        self, agent: Callable[[], WorkingAgent] | None = None
    ) -> AroundCompaction | None:
        """Return the hooks around compactions by the session or a subagent; None without any."""
        if self._parts is None:
            return None
        from agent_cli.hooks.event_hooks import CompactionHooks
        from agent_cli.hooks.events import about_agent

        return CompactionHooks(self._parts.asking, lambda: about_agent(agent()) if agent else {})

    async def agent_starts(self, agent: WorkingAgent) -> Sequence[str]:
        """Run the SubagentStart hooks of an agent; return the context they add."""
        return await self._parts.lifecycle.agent_starts(agent) if self._parts else ()

    async def agent_ends(
        self, agent: WorkingAgent, text: str, *, again: bool, conversation: Conversation
    ) -> str:
        """Return why SubagentStop hooks do not let an agent end with the reply *text*, or ""."""
        if self._parts is None:
            return ""
        copies, session_id = self._parts.transcripts, self._session_id()
        return await self._parts.lifecycle.agent_ends(
            agent,
            text,
            again=again,
            transcript=lambda: copies.of_agent(conversation, agent, session_id),
        )

    async def prompt_expands(self, command: str, argument: str, source: str, text: str) -> None:
        """Ask UserPromptExpansion hooks about the *text* of a command.

        Raises:
            UsageError: One of them blocks it.
        """
        if self._parts:
            await self._parts.lifecycle.prompt_expands(command, argument, source, text)

    async def question_is_asked(self, question: str) -> None:
        """Ask UserPromptSubmit hooks about a question beside the conversation.

        Raises:
            UsageError: One of them blocks it.
        """
        if self._parts:
            await self._parts.lifecycle.question_is_asked(question)

    @property
    def watch_models(self) -> bool:
        """Whether hooks want to know of a change of the model."""
        hooks = self._parts.asking.runs.hooks if self._parts else ()
        return any(hook.event in ("PreModelSwitch", "PostModelSwitch") for hook in hooks)

    async def model_switches(self, to_model: str, about: Mapping[str, Json]) -> "HookAnswer":
        """Run the PreModelSwitch hooks; there must be hooks (`watch_models`)."""
        assert self._parts is not None
        return await self._parts.lifecycle.model_switches(to_model, **about)

    def model_switched(self, to_model: str, about: Mapping[str, Json]) -> None:
        """Run the PostModelSwitch hooks in the background; there must be hooks, as above."""
        assert self._parts is not None
        self._parts.lifecycle.model_switched(to_model, **about)

    def server_questions(self) -> "ServerQuestionHooks | None":
        """Return the hooks around the questions of MCP servers; None without any hooks."""
        if self._parts is None:
            return None
        from agent_cli.hooks.event_hooks import ServerQuestionHooks  # rare

        return ServerQuestionHooks(self._parts.asking)

    def tell(self, event: str, matched: str, about: Mapping[str, Json]) -> None:
        """Run the hooks of *event*, without waiting for them; *about* is their input."""
        if self._parts:
            self._parts.asking.tell(event, matched, **about)

    async def __aenter__(self) -> "SessionHooks":
        for problem in self._problems:
            self._publish(Notice("warning", problem))
        if self._parts:
            hooks = self._parts.asking.runs.hooks
            for problem in without_matches(hooks, self._host.tools()):
                self._publish(Notice("warning", problem))
            if hooks:
                self._publish(Notice("info", overview(hooks)))
            await self._stack.enter_async_context(self._parts.lifecycle)
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self._stack.aclose()

    def leave(self) -> None:
        """Do not wait for SessionEnd hooks."""
        if self._parts:
            self._parts.lifecycle.leave()

    def listen(self, event: Event) -> None:
        """Run the hooks of *event*."""
        if self._parts:
            self._parts.lifecycle.listen(event)

    @property
    def status(self) -> str:
        """The status message of a running hook, or ""."""
        return self._parts.asking.runs.status if self._parts else ""

    def report(self) -> Sequence[str]:
        """Return a report: the defined hooks and the latest runs."""
        if self._parts is None:
            return ["no hooks are defined: see [hooks] in appsettings.example.toml"]
        runs = self._parts.asking.runs
        ran = [f"  {each}" for each in runs.done]
        return [*listed(runs.hooks), "ran last:" if ran else "none ran yet", *ran]


def _effort_of(agent: Agent) -> str:
    return effort_level(agent.options.model, agent.options.thinking_level)


def _objection(hook: "Hook", startup: StartupContext) -> str:
    return startup.guard_objection() if guards_on(hook.event) else startup.objection()


def _around_tasks(asking: "EventHooks", authorize: Any) -> Any:
    """Wrap *authorize* in the hooks of the list of steps; unchanged without such hooks.

    A hook that says no keeps the list as it was.
    """
    if not any(asking.is_asked(event, "") for event in _STEP_EVENTS.values()):
        return authorize

    async def asked(call: ToolCall, tool: Tool, params: object) -> Verdict:
        verdict: Verdict = await authorize(call, tool, params)
        if isinstance(verdict, Deny) or not isinstance(params, TodoInput):
            return verdict
        for event, subject, about in _changed_steps(asking, params):
            answer = await asking.ask(event, "", **about)
            if answer.refusal:
                return Deny(
                    f"A {event} hook of the user's says no to the step {subject!r};"
                    f" the list stays as it was: {answer.refusal}"
                )
        return verdict

    return asked


def _changed_steps(
    asking: "EventHooks", params: TodoInput
) -> Iterator[tuple[str, str, dict[str, Json]]]:
    """Yield the event, the step and the fields of the hook's input for each change of the list."""
    for change, i in new_and_done(todo_list(asking.conversation()), params.todos):
        item = params.todos[i]
        about: dict[str, Json] = {"task_id": str(i + 1), "task_subject": item.content}
        described: dict[str, Json] = {"task_description": item.active_form}
        yield (
            _STEP_EVENTS[change],
            item.content,
            about | (described if item.active_form else {}),
        )
