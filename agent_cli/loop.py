"""The loop: for each turn up to the limit, take in what the user steered, prepare, ask the model,
record the reply, run its tools, answer them; stop when nothing was asked for and nothing is queued.

It knows no feature. What is switched on comes in through `LoopConfig` (hooks.py); what happened
goes out through one event sink. Errors of the world become the run's stop reason; only bugs raise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_cli.cancel import CancelToken
from agent_cli.conversation import Conversation
from agent_cli.errors import Aborted, AgentCliError, ContextOverflow, LimitReached
from agent_cli.events import (
    AgentEnd,
    AgentStart,
    Event,
    EventSink,
    MessageEnd,
    MessageStart,
    Notice,
    StateChanged,
    TurnEnd,
    TurnStart,
    UsageChanged,
)
from agent_cli.executor import Executor
from agent_cli.hooks import LoopConfig, Maybe, Turn, settled
from agent_cli.messages import AssistantMessage, CustomMessage, Message, UserMessage
from agent_cli.model_call import ask
from agent_cli.phase import ChatStateMachine, Phase
from agent_cli.provider import Reply
from agent_cli.timeline import text_of

_DISCARDED = {"refusal": "refusal", "model_context_window_exceeded": "context_window"}
_STOP_NOTICES = {
    "max_tokens": 'the reply was cut off at max_tokens: say "go on", or raise max_tokens',
    "refusal": "the model refused to answer; the exchange was taken out of the history",
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to; see `AgentEnd` for `stop_reason`. `iterations` counts model calls."""

    messages: tuple[Message, ...]
    final_message: AssistantMessage | None
    iterations: int
    stop_reason: str
    error: str | None = None


class Run:
    """One run over a conversation, from its prompts to the moment nothing is left to do."""

    def __init__(
        self,
        conversation: Conversation,
        config: Callable[[], LoopConfig],
        emit: EventSink,
        cancel: CancelToken,
    ) -> None:
        self._conversation = conversation
        self._config = config
        self._sink = emit
        self._cancel = cancel
        self._phase = ChatStateMachine(lambda old, new: emit(StateChanged(old, new)))
        self._messages: list[Message] = []
        self._message: AssistantMessage | None = None
        self._iterations = 0
        self._overflow = False
        self._cut_off = False

    async def run(self, prompts: Sequence[UserMessage] = ()) -> RunResult:
        """Run until nothing is left to do; without prompts, go on from where the history ends."""
        self._emit(AgentStart())
        try:
            async with self._cancel.scope():
                stop_reason, error = await self._turns(prompts), None
        except Aborted:
            stop_reason, error = "aborted", None
        except LimitReached as limit:
            stop_reason, error = limit.limit, str(limit)
        except AgentCliError as failure:
            stop_reason, error = "error", str(failure)
        except BaseException as bug:
            self._end("error", repr(bug))
            raise
        return self._end(stop_reason, error)

    async def _turns(self, incoming: Sequence[UserMessage]) -> str:
        turns = 0
        while True:
            config = self._config()
            again, steering = await self._turn(config, incoming)
            turns += 1
            stop_reason = self._message.stop_reason if self._message else ""
            if self._conversation.waiting:
                return "waiting_for_approval"
            if turns == config.max_rounds:
                if again:
                    self._give_up(turns)
                return stop_reason  # what is queued stays queued
            incoming = steering or await _poll(config.get_steering_messages)
            if not (again or incoming):
                incoming = await _poll(config.get_follow_up_messages)
                if not incoming:
                    return stop_reason

    async def _turn(
        self, config: LoopConfig, incoming: Sequence[UserMessage]
    ) -> tuple[bool, Sequence[UserMessage]]:
        """Do one turn; return whether to ask the model again, and what the user steered."""
        self._emit(TurnStart())
        results = []
        try:
            for message in incoming:
                self._conversation.add_user(message)
                self._emit(MessageStart(message))
                self._emit(MessageEnd(message))
            turn = await self._prepare(config)
            reply = None
            if not self._conversation.open_calls():
                self._iterations += 1
                reply = await ask(turn)
                self._record(reply)
            if not self._conversation.open_calls():
                self._phase.go(Phase.RESPONDING)
                return reply is not None and reply.stop_reason == "pause_turn", ()
            executor = Executor(turn)
            cut_off = _why_cut_off(reply)
            results = await executor.run(cut_off=cut_off)
            # A call that was cut off is asked for once more, smaller; twice in a row is enough.
            again = not (cut_off and self._cut_off)
            self._cut_off = bool(cut_off)
            return again, executor.steering
        except ContextOverflow:
            if self._overflow:
                raise
            self._overflow = True
            return True, ()
        finally:
            self._emit(TurnEnd(self._message, tuple(results)))

    async def _prepare(self, config: LoopConfig) -> Turn:
        if config.model is None:
            raise AgentCliError("no model is set: give the agent one")
        turn = Turn(
            config,
            self._conversation,
            self._emit,
            self._cancel,
            self._phase,
            config.model,
            list(config.tools),
            [config.system_prompt] if config.system_prompt else [],
            self._overflow,
        )
        for contribute in config.prepare:
            await settled(contribute(turn))
        return turn

    def _record(self, reply: Reply) -> None:
        """Put a complete reply into the history, unless its stop reason bars it from there."""
        if reply.stop_reason in _DISCARDED:
            reason, text = _DISCARDED[reply.stop_reason], text_of(reply.content)
            message = self._conversation.discard_reply(text, reason, usage=reply.usage)
        else:
            self._conversation.add_reply(reply)
            message = self._conversation.last_reply()
        self._emit(MessageEnd(message))
        self._emit(UsageChanged(reply.usage, self._conversation.usage))
        if message.stop_reason == "context_window":
            raise ContextOverflow("the conversation no longer fits into the model's window")
        self._overflow = False
        if reply.stop_reason in _STOP_NOTICES:
            self._emit(Notice("warning", _STOP_NOTICES[reply.stop_reason]))

    def _give_up(self, turns: int) -> None:
        text = f"stopped after {turns} rounds, the limit max_rounds: send a message to go on"
        self._conversation.note(CustomMessage("limit", {"text": text}))
        raise LimitReached(text, limit="max_rounds")

    def _end(self, stop_reason: str, error: str | None) -> RunResult:
        if stop_reason in ("error", "aborted"):
            self._phase.go(Phase.ERROR)
        else:
            self._phase.finish()
        self._phase.go(Phase.IDLE)
        self._conversation.complete()
        messages = tuple(self._messages)
        self._emit(AgentEnd(messages, stop_reason, error))
        replies = [message for message in messages if isinstance(message, AssistantMessage)]
        final = replies[-1] if replies else None
        return RunResult(messages, final, self._iterations, stop_reason, error)

    def _emit(self, event: Event) -> None:
        match event:
            case TurnStart():
                self._message = None
            case MessageEnd():
                self._messages.append(event.message)
                if isinstance(event.message, AssistantMessage):
                    self._message = event.message
        self._sink(event)


def _why_cut_off(reply: Reply | None) -> str | None:
    if reply is None or reply.stop_reason == "tool_use":
        return None
    return (
        f"Not run: the reply ended with {reply.stop_reason} before this call was complete."
        " Call again with less in one call."
    )


async def _poll(
    get_messages: "Callable[[], Maybe[Sequence[UserMessage] | None]] | None",
) -> Sequence[UserMessage]:
    return (await settled(get_messages()) or ()) if get_messages else ()
