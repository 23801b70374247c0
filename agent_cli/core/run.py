"""A run of an agent: its phase (document S4), its activity, its result, and the slot it holds."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Final, NoReturn

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import (
    SEND_A_MESSAGE,
    AgentBusy,
    AgentCliError,
    ConversationError,
    Trouble,
    trouble_of,
)
from agent_cli.contracts.events import (
    AgentEnd,
    AgentStart,
    Event,
    EventSink,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from agent_cli.contracts.messages import AssistantMessage, Message, ToolResultMessage, whole_answer
from agent_cli.contracts.options import Function, require
from agent_cli.contracts.timeline import Prompt
from agent_cli.core import projection
from agent_cli.core.conversation import Conversation
from agent_cli.system.batches import unwind
from agent_cli.system.records import dataclass, field


class Phase(StrEnum):
    """The phases of a run."""

    IDLE = "idle"
    THINKING = "thinking"
    PLANNING_TOOLS = "planning_tools"
    EXECUTING_TOOLS = "executing_tools"
    RESPONDING = "responding"
    DONE = "done"
    ERROR = "error"


# Beyond S4: done and error lead back to idle (a REPL goes on), idle to planning_tools (a run that
# resumes an approved batch), thinking to thinking never (a call that is repeated stays there) and
# responding to thinking (a paused or steered answer goes on).
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.THINKING, Phase.PLANNING_TOOLS}),
    Phase.THINKING: frozenset({Phase.PLANNING_TOOLS, Phase.RESPONDING}),
    Phase.PLANNING_TOOLS: frozenset({Phase.EXECUTING_TOOLS}),
    Phase.EXECUTING_TOOLS: frozenset({Phase.THINKING, Phase.RESPONDING}),
    Phase.RESPONDING: frozenset({Phase.DONE, Phase.THINKING}),
    Phase.DONE: frozenset({Phase.IDLE}),
    Phase.ERROR: frozenset({Phase.IDLE}),
}

# Named as in document S4, for front ends, which learn the phase from `StateChanged`.
THINKING_SHOWN: Final = frozenset({Phase.THINKING, Phase.PLANNING_TOOLS})
CONTENT_STREAMED: Final = frozenset({Phase.RESPONDING})


class ChatStateMachine:
    """A phase that only moves along `TRANSITIONS`; any phase may go to error.

    It only tracks. The loop moves it; the renderer and the executor consult its guards. Approvals
    are not a state here: a run that waits for one is over (its prompt waits, not the loop).

        idle → thinking → planning_tools → executing_tools → thinking …
                        → responding → done → idle           any → error → idle
    """

    def __init__(self, on_change: Callable[[Phase, Phase], None] | None = None) -> None:
        require(on_change, Function, type(None), what="on_change")
        self.phase = Phase.IDLE
        self._on_change = on_change

    def can_go(self, target: Phase) -> bool:
        """Return whether *target* may come next."""
        return target is Phase.ERROR or target in TRANSITIONS[self.phase]

    def go(self, target: Phase) -> None:
        """Move to *target* and call `on_change`.

        Raises:
            ConversationError: The table has no such transition.
        """
        if not self.can_go(target):
            raise ConversationError(f"a run cannot go from {self.phase} to {target}")
        before, self.phase = self.phase, target
        if self._on_change:
            self._on_change(before, target)

    def end(self, *, failed: bool) -> None:
        """Move to idle along the table: through done, or through error if that cannot be reached.

        A limit may end a run before it has left idle, or while its calls are planned.
        """
        if not failed and self.can_go(Phase.RESPONDING):
            self.go(Phase.RESPONDING)
        self.go(Phase.DONE if not failed and self.can_go(Phase.DONE) else Phase.ERROR)
        self.go(Phase.IDLE)

    @property
    def can_stream_content(self) -> bool:
        """The answer may be shown (sequential mode; live mode shows it while thinking too)."""
        return self.phase in CONTENT_STREAMED

    @property
    def can_execute_tools(self) -> bool:
        """Tools may start."""
        return self.phase is Phase.EXECUTING_TOOLS

    @property
    def can_show_thinking(self) -> bool:
        """Thinking may be shown."""
        return self.phase in THINKING_SHOWN


@dataclass(slots=True)
class Activity:
    """The current activity of a run, derived from its events alone.

    `partial` builds the reply that is being streamed; None between replies.
    """

    is_streaming: bool = False
    partial: Callable[[], AssistantMessage] | None = None
    pending: set[str] = field(default_factory=set[str])
    error: str | None = None

    def track(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case AgentStart():
                self.is_streaming, self.error = True, None
            case MessageStart(message=AssistantMessage() as message):
                self.partial = lambda: message
            case MessageUpdate():
                self.partial = event.snapshot
            case MessageEnd():
                self.partial = None
            case ToolExecutionStart():
                self.pending.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.pending.discard(event.tool_call_id)
            case AgentEnd():
                self.is_streaming, self.error = False, event.error
            case _:
                pass


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run; see `AgentEnd` for `stop_reason`.

    `final_message` is the last reply; of one that paused and went on, it has the content of all
    parts. `iterations` counts model calls, also one that failed, or that a limit kept from being
    sent. `trouble` is the part of the world that ended it, or None.
    """

    messages: tuple[Message, ...]
    final_message: AssistantMessage | None
    iterations: int
    stop_reason: str
    error: str | None = None
    trouble: Trouble | None = None

    @property
    def ending(self) -> str:
        """Why it ended, for a reader who can send no message: the error or the stop reason."""
        return (self.error or self.stop_reason).removesuffix(SEND_A_MESSAGE)


