"""The stateful API: one conversation, two queues, listeners, one run at a time, and its state."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, NothingToContinue
from agent_cli.contracts.events import AgentStart, Event, EventSink, MessageStart
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Incoming,
    Message,
    UserMessage,
)
from agent_cli.contracts.options import ThinkingLevel, all_of, require
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, CallDecision, Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.core.event_stream import joined, reopen
from agent_cli.core.imported_history import append, close, conversation_of
from agent_cli.core.incoming import checked_incoming, checked_user_message, with_images
from agent_cli.core.listeners import HeldEvents, Listeners
from agent_cli.core.loop import Run
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import MessageQueue, QueueMode, arrival, combined, with_outputs
from agent_cli.core.model_call import stream_fn_of
from agent_cli.core.run import Activity, ChatStateMachine, NotCopied, RunResult, RunSlot
from agent_cli.core.turn import Turn
from agent_cli.system.logger import for_session
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class AgentState:
    """A copy of the agent's state at one moment; changing its lists does not affect the agent."""

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: ThinkingLevel | None = "minimal"
    tools: list[Tool] = field(default_factory=list[Tool])
    messages: list[Message] = field(default_factory=list[Message])
    is_streaming: bool = False
    stream_message: AssistantMessage | None = None
    pending_tool_calls: frozenset[str] = frozenset()
    error: str | None = None


