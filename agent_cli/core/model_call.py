"""One model call: stream the reply to a prepared turn as events, and record it.

An incomplete reply is reported and recorded as discarded; the projection keeps its text in the
context only if the user interrupted it. The provider retries; each restart ends the turn, so that a
turn has at most one reply.
"""

from asyncio import CancelledError
from collections.abc import Sequence
from copy import deepcopy

from agent_cli.contracts.errors import (
    ContextOverflow,
    ConversationError,
    ModelError,
    NoStreamFunction,
)
from agent_cli.contracts.events import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Notice,
    Retry,
    TurnEnd,
    TurnStart,
    UsageChanged,
)
from agent_cli.contracts.messages import (
    LIMIT,
    AssistantMessage,
    CustomMessage,
    LlmMessage,
    Message,
    is_cut_off,
)
from agent_cli.contracts.options import require
from agent_cli.contracts.provider import (
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Json, Prompt, ReplyOutput, text_of
from agent_cli.core.arguments import require_unique_names
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.projection import is_refused
from agent_cli.core.returned_values import is_stopped, settled, settled_messages
from agent_cli.core.run import Phase
from agent_cli.core.stream_processor import StreamProcessor, checked_stream
from agent_cli.core.turn import Turn

_DISCARDED = {"refusal": "refusal", "model_context_window_exceeded": "context_window"}
_EXPLANATION_CHARS_MAX = 500


async def ask(turn: Turn) -> str:
    """Let the model answer the current conversation; return the reply's stop reason.

    Raises:
        NoStreamFunction, ProviderNotFound: No model can be asked.
        ContextOverflow: The conversation, or the reply, did not fit into the model's window.
        ModelError: It could not be asked, or its reply was lost.
    """
    reply = await _stream(turn)
    if reply.stop_reason in _DISCARDED:
        reason, text = _DISCARDED[reply.stop_reason], text_of(reply.content)
        message = turn.conversation.discard_reply(text, reason, usage=reply.billed)
    else:
        turn.conversation.add_reply(reply)
        message = turn.conversation.last_reply()
    turn.emit(MessageEnd(message))
    turn.emit(UsageChanged(reply.billed, turn.conversation.usage))
    if message.stop_reason == "context_window":
        raise ContextOverflow.of_reply()
    if early_end := _early_end(reply, turn.conversation.prompts[-1]):
        turn.emit(Notice("warning", early_end))
    return reply.stop_reason


def _early_end(reply: Reply, prompt: Prompt) -> str:
    """Return why *reply* to *prompt* ended early and what to do now; "" for any other reply."""
    if reply.stop_reason == "refusal":
        answer, gone = "go on", "its last reply was left out of the history"
        if is_refused(prompt):
            answer, gone = "answer", "the exchange was taken out of the history"
        return (
            f"the model refused to {answer}{_refused_because(reply.stop_details)}; {gone}:"
            " rephrase the prompt, or use another model"
        )
    if reply.stop_reason != "max_tokens":
        return ""
    if not any(block["type"] == "tool_use" for block in reply.content):
        return 'the reply was cut off at max_tokens: say "go on", or raise max_tokens'
    if _was_cut_off_before(prompt):
        return (
            "the reply was cut off at max_tokens again: ask for smaller steps, or raise max_tokens"
        )
    return "the reply was cut off at max_tokens; the model is told so and goes on"


def _was_cut_off_before(prompt: Prompt) -> bool:
    """Return whether the reply before the last one was cut off as well, which ends the run."""
    replies = [output for output in prompt.output if isinstance(output, ReplyOutput)]
    return len(replies) > 1 and is_cut_off(replies[-2].stop_reason)


def _refused_because(details: Json) -> str:
    """Return the API's explanation of a refusal, or its category, as part of a sentence."""
    match details:
        case {"explanation": str(explanation)} if explanation.strip():
            return f": {' '.join(explanation.split())[:_EXPLANATION_CHARS_MAX].rstrip('.')}"
        case {"category": str(category)}:
            return f" ({category})"
        case _:
            return ""


async def _stream(turn: Turn) -> Reply:
    stream_fn = stream_fn_of(turn.config)
    request = await request_of(turn)
    turn.cancel.check()
    if turn.phase.phase is not Phase.THINKING:
        turn.phase.go(Phase.THINKING)
    processor = StreamProcessor(turn.conversation.now())
    events = closable(checked_stream(stream_fn(request)))
    try:
        async for event in events:
            _take(turn, processor, event)
    except BaseException as error:
        stopped = isinstance(error, CancelledError) and is_stopped()
        _discard(turn, processor, "aborted" if stopped else "error", str(error) or None)
        if isinstance(error, CancelledError) and not stopped:
            raise ModelError("the stream broke off from within: send the prompt again") from None
        raise
    finally:
        await events.aclose()  # now, not when the garbage collector finds it
    if processor.reply is None:
        _discard(turn, processor, "error", "the stream ended without a complete reply")
        raise ModelError("the model's reply ended too early: send the prompt again")
    return processor.reply


def stream_fn_of(config: LoopConfig) -> StreamFn:
    """Return the function that asks the model.

    Raises:
        NoStreamFunction, ProviderNotFound: There is no provider for the model.
    """
    if config.stream_fn:
        return config.stream_fn
    if config.registry and config.model:
        return config.registry.find(config.model).stream
    raise NoStreamFunction(
        "no model can be asked: give the agent a stream_fn, or a registry and a model"
    )


async def request_of(turn: Turn) -> ModelRequest:
    """Return the current request of *turn*."""
    config = turn.config
    messages: Sequence[Message] = turn.conversation.context()
    if config.transform_context:
        # A deep copy: code that changes a message in place must not change the record.
        made = config.transform_context(deepcopy(messages), turn.cancel)
        messages = await settled_messages(made, what="transform_context")
    key = await settled(config.get_api_key(turn.model.provider)) if config.get_api_key else None
    require(key, str, type(None), what="the key of get_api_key")
    require_unique_names(turn.tools)
    return ModelRequest(
        model=turn.model,
        messages=await _llm_messages(turn, messages),
        system=tuple(turn.system),
        tools=tuple(tool.spec for tool in turn.tools),
        max_tokens=config.max_tokens,
        temperature=config.temperature,
        thinking_level=config.thinking_level,
        thinking_budgets=dict(config.thinking_budgets),
        api_key=key or config.api_key,
        session_id=config.session_id,
        max_retry_delay_ms=config.max_retry_delay_ms,
        cancel=turn.cancel,
    )


async def _llm_messages(turn: Turn, messages: Sequence[Message]) -> tuple[LlmMessage, ...]:
    if convert := turn.config.convert_to_llm:
        messages = await settled_messages(convert(messages), what="convert_to_llm")
    llm = [message for message in messages if not isinstance(message, CustomMessage)]
    kinds = {message.role for message in messages if isinstance(message, CustomMessage)} - {LIMIT}
    if kinds:
        raise ConversationError(
            f"messages of kind {', '.join(sorted(kinds))} need a convert_to_llm that handles them"
        )
    return tuple(llm)


def _take(turn: Turn, processor: StreamProcessor, event: StreamEvent) -> None:
    if isinstance(event, Retrying):
        _retry(turn, processor, event)
        return
    begins = not processor.started
    processor.feed(event)
    if begins:
        turn.emit(MessageStart(processor.snapshot()()))
    if not isinstance(event, ReplyStart | ReplyEnd):
        turn.emit(MessageUpdate(processor.snapshot(), event))


def _retry(turn: Turn, processor: StreamProcessor, event: Retrying) -> None:
    discarded = _discard(turn, processor, "error", event.reason)
    if discarded:
        turn.emit(TurnEnd(discarded, ()))
    processor.feed(event)
    restarted = discarded is not None
    turn.emit(Retry(event.attempt, event.max_attempts, event.wait_s, event.reason, restarted))
    if restarted:
        turn.emit(TurnStart())


def _discard(
    turn: Turn, processor: StreamProcessor, reason: str, error: str | None
) -> AssistantMessage | None:
    """Record the part of an incomplete reply that was received; return None when there is none."""
    if not processor.started:
        return None
    usage = processor.usage
    message = turn.conversation.discard_reply(processor.text, reason, error=error, usage=usage)
    turn.emit(MessageEnd(message))
    turn.emit(UsageChanged(usage, turn.conversation.usage))
    return message
