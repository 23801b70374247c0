"""Ask the model at the end of an unchanged request, which it reads from the cache.

Nothing else of the request changes, not even its tools: the cache would not be read. A model that
calls a tool all the same is told once that none runs.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from agent_cli.contracts.errors import AgentCliError, ContextOverflow, ModelError
from agent_cli.contracts.events import EventSink, Retry
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import (
    ModelRequest,
    Reply,
    ReplyEnd,
    Retrying,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Block, Usage, text_block, text_of
from agent_cli.core.agent import Agent
from agent_cli.core.model_call import request_of
from agent_cli.policies.accounts import metered, spending
from agent_cli.policies.compaction import Compaction

USABLE = ("end_turn", "stop_sequence")

_ASIDE = (
    "[agent-cli: the user asks this beside the work. Answer briefly, from what you know of this"
    " conversation. Call no tool, and do not go on with the work. Neither the question nor your"
    " answer stays in the conversation.]\n\n"
)
_NO_TOOL_FOR_ASIDE = "No tool runs now: answer the question as text."
_STILL_RUNS = "[agent-cli: this call is still at work]"


class SideQuestions:
    """Questions of the user beside the conversation, which stays unchanged."""

    def __init__(
        self,
        agent: Agent,
        compaction: Compaction,
        stream_fn: StreamFn,
        *,
        check: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            compaction: Knows what the last request was prepared with.
            check: Raises `AgentCliError` if a question must not be sent; None lets all pass.
        """
        self._check = check
        self._agent = agent
        self._compaction = compaction
        self._stream_fn = stream_fn

    async def ask(self, question: str) -> str:
        """Return the model's answer, as Markdown; a run may go on meanwhile.

        Raises:
            AgentCliError: There is no conversation yet, no answer, or the question is refused.
        """
        if self._check:
            await self._check(question)
        turn = self._agent.next_turn()
        conversation = turn.conversation
        if not conversation.prompts:
            raise AgentCliError("there is no conversation yet: send the question as a message")
        if prepared := self._compaction.prepared(conversation):
            turn.system, turn.tools = list(prepared[0]), list(prepared[1])
        request = await request_of(turn)
        request = replace(request, messages=(*request.messages, *_open_results(request.messages)))
        stream_fn = metered(self._stream_fn, spending(conversation, self._agent.publish))
        try:
            reply, _usage = await answer_at_the_end_of(
                request, _ASIDE + question, stream_fn, no_tool=_NO_TOOL_FOR_ASIDE
            )
        except ContextOverflow as error:
            raise AgentCliError(
                "the conversation leaves no room for the question: /compact makes room"
            ) from error
        text = text_of(reply.content).strip()
        if not text or reply.stop_reason not in (*USABLE, "max_tokens"):
            raise AgentCliError("the model gave no answer: send the question as a message")
        return text if reply.stop_reason in USABLE else f"{text} … (cut off at its token limit)"


async def answer_at_the_end_of(
    request: ModelRequest,
    text: str,
    stream_fn: StreamFn,
    *,
    no_tool: str,
    emit: EventSink = lambda _event: None,
) -> tuple[Reply, Usage]:
    """Return the reply to *request* with a final user message *text*, and the total usage.

    The reply calls tools if the model did so twice; *no_tool* is the result of such a call.

    Raises:
        ContextOverflow: The request is too long.
        ModelError: The model could not be asked, or its reply was lost.
    """
    asked = replace(request, messages=(*request.messages, UserMessage.of(text)))
    reply = await reply_to(asked, stream_fn, emit)
    if reply.stop_reason != "tool_use":
        return reply, reply.billed
    try:
        again = await reply_to(_after_calls(asked, reply, no_tool), stream_fn, emit)
    except ContextOverflow:
        return reply, reply.billed
    return again, reply.billed + again.billed


async def reply_to(
    request: ModelRequest, stream_fn: StreamFn, emit: EventSink, *, waits_s_max: float = math.inf
) -> Reply:
    """Return the whole reply to *request*; *emit* hears of retries.

    Raises:
        ModelError: The model could not be asked, its reply was lost, or the waits before its
            retries would be longer than *waits_s_max* together.
    """
    reply = None
    async with aclosing(closable(stream_fn(request))) as events:
        async for event in events:
            match event:
                case ReplyEnd():
                    reply = event.reply
                case Retrying():
                    if (waits_s_max := waits_s_max - event.wait_s) < 0:
                        raise ModelError(event.reason)
                    # Never "restarted": no part of this reply was shown.
                    emit(
                        Retry(event.attempt, event.max_attempts, event.wait_s, event.reason, False)
                    )
                case _:
                    pass
    if reply is None:
        raise ModelError("the reply ended too early")
    return reply


def _after_calls(request: ModelRequest, reply: Reply, no_tool: str) -> ModelRequest:
    """Return *request* with the *reply* that called tools, each answered by a refusal."""
    called = AssistantMessage(reply.content, reply.stop_reason, reply.usage, reply.model)
    results = (_result(block, no_tool, is_error=True) for block in _calls(reply.content))
    return replace(request, messages=(*request.messages, called, *results), summarizes=False)


def _open_results(messages: Sequence[LlmMessage]) -> Iterator[ToolResultMessage]:
    """Yield a result for each call of the last reply that is at work."""
    has_ended: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            has_ended.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            for block in _calls(message.content):
                if block["id"] not in has_ended:
                    yield _result(block, _STILL_RUNS)
            return


def _calls(content: Sequence[Block]) -> Iterator[Block]:
    return (block for block in content if block["type"] == "tool_use")


def _result(call: Block, text: str, *, is_error: bool = False) -> ToolResultMessage:
    content = (text_block(text),)
    return ToolResultMessage(str(call["id"]), str(call["name"]), content, is_error=is_error)