class Agent(NotCopied):
    """A conversation with a model that can be prompted, steered, stopped and continued.

    One run at a time; settings that change meanwhile count from the next model call on. Events go
    to the listeners in the order they subscribed; a listener that raises is logged and skipped. An
    argument of a wrong type raises `AgentCliError` and changes nothing.
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
            config: Options of every run: the model call, the limits, the hooks.
            initial_state: System prompt, model, thinking level, tools and messages to start with,
                where they are set; flags and partial messages are ignored.
            conversation: Continue this one instead of `initial_state.messages`.
            steering_mode: Deliver queued steering messages one per turn, or all at once.
            follow_up_mode: The same for follow-ups.

        Raises:
            AgentCliError: An option is set in two places, to different values.
        """
        require(config, LoopConfig, type(None), what="config")
        require(initial_state, AgentState, type(None), what="initial_state")
        require(conversation, Conversation, type(None), what="conversation")
        self._steering = MessageQueue(steering_mode)
        self._follow_ups = MessageQueue(follow_up_mode)
        state = initial_state or AgentState()
        if conversation and state.messages:
            raise AgentCliError("messages are set in AgentState and in conversation: set one")
        self._config = joined(
            config or LoopConfig(),
            "AgentState",
            system_prompt=state.system_prompt,
            model=state.model,
            thinking_level=state.thinking_level,
            tools=all_of(state.tools, Tool, what="tools"),
        )
        user_id = self._config.user_id
        self.conversation = conversation or conversation_of(state.messages, user_id=user_id)
        close(self.conversation)
        self.conversation.publish = self.publish
        self._activity = Activity()
        self._listeners = Listeners()
        self._slot = RunSlot(self._take_back)
        self._prompt_model: Model | None = None

    @property
    def state(self) -> AgentState:
        """A copy of the current state."""
        config, activity = self._config, self._activity
        return AgentState(
            system_prompt=config.system_prompt,
            model=config.model,
            thinking_level=config.thinking_level,
            tools=list(config.tools),
            messages=self.conversation.messages(),
            is_streaming=activity.is_streaming,
            stream_message=activity.partial() if activity.partial else None,
            pending_tool_calls=frozenset(activity.pending),
            error=activity.error,
        )

    @property
    def options(self) -> LoopConfig:
        """The options of the next model call, with the model of the prompt at work."""
        return replace(self._config, model=self._prompt_model or self._config.model)

    def subscribe(self, listener: EventSink) -> Callable[[], None]:
        """Call *listener* with every event from now on; return a function that ends that.

        A listener that subscribes twice is called twice; each function ends one subscription.

        Raises:
            AgentCliError: It cannot be called, or is a coroutine or generator function, which
                nothing would run.
        """
        return self._listeners.add(listener)

    def unsubscribe(self, listener: EventSink) -> None:
        """End the latest subscription of *listener*; nothing happens if there is none."""
        self._listeners.remove(listener)

    async def prompt(
        self, message: str | Message, images: Sequence[Block] = (), *, model: Model | None = None
    ) -> RunResult:
        """Send a message and run until nothing is left to do; a failure is the result's `error`.

        Args:
            message: Text, a user message, or a message of a custom kind, which the model reads if
                `convert_to_llm` translates it.
            images: Image blocks (`image_block`) behind the text, or behind the user message.
            model: Used instead of the agent's, until the next prompt begins or `set_model` is
                called.

        Raises:
            AgentBusy: A run is going on.
            ConversationError: The message is empty or a reply, or a call waits for a decision.
            NoStreamFunction, ProviderNotFound: No model can be asked.
        """
        prompt = checked_incoming(with_images(message, images))
        with self._slot.claimed() as cancel:
            self.conversation.require_ready_for(prompt)
            self._ask_with(model)
            return await self._run([with_outputs(self.conversation, prompt)], cancel)

    async def trigger(self, *, visible: bool = True) -> RunResult:
        """Run a prompt that the user did not type (a schedule, a notification)."""
        with self._slot.claimed() as cancel:
            self._ask_with(None)
            with self._announced_later() as begun:
                self.conversation.begin(model=self._config.model, visible=visible)
            return await self._run((), cancel, begun)

    async def continue_(self) -> RunResult:
        """Continue without a new message: deliver queued messages, or retry after a failure.

        Raises:
            AgentBusy: A run is going on.
            NothingToContinue: The conversation ends with an answer and nothing is queued.
        """
        with self._slot.claimed() as cancel:
            self.conversation.require_ready_for(None)
            self._ask_with(self._prompt_model)
            with self._announced_later() as begun:
                if not (queued := self._steering.take()):
                    try:
                        reopen(self.conversation, self._config)
                    except NothingToContinue:
                        if not (queued := self._follow_ups.take()):
                            raise
            return await self._run(queued, cancel, begun)

    async def approve(self, tool_call_id: str, *, edited: Json = None) -> RunResult:
        """Let a waiting call run as shown or with *edited* input; approving again does nothing."""
        return await self._decide(tool_call_id, "approved", edited=edited)

    async def reject(
        self, tool_call_id: str, reason: str = "The user declined this call."
    ) -> RunResult:
        """Answer a waiting call with an error that gives *reason*, and continue the run."""
        return await self._decide(tool_call_id, "rejected", reason)

    async def _decide(
        self, tool_call_id: str, decision: CallDecision, reason: str = "", *, edited: Json = None
    ) -> RunResult:
        with self._slot.claimed() as cancel:
            self._ask_with(self._prompt_model)
            decided = self.conversation.decide_call(tool_call_id, decision, reason, edited=edited)
            if not decided or self.conversation.questions():
                waiting = "waiting_for_approval" if self.conversation.waiting else ""
                return RunResult((), None, 0, waiting)
            self.conversation.set_state("running")
            return await self._run((), cancel)

    def _ask_with(self, model: Model | None) -> None:
        """Set the model of the prompt.

        Raises:
            NoStreamFunction, ProviderNotFound: It cannot be asked: the caller's mistake, which
                changes nothing.
        """
        require(model, Model, type(None), what="model")
        stream_fn_of(replace(self._config, model=model or self._config.model))
        self._prompt_model = model
        self.conversation.once = model is not None

    @contextmanager
    def _announced_later(self) -> Generator[HeldEvents]:
        """Hold the events of a change back until the run is announced: its start comes first."""
        held = self.conversation.publish = HeldEvents(self.publish)
        try:
            yield held
        except BaseException:
            held.release()  # it is recorded, though no run begins
            raise
        finally:
            self.conversation.publish = self.publish

    async def _run(
        self, prompts: Sequence[Incoming], cancel: CancelToken, begun: HeldEvents | None = None
    ) -> RunResult:
        def publish(event: Event) -> None:
            if self._slot.is_held_by(cancel):  # tasks that an ended run left are not heard
                self.publish(event)
                if begun and isinstance(event, AgentStart):
                    begun.release()

        run = Run(self.conversation, self._current_config, publish, cancel)
        with for_session(self._current_config().session_id):
            return await self._slot.run(run.run(prompts))

    def steer(self, message: str | UserMessage) -> None:
        """Queue *message* for the current run: after the current tools, before the next request.

        Raises:
            ConversationError: It is empty, or no message of the user's.
        """
        self._steering.put(checked_user_message(message))

    queue_message = steer

    def follow_up(self, message: str | UserMessage) -> None:
        """Queue *message* for the moment the run would end; raises as `steer` does."""
        self._follow_ups.put(checked_user_message(message))

    def has_queued_messages(self) -> bool:
        """Return whether a message waits to be delivered."""
        return bool(self._steering or self._follow_ups)

    def clear_steering_queue(self) -> list[UserMessage]:
        """Discard the queued steering messages, and return them."""
        return self._steering.clear()

    def clear_follow_up_queue(self) -> list[UserMessage]:
        """Discard the queued follow-ups, and return them."""
        return self._follow_ups.clear()

    def clear_all_queues(self) -> list[UserMessage]:
        """Discard all queued messages, and return them."""
        return [*self.clear_steering_queue(), *self.clear_follow_up_queue()]

    def set_steering_mode(self, mode: QueueMode) -> None:
        """Set how queued steering messages are delivered."""
        self._steering.set_mode(mode)

    set_queue_mode = set_steering_mode

    def set_follow_up_mode(self, mode: QueueMode) -> None:
        """Set how queued follow-ups are delivered."""
        self._follow_ups.set_mode(mode)

    def abort(self) -> None:
        """Stop the run, if any: close the stream, cancel the tools, answer open calls."""
        self._slot.cancel()

    async def wait_for_idle(self) -> None:
        """Return when no run is going on and every listener has seen its end."""
        await self._slot.wait()

    def set_system_prompt(self, system_prompt: str) -> None:
        """Set the stable part of the system prompt; this starts a new cache prefix."""
        self._config = replace(self._config, system_prompt=system_prompt)

    def set_model(self, model: Model) -> None:
        """Set the model, for the current prompt too; this starts a new cache prefix."""
        require(model, Model, what="model")  # reset(all=True) is the way to have none
        self._config = replace(self._config, model=model)
        self._prompt_model = None

    def set_thinking_level(self, level: ThinkingLevel | None) -> None:
        """Set how much the model thinks; None leaves it to the model."""
        self._config = replace(self._config, thinking_level=level)

    def set_tools(self, tools: Sequence[Tool]) -> None:
        """Set the tools; this starts a new cache prefix."""
        self._config = replace(self._config, tools=tools)

    def adopt(self, conversation: Conversation, *, model: Model | None = None) -> None:
        """Continue *conversation*, its last prompt with *model*; raises `AgentBusy` in a run."""
        require(conversation, Conversation, what="conversation")
        require(model, Model, type(None), what="model")
        with self._slot.claimed():
            self._adopt(conversation, model)

    def _adopt(self, conversation: Conversation, model: Model | None = None) -> None:
        self.conversation = conversation
        self._prompt_model = model
        conversation.publish = self.publish
        close(conversation)
        self._report_repairs()

    def replace_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation with *messages*; raises as `append_message` does."""
        self.adopt(conversation_of(messages, user_id=self._config.user_id))

    def append_message(self, message: Message) -> None:
        """Append *message* as history before the next prompt; its tool calls are not run.

        Raises:
            AgentBusy: A run is going on.
            ConversationError: It cannot be sent, or a tool result answers no open call.
        """
        with self._slot.claimed():
            append(self.conversation, message)
            self._report_repairs()

    def clear_messages(self) -> None:
        """Clear the conversation."""
        self.replace_messages(())

    def reset(self, *, all: bool = False) -> None:
        """Clear messages, queues and error; with *all* also the system prompt, tools and model."""
        with self._slot.claimed():
            self._adopt(conversation_of((), user_id=self._config.user_id))
            self.clear_all_queues()
            self._activity.error = None
            if all:
                self._config = replace(self._config, system_prompt="", tools=(), model=None)

    def _report_repairs(self) -> None:
        for notice in self.conversation.take_reports():
            self.publish(notice)

    def require_idle(self) -> None:
        """Raise `AgentBusy` in a run, for callers that do something else before they prompt."""
        self._slot.require_free()

    def _take_back(self) -> None:
        self._steering.take_back()
        self._follow_ups.take_back()

    def _current_config(self) -> LoopConfig:
        config = self._config
        return replace(  # not of `options`: each copy is checked as a whole
            config,
            model=self._prompt_model or config.model,
            session_id=config.session_id or self.conversation.id,
            convert_to_llm=config.convert_to_llm or _without_custom,
            get_steering_messages=combined(self._steering, config.get_steering_messages),
            get_follow_up_messages=combined(self._follow_ups, config.get_follow_up_messages),
            wait_for_steering=arrival(self._steering, config.wait_for_steering),
        )

    def next_turn(self) -> Turn:
        """Return the inputs of the next request as the options give them, not yet prepared."""
        config, phase = self._current_config(), ChatStateMachine()
        return Turn(config, self.conversation, self.publish, CancelToken(), phase, False)

    def publish(self, event: Event) -> None:
        """Pass *event* to the listeners; for events of the application, which no run sends."""
        self._activity.track(event)
        if isinstance(event, MessageStart):
            for queue in (self._steering, self._follow_ups):
                queue.delivered(event.message)
        if ending := self._listeners.tell(event):
            self._slot.interrupt(ending)


def _without_custom(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, CustomMessage)]
