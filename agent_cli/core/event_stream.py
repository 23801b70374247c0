"""The stateless API: a run as an asynchronous iterator of its events.

stream = agent_loop([UserMessage.of("Hello")], AgentContext("You are helpful."), config)
async for event in stream:
    print(event.type)
print(stream.result().final_message.text)
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, ConversationError, NothingToContinue
from agent_cli.contracts.events import Event, MessageStart
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Incoming,
    Message,
    UserMessage,
)
from agent_cli.contracts.options import all_of, require
from agent_cli.contracts.tooling import Allow, Deny, Tool
from agent_cli.core.arguments import checked_verdict
from agent_cli.core.conversation import Conversation
from agent_cli.core.imported_history import conversation_of
from agent_cli.core.incoming import checked_incoming
from agent_cli.core.loop import Run
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import MessageQueue, combined
from agent_cli.core.model_call import stream_fn_of
from agent_cli.core.run import RunResult
from agent_cli.system.logger import for_session
from agent_cli.system.records import dataclass, field


@dataclass(slots=True)
class AgentContext:
    """The input of a run. A run does not change it: `append` the messages it added yourself.

    The system prompt and tools may be set here or in `LoopConfig`, but must not differ.
    """

    system_prompt: str = ""
    messages: Sequence[Message] = ()
    tools: Sequence[Tool] = ()

    def __post_init__(self) -> None:
        self.messages = all_of(self.messages, what="messages")
        self.tools = all_of(self.tools, Tool, what="tools")

    def append(self, *messages: Message) -> None:
        """Add *messages* at the end."""
        self.messages = (*self.messages, *messages)


@dataclass(slots=True)
class EventStream:
    """The events of one run, once; leaving the iteration early stops the run.

    `cancel` is the run's token: `stream.cancel.cancel()` aborts it, and its last events arrive.
    `undelivered` holds messages that the run took from your `get_steering_messages` or
    `get_follow_up_messages` and could not deliver before it ended: send them again with the next
    run.
    """

    _conversation: Conversation
    _config: LoopConfig
    _prompts: Sequence[Incoming]
    cancel: CancelToken = field(default_factory=CancelToken)
    _result: RunResult | None = None
    _begun: bool = False
    _lent: MessageQueue = field(default_factory=lambda: MessageQueue("all"))

    @property
    def undelivered(self) -> tuple[UserMessage, ...]:
        """Messages that a limit, an abort or a failure kept from the conversation."""
        return self._lent.undelivered

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._begun:
            raise ConversationError("the events of a run can be read only once, by one reader")
        self._begun = True
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._conversation.publish = queue.put_nowait
        lending = self._lending()
        run = Run(self._conversation, lambda: lending, partial(self._emit, queue), self.cancel)
        # Not a TaskGroup: this generator yields, and a group around a yield would deliver its
        # cancellation to whoever happens to iterate (PEP 789). The generator owns the task.
        with for_session(self._config.session_id):  # the task copies the current contextvars
            task = asyncio.ensure_future(run.run(self._prompts))
        task.add_done_callback(lambda _task: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            self._result = await task
        finally:
            if not task.done():
                self.cancel.cancel()
                await task

    def _emit(self, queue: asyncio.Queue[Event | None], event: Event) -> None:
        if isinstance(event, MessageStart):
            self._lent.delivered(event.message)
        queue.put_nowait(event)

    def _lending(self) -> LoopConfig:
        return replace(
            self._config,
            get_steering_messages=combined(self._lent, self._config.get_steering_messages),
            get_follow_up_messages=combined(self._lent, self._config.get_follow_up_messages),
        )

    def result(self) -> RunResult:
        """Return the result of the run.

        Raises:
            ConversationError: The events have not been read to their end.
        """
        if self._result is None:
            raise ConversationError("the run has not ended: iterate over its events first")
        return self._result


def agent_loop(
    prompts: Sequence[str | Incoming], context: AgentContext, config: LoopConfig
) -> EventStream:
    """Run *prompts* on top of *context*; without prompts, do the same as `agent_loop_continue`.

    Raises:
        ConversationError: A prompt or a message of *context* cannot be sent.
        NoStreamFunction, ProviderNotFound: No model can be asked.
        AgentCliError: *context* and *config* set different prompts or tools, or an argument is of
            another type.
    """
    _require_types(context, config)
    prompts = all_of(prompts, what="prompts")
    if not prompts:
        return agent_loop_continue(context, config)
    checked = tuple(map(checked_incoming, prompts))
    return EventStream(conversation_of(context.messages), _with(context, config), checked)


def agent_loop_continue(
    context: AgentContext,
    config: LoopConfig,
    *,
    decisions: Mapping[str, Allow | Deny] = MappingProxyType({}),
) -> EventStream:
    """Continue *context* without a new message: retry after a failure, or decide about calls.

    Args:
        context: The conversation at the end of an earlier run.
        config: The options.
        decisions: A person's decisions about waiting calls, by call id. Approved calls run with the
            decision's `input`, or else the one that was shown; for the others the model reads the
            reason. The calls that waited behind them follow. With `approval="batch"` nothing runs
            before all are decided: give them together. Without decisions, calls without a result
            get an error result.

    Raises:
        NothingToContinue: The context is empty or ends with an answer.
        ConversationError: A decision is about a call that does not wait.
        AgentCliError: An argument is of another type, or an input no JSON object.
    """
    _require_types(context, config)
    require(decisions, Mapping, what="decisions")
    conversation = conversation_of(context.messages, keep_open=bool(decisions))
    if decisions:
        _decide(conversation, decisions)
    else:
        reopen(conversation, config)
    return EventStream(conversation, _with(context, config), ())


def _require_types(context: object, config: object) -> None:
    require(context, AgentContext, what="context")
    require(config, LoopConfig, what="config")


def _decide(conversation: Conversation, decisions: Mapping[str, Allow | Deny]) -> None:
    waiting = [call.tool_call_id for call in conversation.open_calls()]
    if strange := sorted(map(str, decisions.keys() - set(waiting))):
        raise ConversationError(
            f"no call {', '.join(strange)} waits for a decision; waiting: {waiting}"
        )
    for verdict in decisions.values():
        require(verdict, Allow, Deny, what="each of decisions")
        checked_verdict(verdict)
    conversation.pause(dict.fromkeys(decisions, ""))
    for id, verdict in decisions.items():
        if isinstance(verdict, Deny):
            conversation.decide_call(id, "rejected", verdict.reason)
        else:
            conversation.decide_call(id, "approved", edited=verdict.input)
    conversation.set_state("running")


def reopen(conversation: Conversation, config: LoopConfig) -> None:
    """Make *conversation* ready for a run that adds no message.

    Raises:
        NothingToContinue: It is empty or ends with an answer.
    """
    conversation.answer_open_calls()
    history = [each for each in conversation.context() if not isinstance(each, CustomMessage)]
    last = history[-1] if history else None
    if last is None or (isinstance(last, AssistantMessage) and not last.is_paused):
        raise NothingToContinue(
            "nothing to continue: the conversation is empty or ends with an answer"
        )
    if conversation.prompts[-1].state == "completed":
        # A completed prompt stays completed; the next outputs may have to wait for a decision.
        conversation.begin(model=config.model)


def _with(context: AgentContext, config: LoopConfig) -> LoopConfig:
    stream_fn_of(config)  # a missing provider is the caller's mistake: it raises at once
    return joined(
        config, "AgentContext", system_prompt=context.system_prompt, tools=tuple(context.tools)
    )


def joined(config: LoopConfig, where: str, **options: object) -> LoopConfig:
    """Return *config* with those of *options* that are set; a default counts as not set.

    Raises:
        AgentCliError: An option is set in *config* and, to another value, in *where*.
    """
    unset, chosen = LoopConfig(), dict[str, Any]()  # Any: every field has its own type
    for name, value in options.items():
        here, default = getattr(config, name), getattr(unset, name)
        if value in (default, here):
            continue
        if here != default:
            raise AgentCliError(f"{name} is set in LoopConfig and in {where}: set it in one")
        chosen[name] = value
    return replace(config, **chosen)