@dataclass(slots=True)
class Tally:
    """Passes events on to `sink` and collects the result of the run.

    `message` is the reply of the current turn; `messages` are those published so far;
    `has_turn` says whether a turn began; `earlier` are the messages since the last
    input from before the run, and `answered` the calls with results from before it.
    """

    sink: EventSink
    conversation: Conversation
    messages: list[Message] = field(default_factory=list[Message])
    message: AssistantMessage | None = None
    iterations: int = 0
    has_turn: bool = False
    trouble: Trouble | None = None
    earlier: tuple[Message, ...] = ()
    answered: frozenset[str] = frozenset()

    def __call__(self, event: Event) -> None:
        """Update from *event* and pass it on."""
        match event:
            case AgentStart():
                results = self.conversation.results_of_last_reply()
                self.answered = frozenset(result.tool_call_id for result in results)
                self.earlier = _since_input(self.conversation.prompts)
            case TurnStart():
                self.message = None
                self.has_turn = True
            case MessageEnd():
                self.messages.append(event.message)
                if isinstance(event.message, AssistantMessage):
                    self.message = event.message
            case _:
                pass
        self.sink(event)

    @property
    def stop_reason(self) -> str:
        """The stop reason of the current turn's reply; a turn without one ends no run."""
        assert self.message is not None
        return self.message.stop_reason

    def added(self) -> tuple[Message, ...]:
        """Return the messages that the run added, with the results of a batch that waits.

        The results of a reply are published once all of them exist, perhaps by a later run. A
        caller that continues from these messages would run calls without results again.
        """
        waits = self.conversation.waiting
        unpublished = self.conversation.results_of_last_reply() if waits else ()
        answered, added = {*self.answered}, list[Message]()
        for message in (*self.messages, *unpublished):
            if isinstance(message, ToolResultMessage):
                if message.tool_call_id in answered:
                    continue
                answered.add(message.tool_call_id)
            added.append(message)
        return tuple(added)

    def ended_by(self, error: AgentCliError) -> tuple[str, str | None]:
        """Note that *error* ends the run; return the stop reason and the sentence."""
        self.trouble = trouble_of(error)
        return error.stop_reason, str(error) or None

    def result(self, stop_reason: str, error: str | None) -> RunResult:
        """Return the result of a run that ended for *stop_reason*."""
        added = self.added()
        has_reply = any(isinstance(message, AssistantMessage) for message in added)
        final = whole_answer((*self.earlier, *added)) if has_reply else None
        return RunResult(added, final, self.iterations, stop_reason, error, self.trouble)


