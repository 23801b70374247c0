"""A session of the whole program as a Python object, and one prompt without more."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from agent_cli.contracts.dialogs import Decision, Rejected
from agent_cli.contracts.errors import Aborted, AgentCliError, UsageError
from agent_cli.contracts.events import ApprovalRequested, Event, ToolCall, UsageChanged, innermost
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.permission_modes import STRICTNESS
from agent_cli.contracts.timeline import NO_USAGE, Block, Json, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.core.agent import Agent
from agent_cli.core.arguments import require_one_of
from agent_cli.core.declining import (
    NOBODY_ALLOWS,
    REFUSALS_MAX,
    apply_decisions,
    decisions_about,
    decline_and_stop,
)
from agent_cli.core.run import RunResult, RunSlot
from agent_cli.library.options import Approve, SessionOptions, build, decided
from agent_cli.system.event_loop import in_background
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.contracts.cancel import CancelToken
    from agent_cli.contracts.permission_modes import Mode
    from agent_cli.contracts.servers import ServerState
    from agent_cli.headless.structured import OutputSchema

_WAITING: Final = "waiting_for_approval"


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The outcome of one prompt: the fields of `app.result`, the last line of stream-json.

    Attributes:
        text: The final answer.
        stop_reason: "end_turn" when the model was done; see `AgentEnd` for the others.
        rounds: Model calls, without those of subagents.
        usage: Tokens and cost, with those of subagents.
        session_id: For `SessionOptions(resume=...)`; None if the session is not kept.
        messages: The messages that the prompt added.
        declined: Calls that did not run because nobody could approve them, subagents' included.
        output: The value of the answer, with `SessionOptions(json_schema=...)`.
    """

    type: ClassVar[Literal["app.result"]] = "app.result"
    text: str
    stop_reason: str
    rounds: int
    usage: Usage
    session_id: str | None
    messages: tuple[Message, ...] = ()
    declined: tuple[ToolCall, ...] = ()
    output: Json = None

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; None if a part has no known price."""
        cost = self.usage.cost_microdollars
        return None if cost is None else in_usd(cost)


class RunFailed(AgentCliError):
    """A prompt did not come to its end: an error, or a limit of rounds or cost.

    Attributes:
        result: The outcome so far; its `stop_reason` is "error", "max_rounds", "max_cost", ...
        trouble: The part of the world that failed, or None.
    """

    def __init__(self, sentence: str, result: PromptResult) -> None:
        super().__init__(sentence)
        self.result = result
        self.stop_reason = result.stop_reason


StreamItem: TypeAlias = Event | PromptResult


async def query(prompt: str | UserMessage, options: SessionOptions | None = None) -> PromptResult:
    """Answer one prompt in a new session.

    Raises:
        RunFailed: It did not come to its end.
        AgentCliError: The session cannot be opened, or the options are not valid.
    """
    async with AgentSession(options) as session:
        return await session.prompt(prompt)


class AgentSession:
    """A conversation with the whole program: `async with AgentSession(options) as session:`.

    It belongs to the event loop in which it was opened. Leaving `async with` stops a prompt that
    still runs, and ends every child process. A process may have several sessions at once.
    """

    def __init__(self, options: SessionOptions | None = None) -> None:
        """Open nothing yet."""
        self._options = options or SessionOptions()
        self._slot = RunSlot()
        self._left = list[asyncio.Future[PromptResult]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._app: App | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "AgentSession":
        """Open the session.

        Raises:
            UsageError: It was opened before, or an option is not valid.
            SettingsError: A setting, a hook, an agent or a server is not valid.
            NoCredentials: No key or token is set.
            SessionError: The session to resume does not exist, or is open elsewhere.
        """
        if self._loop:
            raise UsageError("this session was opened before: make another AgentSession")
        self._loop = asyncio.get_running_loop()
        app = await in_background(partial(build, self._options))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app)
            self._stack = stack.pop_all()
        self._app = app
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        app, self._app = self._app, None
        try:
            if app:
                self._slot.cancel()
                app.agent.abort()
                await self._slot.wait()
        finally:
            await self._stack.__aexit__(kind, error, traceback)

    @property
    def agent(self) -> Agent:
        """The agent: subscribe to its events, steer it, read its conversation.

        A prompt sent to the agent itself stops at the first question.
        """
        return self._opened().agent

    @property
    def id(self) -> str | None:
        """The id of the session; None if it is not kept."""
        return self._opened().session_id

    @property
    def path(self) -> Path | None:
        """The file of the session; None if it is not kept."""
        return self._opened().session_path

    @property
    def permission_mode(self) -> "Mode":
        """The permission mode; it may be set at any time, and counts from the next call on."""
        return self._opened().permissions.mode

    @permission_mode.setter
    def permission_mode(self, mode: "Mode") -> None:
        require_one_of(mode, STRICTNESS, what="permission_mode")
        self._opened().permissions.mode = mode

    def servers(self) -> Sequence["ServerState"]:
        """Return the state of every MCP server."""
        return self._opened().servers.states()

    async def prompt(
        self,
        message: str | UserMessage,
        images: Sequence[Block] = (),
        *,
        model: str | None = None,
    ) -> PromptResult:
        """Send a message, and run until nothing is left to do.

        Calls that still wait for a decision are decided first, if there is an `approve`.

        Args:
            message: The text, or a user message.
            images: Image blocks (`image_block`) to go with the text.
            model: An id or an alias, used instead of the session's for this prompt.

        Raises:
            RunFailed: It did not come to its end.
            AgentBusy: Another prompt is running.
            ConversationError: A call waits for a decision, and there is no `approve`.
            UsageError: The session is closed, or was opened in another event loop.
        """
        return await self._run(await self._ready(), message, images, model)

    async def _run(
        self, app: "App", message: str | UserMessage, images: Sequence[Block], model: str | None
    ) -> PromptResult:
        with self._slot.claimed() as stop:
            run = _PromptRun(app, self._options.approve, stop, self._form())
            with run.listening():
                chosen = app.find_model(model) if model else None
                await run.settle()
                if not stop.cancelled:
                    asked = run.with_form(message, images)
                    run.add(await app.agent.prompt(asked, images, model=chosen))
                    await run.settle()
        return run.result()

    def _form(self) -> "OutputSchema | None":
        if self._options.json_schema is None:
            return None
        from agent_cli.headless.structured import OutputSchema  # rare

        return OutputSchema(self._options.json_schema)  # `build` has checked it

    def stream(
        self,
        message: str | UserMessage,
        images: Sequence[Block] = (),
        *,
        model: str | None = None,
    ) -> AsyncGenerator[StreamItem]:
        """Send a message as `prompt` does; yield its events, and its result as the last item.

        Leaving the iteration early stops the run, and the next prompt waits for its end. While a
        variable holds the stream it can be read on: `aclose()` stops its run then.
        """
        begun = list[asyncio.Future[PromptResult]]()
        run = partial(self._run, message=message, images=images, model=model)
        items = self._items(run, begun)
        # Python closes a stream that nothing holds any more in a task of its own, a moment later.
        weakref.finalize(items, self._left.extend, begun).atexit = False
        return items

    async def _items(
        self,
        run: "Callable[[App], Coroutine[None, None, PromptResult]]",
        begun: list[asyncio.Future[PromptResult]],
    ) -> AsyncGenerator[StreamItem]:
        app = await self._ready()  # before listening: the left run still sends its last events
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        unsubscribe = app.agent.subscribe(queue.put_nowait)
        # Not a TaskGroup: this generator yields (PEP 789). It owns the task.
        task = asyncio.ensure_future(run(app))
        begun.append(task)
        task.add_done_callback(lambda _task: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            yield await task
        finally:
            unsubscribe()
            if not task.done():
                self.abort()
                with suppress(AgentCliError):
                    await task

    async def _ready(self) -> "App":
        """Return the application once all runs that were aborted, or left, have ended.

        Raises:
            UsageError: The session is closed, or was opened in another event loop.
        """
        self._opened()
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError("this session was opened in another event loop: open one in this loop")
        if self._left:
            await asyncio.wait(self._left)
            self._left[:] = [task for task in self._left if not task.done()]
        if self._slot.is_ending:
            await self._slot.wait()
        return self._opened()

    def abort(self) -> None:
        """Stop the prompt that runs, if any: its result has the stop reason "aborted".

        The next prompt waits for its end.
        """
        if self._app:
            self._slot.cancel()
            self._app.agent.abort()

    def _opened(self) -> "App":
        if self._app is None:
            raise UsageError("this session is not open: use it inside `async with`")
        return self._app


@dataclass(slots=True)
class _PromptRun:
    """The runs of one prompt: it goes on after each question, until nothing waits."""

    app: "App"
    approve: Approve | None
    stop: "CancelToken"
    form: "OutputSchema | None"
    usage: Usage = NO_USAGE
    declined: list[ToolCall] = field(default_factory=list[ToolCall])
    runs: list[RunResult] = field(default_factory=list[RunResult])

    @contextmanager
    def listening(self) -> Generator[None]:
        """Hear the events of the agent, and ask once for an answer in the right form."""
        agent = self.app.agent
        with ExitStack() as stack:
            stack.callback(agent.subscribe(self.note))
            if self.form:
                from agent_cli.headless.structured import AnswerCheck  # rare

                stack.callback(agent.subscribe(AnswerCheck(self.form).listener(agent)))
            yield

    def with_form(self, message: str | UserMessage, images: Sequence[Block]) -> str | UserMessage:
        """Return *message* as it is sent: with the form of the answer, if it has one."""
        if self.form is None or not message:
            return message
        typed = UserMessage.of(message, images) if isinstance(message, str) else message
        return self.form.asked_by(typed)

    def note(self, event: Event) -> None:
        """Count the usage, and the calls of subagents that nobody can approve."""
        inner = innermost(event)
        if isinstance(inner, UsageChanged):
            self.usage += inner.reply
        elif isinstance(inner, ApprovalRequested) and event is not inner and not self.approve:
            self.declined.append(inner.call)

    def add(self, run: RunResult) -> None:
        """Take in the result of a run."""
        self.runs.append(run)

    async def settle(self) -> None:
        """Decide about the calls that wait, and go on, until none waits or the prompt is stopped.

        Without an `approve`, calls that waited before this prompt stay as they are.
        """
        agent = self.app.agent
        while calls := [ToolCall.of(each) for each in agent.conversation.questions()]:
            if self.approve is None and not self.runs:
                return
            if len(self.declined) + len(calls) > REFUSALS_MAX and self.approve is None:
                return
            try:
                decisions = await decisions_about(agent, calls, self._decision)
                self.stop.check()
            except Aborted:
                self.add(await decline_and_stop(agent, [call.id for call in calls]))
                return
            self.add(await apply_decisions(agent, calls, decisions))

    async def _decision(self, call: ToolCall) -> Decision:
        if self.approve is None:
            self.declined.append(call)
            return Rejected(NOBODY_ALLOWS)
        async with self.stop.scope():
            return await decided(self.approve, call)

    def result(self) -> PromptResult:
        """Return the outcome of the prompt.

        Raises:
            RunFailed: The last run ended in an error or at a limit.
        """
        last = self.runs[-1] if self.runs else RunResult((), None, 0, "aborted")
        final = last.final_message
        text, output = final.text if final and final.error is None else "", None
        if self.form and last.stop_reason == "end_turn":
            output, fault = self.form.settle(text, "json_schema")
            if fault:
                last = replace(last, stop_reason="invalid_output", error=fault)
        outcome = PromptResult(
            text=text,
            stop_reason=last.stop_reason,
            rounds=sum(run.iterations for run in self.runs),
            usage=self.usage,
            session_id=self.app.session_id,
            messages=tuple(each for run in self.runs for each in run.messages),
            declined=tuple(self.declined),
            output=output,
        )
        if last.error is not None:
            failure = RunFailed(last.error, outcome)
            failure.trouble = last.trouble
            raise failure
        return outcome
