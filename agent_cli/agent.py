"""The stateful level: one conversation, two queues, listeners, and one run at a time."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import structlog

from agent_cli.event_stream import require_open_end
from agent_cli.cancel import CancelToken
from agent_cli.conversation import Conversation
from agent_cli.errors import AgentBusy, NothingToContinue
from agent_cli.events import (
    AgentEnd,
    Event,
    EventSink,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.hooks import LoopConfig
from agent_cli.intake import append, conversation_of
from agent_cli.loop import Run, RunResult
from agent_cli.messages import AssistantMessage, CustomMessage, Message, UserMessage
from agent_cli.provider import Model, ThinkingLevel
from agent_cli.timeline import Block
from agent_cli.tooling import Tool

_log = structlog.get_logger(__name__)

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]


@dataclass(frozen=True, slots=True)
class AgentState:
    """A copy of the agent's state at one moment; changing its lists changes nothing."""

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: ThinkingLevel | None = "minimal"
    tools: list[Tool] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    is_streaming: bool = False
    stream_message: AssistantMessage | None = None
    pending_tool_calls: frozenset[str] = frozenset()
    error: str | None = None


class Agent:
    """A conversation that can be talked to, steered, stopped and continued.

    One run at a time; settings that change meanwhile count from the next model call on. Events go
    to the listeners in the order they subscribed; a listener that raises is logged and skipped.
    """

    def __init__(
        self,
        config: LoopConfig | None = None,
        *,
        initial_state: AgentState | None = None,
        conversation: Conversation | None = None,
        steering_mode: QueueMode = "one_at_a_time",
        follow_up_mode: QueueMode = "one_at_a_time",
    ) -> None:
        """Create an agent.

        Args:
            config: How runs work: the model call, the limits, the seams.
            initial_state: What it holds wins over *config*; flags and partials are ignored.
            conversation: Go on with this one instead of `initial_state.messages`.
            steering_mode: Deliver queued steering messages one a turn, or all at once.
            follow_up_mode: The same for follow-ups.
        """
        config = config or LoopConfig()
        if initial_state:
            config = replace(
                config,
                system_prompt=initial_state.system_prompt,
                model=initial_state.model,
                thinking_level=initial_state.thinking_level,
                tools=tuple(initial_state.tools),
            )
        messages = initial_state.messages if initial_state else ()
        self.steering_mode: QueueMode = steering_mode
        self.follow_up_mode: QueueMode = follow_up_mode
        self._config = config
        self._listeners: list[EventSink] = []
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()
        self._steered = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._cancel: CancelToken | None = None
        self._is_streaming = False
        self._partial: Callable[[], AssistantMessage] | None = None
        self._pending: set[str] = set()
        self._error: str | None = None
        self.conversation = conversation or conversation_of(messages, user_id=config.user_id)
        self.conversation.publish = self._emit

    @property
    def state(self) -> AgentState:
        """The state now, as a copy."""
        config = self._config
        return AgentState(
            config.system_prompt,
            config.model,
            config.thinking_level,
            list(config.tools),
            self.conversation.messages(),
            self._is_streaming,
            self._partial() if self._partial else None,
            frozenset(self._pending),
            self._error,
        )

    def subscribe(self, listener: EventSink) -> Callable[[], None]:
        """Call *listener* with every event from now on; return a function that ends that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def prompt(self, message: str | UserMessage, images: Sequence[Block] = ()) -> RunResult:
        """Say something and run until nothing is left to do.

        Args:
            message: Text, or a whole message.
            images: Image blocks to go with the text.

        Returns:
            What the run came to; a failure is its `error`, not an exception.

        Raises:
            AgentBusy: A run is going on.
            ConversationError: A call waits for a decision.
        """
        if isinstance(message, str):
            message = UserMessage.of(message, images)
        self._require_idle()
        self.conversation.require_no_question()
        return await self._run([message])

    async def trigger(self, *, visible: bool = True) -> RunResult:
        """Run a prompt that nobody typed (a schedule, a notification)."""
        self._require_idle()
        self.conversation.begin(visible=visible)
        return await self._run(())

    async def continue_(self) -> RunResult:
        """Go on without a new message: retry after a failure, or deliver what is queued.

        Raises:
            AgentBusy: A run is going on.
            NothingToContinue: The conversation ends with an answer and nothing is queued.
        """
        self._require_idle()
        try:
            require_open_end(self.conversation)
        except NothingToContinue:
            queued = self._take_steering() or self._take_follow_ups()
            if not queued:
                raise
            return await self._run(queued)
        return await self._run(())

    async def approve(self, tool_call_id: str) -> RunResult:
        """Let a waiting call run with the input it was shown with; a second yes does nothing."""
        return await self._decide(tool_call_id, "approved")

    async def reject(
        self, tool_call_id: str, reason: str = "The user declined this call."
    ) -> RunResult:
        """Answer a waiting call with an error that says *reason*, and go on."""
        return await self._decide(tool_call_id, "rejected", reason)

    async def _decide(
        self, tool_call_id: str, decision: Literal["approved", "rejected"], reason: str = ""
    ) -> RunResult:
        self._require_idle()
        decided = self.conversation.decide_call(tool_call_id, decision, reason)
        if not decided or self.conversation.questions():
            waiting = "waiting_for_approval" if self.conversation.waiting else ""
            return RunResult((), None, 0, waiting)
        self.conversation.set_state("running")
        return await self._run(())

    async def _run(self, prompts: Sequence[UserMessage]) -> RunResult:
        self._cancel = CancelToken()
        self._idle.clear()
        self._is_streaming, self._error = True, None
        run = Run(self.conversation, self._current_config, self._emit, self._cancel)
        try:
            return await run.run(prompts)
        finally:
            self._cancel = None
            self._is_streaming = False
            self._idle.set()

    def abort(self) -> None:
        """Stop the run: close the stream, cancel the tools, answer what is open. Idle: nothing."""
        if self._cancel:
            self._cancel.cancel()

    async def wait_for_idle(self) -> None:
        """Return when no run is going on and every listener has seen its end."""
        await self._idle.wait()

    def steer(self, message: UserMessage) -> None:
        """Queue *message* for the running run: after the current tools, before the next request."""
        self._steering.append(message)
        self._steered.set()

    def follow_up(self, message: UserMessage) -> None:
        """Queue *message* for when the run would end."""
        self._follow_ups.append(message)

    queue_message = steer

    def clear_steering_queue(self) -> list[UserMessage]:
        """Take the queued steering messages back."""
        return _drain(self._steering, "all")

    def clear_follow_up_queue(self) -> list[UserMessage]:
        """Take the queued follow-ups back."""
        return _drain(self._follow_ups, "all")

    def clear_all_queues(self) -> list[UserMessage]:
        """Take everything back that was queued."""
        return [*self.clear_steering_queue(), *self.clear_follow_up_queue()]

    def has_queued_messages(self) -> bool:
        """Return whether anything waits to be delivered."""
        return bool(self._steering or self._follow_ups)

    def set_queue_mode(self, mode: QueueMode) -> None:
        """Set how steering messages are delivered."""
        self.steering_mode = mode

    def set_system_prompt(self, system_prompt: str) -> None:
        """Set the stable part of the system prompt; this starts a new cache prefix."""
        self._config = replace(self._config, system_prompt=system_prompt)

    def set_model(self, model: Model) -> None:
        """Set the model; this starts a new cache prefix."""
        self._config = replace(self._config, model=model)

    def set_thinking_level(self, level: ThinkingLevel | None) -> None:
        """Set how much the model thinks; None leaves it to the model."""
        self._config = replace(self._config, thinking_level=level)

    def set_tools(self, tools: Sequence[Tool]) -> None:
        """Set the tools; this starts a new cache prefix."""
        self._config = replace(self._config, tools=tuple(tools))

    def replace_messages(self, messages: Sequence[Message]) -> None:
        """Put *messages* in place of the conversation.

        Raises:
            AgentBusy: A run is going on.
            ConversationError: A tool result answers no call.
        """
        self._require_idle()
        self.conversation = conversation_of(messages, user_id=self._config.user_id)
        self.conversation.publish = self._emit

    def append_message(self, message: Message) -> None:
        """Append *message* as if it had happened.

        Raises:
            AgentBusy: A run is going on.
            ConversationError: A tool result answers no open call.
        """
        self._require_idle()
        append(self.conversation, message)

    def clear_messages(self) -> None:
        """Forget the conversation."""
        self.replace_messages(())

    def reset(self, *, all: bool = False) -> None:
        """Forget messages, queues and error; with *all* also prompt, tools and model."""
        self.clear_messages()
        self.clear_all_queues()
        self._error = None
        if all:
            self._config = replace(self._config, system_prompt="", tools=(), model=None)

    def _require_idle(self) -> None:
        if self._cancel:
            raise AgentBusy("a run is going on: use steer() or follow_up(), or abort() it first")

    def _current_config(self) -> LoopConfig:
        config = self._config
        return replace(
            config,
            convert_to_llm=config.convert_to_llm or _without_custom,
            get_steering_messages=config.get_steering_messages or self._take_steering,
            get_follow_up_messages=config.get_follow_up_messages or self._take_follow_ups,
            wait_for_steering=config.wait_for_steering or self._wait_for_steering,
        )

    async def _wait_for_steering(self) -> None:
        await self._steered.wait()

    def _take_steering(self) -> list[UserMessage]:
        self._steered.clear()
        return _drain(self._steering, self.steering_mode)

    def _take_follow_ups(self) -> list[UserMessage]:
        return _drain(self._follow_ups, self.follow_up_mode)

    def _emit(self, event: Event) -> None:
        self._track(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # A broken renderer must not stop the agent's work or its record.
                _log.exception("listener failed", event_type=event.type)

    def _track(self, event: Event) -> None:
        match event:
            case MessageStart(message=AssistantMessage() as message):
                self._partial = lambda: message
            case MessageUpdate():
                self._partial = event.snapshot
            case MessageEnd():
                self._partial = None
            case ToolExecutionStart():
                self._pending.add(event.tool_call_id)
            case ToolExecutionEnd():
                self._pending.discard(event.tool_call_id)
            case AgentEnd():
                self._is_streaming, self._error = False, event.error


def _drain(queue: deque[UserMessage], mode: QueueMode) -> list[UserMessage]:
    """Take the first message, or all of them, out of *queue*."""
    taken = len(queue) if mode == "all" else min(1, len(queue))
    return [queue.popleft() for _ in range(taken)]


def _without_custom(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, CustomMessage)]
