"""A session of the whole program as a Python object, and one prompt without more."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.options import require, require_number, require_one_of
from agent_cli.contracts.permission_modes import STRICTNESS, Mode
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import in_microdollars, in_usd
from agent_cli.core.agent import Agent
from agent_cli.core.incoming import with_images
from agent_cli.core.run import NotCopied, RunSlot
from agent_cli.library.options import SessionOptions, build
from agent_cli.library.prompt import PromptResult, PromptRun
from agent_cli.system.event_loop import in_background

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.contracts.servers import ServerState
    from agent_cli.headless.structured import OutputSchema

StreamItem: TypeAlias = Event | PromptResult


async def query(prompt: str | UserMessage, options: SessionOptions | None = None) -> PromptResult:
    """Answer one prompt in a new session.

    Raises:
        RunFailed: It did not come to its end.
        AgentCliError: The session cannot be opened, or the options are not valid.
    """
    async with AgentSession(options) as session:
        return await session.prompt(prompt)


class AgentSession(NotCopied):
    """A conversation with the whole program: `async with AgentSession(options) as session:`.

    It belongs to the event loop in which it was opened. Leaving `async with` stops a prompt that
    still runs, and ends every child process. A process may have several sessions at once.
    """

    def __init__(self, options: SessionOptions | None = None) -> None:
        """Open nothing yet; raises `AgentCliError` if *options* are something else."""
        require(options, SessionOptions, type(None), what="options")
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
    def permission_mode(self) -> Mode:
        """The permission mode; it may be set at any time, and counts from the next call on."""
        return self._opened().permissions.mode

    @permission_mode.setter
    def permission_mode(self, mode: Mode) -> None:
        require_one_of(mode, STRICTNESS, what="permission_mode")
        self._opened().permissions.mode = mode

    @property
    def max_cost_usd(self) -> float:
        """The limit of cost of each prompt, 0 for none; it may be set during a prompt, too."""
        return in_usd(self._opened().account.limit)

    @max_cost_usd.setter
    def max_cost_usd(self, limit: float) -> None:
        require_number(limit, what="max_cost_usd")
        self._opened().account.limit_to(in_microdollars(limit))

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
            images: Image blocks (`image_block`) behind the text, or behind the user message.
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
        require(model, str, type(None), what="model")
        with self._slot.claimed() as stop:
            run = PromptRun(app, self._options.approve, stop, self._form())
            with run.listening():
                chosen = app.find_model(model) if model else None
                await run.settle()
                if not stop.cancelled:
                    asked = run.with_form(with_images(message, images))
                    run.runs.append(await app.agent.prompt(asked, model=chosen))
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

        Leaving the iteration early stops the run, and the next prompt waits for its end. A stream
        that a variable holds can be read further; `aclose()` stops its run.
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