def _since_input(prompts: Sequence[Prompt]) -> tuple[Message, ...]:
    """Return the messages from the last prompt on that was sent with an input."""
    sent = (at for at in reversed(range(len(prompts))) if prompts[at].input)
    outputs = projection.entries(prompts[next(sent, 0) :])
    return tuple(projection.messages(outputs))


class NotCopied:
    """An owner of runs: `copy` and `pickle` refuse it, because a copy would share its slot."""

    def __reduce__(self) -> NoReturn:
        raise AgentCliError(
            f"an {type(self).__name__} is not copied and not pickled: copy agent.state.messages,"
            " or fork the session"
        )


class RunSlot:
    """Holds one run or change at a time, and its cancel token.

    A run, or a change of the conversation, claims the slot before it publishes or records anything,
    and releases the slot when the last listener has seen its last event. Until then other callers,
    listeners included, are refused, or stop the run through its token. Any thread may ask. A run
    whose event loop was closed cannot continue: the next caller ends it first.
    """

    def __init__(self, before_release: Callable[[], object] = lambda: None) -> None:
        self._before_release = before_release
        self._lock = threading.Lock()
        self._run: tuple[asyncio.AbstractEventLoop, Coroutine[Any, Any, object]] | None = None
        self._token: CancelToken | None = None
        self._interruption: BaseException | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @contextmanager
    def claimed(self) -> Generator[CancelToken]:
        """Hold the slot for the body, with a new token; raises `AgentBusy` if it is held."""
        self._end_orphaned_run()
        token = CancelToken()
        with self._lock:
            self._refuse_if_held()
            self._token = token
        try:
            yield token
        finally:
            self._release(token)

    async def run(self, run: Coroutine[Any, Any, RunResult]) -> RunResult:
        """Await *run* for the holder of the slot."""
        self._run = (asyncio.get_running_loop(), run)
        return await run

    @property
    def is_ending(self) -> bool:
        """Whether the slot is held by a run that was told to stop."""
        return (token := self._token) is not None and token.cancelled

    def is_held_by(self, token: CancelToken) -> bool:
        """Return whether the run that got *token* holds the slot."""
        return self._token is token

    def _end_orphaned_run(self) -> None:
        """End a run whose event loop was closed."""
        with self._lock:
            token, run = self._token, self._run
            if not (token and run and run[0].is_closed()):
                return
            self._run = None
        token.cancelled = True  # its event loop is closed, so `cancel()` could not reach it
        unwind(run[1])
        self._release(token)

    def _release(self, token: CancelToken) -> None:
        if not self.is_held_by(token):
            return  # another caller has ended the run already
        self._before_release()
        with self._lock:
            waiters, self._waiters = self._waiters, []
            interruption, self._interruption = self._interruption, None
            self._token = self._run = None
        for loop, released in waiters:
            with suppress(RuntimeError):  # its loop was closed
                loop.call_soon_threadsafe(released.set)
        if interruption:
            raise interruption

    def require_free(self) -> None:
        """Raise `AgentBusy` if the slot is held."""
        self._end_orphaned_run()
        self._refuse_if_held()

    def _refuse_if_held(self) -> None:
        if self._token:
            raise AgentBusy(
                "a run is going on: use steer() or follow_up(), or abort() it and wait for its end"
            )

    def cancel(self) -> None:
        """Set the holder's token, if there is a holder."""
        self._end_orphaned_run()
        if token := self._token:
            token.cancel()

    def interrupt(self, interruption: BaseException) -> None:
        """Cancel the holder and raise *interruption* when it has ended; at once without one."""
        with self._lock:
            token, self._interruption = self._token, interruption if self._token else None
        if token is None:
            raise interruption
        token.cancel()

    async def wait(self) -> None:
        """Return when the slot is free."""
        self._end_orphaned_run()
        released = asyncio.Event()  # one for each wait, because it is bound to one event loop
        with self._lock:
            if self._token is None:
                return
            self._waiters.append((asyncio.get_running_loop(), released))
        await released.wait()
