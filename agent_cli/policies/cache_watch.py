"""Report each reply that read less from the prompt cache than the previous reply left there.

The tokens that were lost, their price and the cause: the server's, where it names one, and our own
difference between the two requests. `PrefixWatch` reports a change before it is paid for; this is
the count afterwards, and also sees what no change of ours explains. The first request of a process
is compared with the last reply on record, whose request is not known.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.side_events import CacheLost
from agent_cli.contracts.timeline import (
    UNKNOWN_MODEL,
    CompactionOutput,
    Prompt,
    ReplyOutput,
    Usage,
)
from agent_cli.contracts.wording import dollars
from agent_cli.core.conversation import Conversation
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.policies.cache_warming import CacheWarming

CACHE_LIFE_S: Final = 300.0
"""A server keeps what it cached of a prompt for so long after its last use."""
# The smallest prompt that any model caches; less is rounding between blocks.
LEAST_TOKENS: Final = 1_024
# A smaller loss is counted in /usage cache, and interrupts nobody.
_NOTICED_MICRODOLLARS: Final = 10_000
_NOTICED_TOKENS: Final = 5_000
_OF_SERVER: Final = {
    "model_changed": "the model changed",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "earlier messages changed",
    "previous_message_not_found": "the server no longer knew the last reply",
}
_UNKNOWN: Final = (
    "something sent before the new message changed since the session was closed, or the server had"
    " dropped it"
)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last reply, what it left in the cache, and the request if this process sent it."""

    asked: str
    answered: str
    message_id: str
    cached: int
    at_s: float
    request: ModelRequest | None = None

    def is_of(self, model: Model) -> bool:
        """Return whether *model* was asked."""
        return self.request.model == model if self.request else self.asked == model.id


class CacheWatch:
    """A `stream_fn` around another, for one agent.

    Attributes:
        losses: The losses so far, oldest first.
        warming: Keeps the cache over pauses, if the user wants that.
    """

    def __init__(
        self,
        stream: StreamFn,
        *,
        price: Price,
        emit: EventSink,
        conversation: Callable[[], Conversation],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Watch the calls made through `stream`.

        Args:
            stream: Asks the model.
            price: Prices tokens.
            emit: Receives each loss, and a notice of each that was not announced.
            conversation: Returns the agent's conversation, whose last reply the first request
                follows.
            clock: Returns the time in seconds.
        """
        self._ask = stream
        self._price = price
        self._emit = emit
        self._conversation = conversation
        self._clock = clock
        self._last: _Last | None = None
        self._is_announced = False
        self.warming: CacheWarming | None = None
        self.losses: list[CacheLost] = []

    def expect_loss(self) -> None:
        """Count the loss of the next reply without a notice: it was announced."""
        self._is_announced = True

    def note_renewal(self, at_s: float) -> None:
        """Note that the cache was read at *at_s* for nothing but to keep it."""
        if self._last:
            self._last = replace(self._last, at_s=at_s)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply, as the function within; see `provider.Provider`."""
        last = self._last
        if last is None or (last.request and last.request.session_id != request.session_id):
            last = _last_on_record(self._conversation())
        elif last.request and _is_rewound(last.request, request):
            # What stood behind the prompt that the user went back to is not sent any more.
            left = _last_on_record(self._conversation())
            last = replace(last, cached=left.cached if left else 0)
        sent_s = self._clock()
        if self.warming:
            self.warming.begin()
        if last and last.is_of(request.model):
            # One server may refuse the id of another's.
            request = replace(request, previous_message_id=last.message_id or None)
        async with aclosing(closable(self._ask(request))) as events:
            async for event in events:
                if isinstance(event, ReplyEnd):
                    if last:
                        self._compare(last, request, event.reply, sent_s)
                    self._is_announced = False
                    # The cache lives from the last time it was used, which is when it was read.
                    reply, asked = event.reply, request.model.id
                    self._last = _Last(
                        asked, reply.model, reply.id, reply.usage.cached_tokens, sent_s, request
                    )
                    if self.warming:
                        self.warming.note(request, event.reply, sent_s)
                yield event

    def _compare(self, last: _Last, request: ModelRequest, reply: Reply, sent_s: float) -> None:
        # A history that was cut cannot be read anew beyond what is left of it.
        lost = min(last.cached, reply.usage.prompt_tokens) - reply.usage.cache_read_tokens
        if lost < LEAST_TOKENS:
            return
        cut = "was compacted" if is_compacted(self._conversation()) else "was cut or rewound"
        ours = _cause(last, request, sent_s, cut=cut)
        if reply.model != last.answered and last.is_of(request.model):
            ours = f"{reply.model} answered instead of {last.answered}"
        theirs = _OF_SERVER.get(reply.cache_miss, "")
        unexplained = "no change of ours: the server had dropped it" if last.request else _UNKNOWN
        cause = ours or theirs or unexplained
        if ours and theirs and theirs not in ours:
            cause = f"{ours}; the server says that {theirs}"
        cost = self._extra_cost(reply.model, lost)
        # Whoever fell back on another model has told so.
        was_announced = self._is_announced or bool(reply.declined)
        loss = CacheLost(lost, cost, cause, was_announced)
        self.losses.append(loss)
        self._emit(loss)
        if was_announced or not deserves_notice(lost, cost):
            return
        price = "" if cost is None else f", {dollars(cost)} more"
        text = f"{lost:,} cached tokens were read anew{price}: {cause}"
        self._emit(Notice("info", text))

    def _extra_cost(self, model: str, lost: int) -> int | None:
        written = self._price(model, Usage(cache_write_5m_tokens=lost))
        read = self._price(model, Usage(cache_read_tokens=lost))
        return None if written is None or read is None else written - read


def deserves_notice(tokens: int, cost: int | None) -> bool:
    """Return whether a user cares about reading *tokens* anew: from a cent, if there is a price."""
    return tokens >= _NOTICED_TOKENS if cost is None else cost >= _NOTICED_MICRODOLLARS


def _cause(last: _Last, request: ModelRequest, sent_s: float, *, cut: str) -> str:
    """Return what changed between the two requests, or the time between them; "" for nothing."""
    if not last.is_of(request.model):
        return f"the model changed from {last.asked} to {request.model.id}"
    causes = [*_changes(last.request, request, cut=cut)] if last.request else []
    if not causes and (idle_s := sent_s - last.at_s) > CACHE_LIFE_S:
        causes.append(f"{idle_s / 60:.0f} minutes had passed, and the cache lives five")
    return " and ".join(causes)


def _changes(before: ModelRequest, request: ModelRequest, *, cut: str) -> Iterator[str]:
    for name, one, other in (
        ("the tools changed", before.tools, request.tools),
        ("the system prompt changed", before.system, request.system),
        ("the effort changed", before.thinking_level, request.thinking_level),
        ("the budget of tokens changed", before.task_budget, request.task_budget),
    ):
        if one != other:
            yield name
    if _is_rewound(before, request):
        yield "the conversation went back to an earlier prompt"
    elif before.messages != request.messages[: len(before.messages)]:
        yield f"the history {cut}"


def _is_rewound(before: ModelRequest, request: ModelRequest) -> bool:
    """Return whether *request* sends a part of the history of *before*, and a message behind it."""
    kept = len(request.messages) - 1
    return 0 < kept < len(before.messages) and (
        request.messages != before.messages and request.messages[:kept] == before.messages[:kept]
    )


def last_reply(conversation: Conversation) -> tuple[str, ReplyOutput | None]:
    """Return the last reply on record, and the model that its prompt went to."""
    for prompt in reversed(conversation.prompts):
        if reply := reply_of(prompt):
            return prompt.model, reply
    return "", None


def reply_of(prompt: Prompt) -> ReplyOutput | None:
    """Return the last reply to *prompt*, if there is any."""
    replies = (out for out in reversed(prompt.output) if isinstance(out, ReplyOutput))
    return next(replies, None)


def is_compacted(conversation: Conversation) -> bool:
    """Return whether a compaction, which is reported with its own price, cut the history."""
    for prompt in reversed(conversation.prompts):
        for output in reversed(prompt.output):
            if isinstance(output, ReplyOutput):
                return False
            if isinstance(output, CompactionOutput):
                return bool(output.summary)
    return False


def _last_on_record(conversation: Conversation) -> _Last | None:
    asked, reply = last_reply(conversation)
    if reply is None:
        return None
    asked = reply.model if asked == UNKNOWN_MODEL else asked
    cached, at_s = reply.usage.cached_tokens, reply.at_ms / 1_000
    return _Last(asked, reply.model, reply.message_id, cached, at_s)


def cache_lines(
    usage: Usage, losses: Sequence[CacheLost], *, price: Callable[[Usage], int | None]
) -> list[str]:
    """Return the lines of `/usage cache`: hits, savings, and each loss with its cause.

    Args:
        usage: All usage of the session.
        losses: The losses that were seen.
        price: Prices tokens of the session's model.
    """
    if not usage.prompt_tokens:
        return ["nothing was sent yet"]
    written = usage.cache_write_tokens
    share = usage.cache_read_tokens / usage.prompt_tokens
    lines = [
        f"{usage.cache_read_tokens:,} of {usage.prompt_tokens:,} tokens sent were read from the"
        f" cache ({share:.0%}), {written:,} were written to it"
    ]
    full = price(Usage(input_tokens=usage.cache_read_tokens))
    read = price(Usage(cache_read_tokens=usage.cache_read_tokens))
    if full is not None and read is not None:
        lines.append(f"reading from the cache saved {dollars(full - read)}")
    if not losses:
        return [*lines, "no loss in this run of the program"]
    costs = [loss.cost_microdollars for loss in losses if loss.cost_microdollars is not None]
    total = sum(loss.tokens for loss in losses)
    lines.append(f"lost in this run: {total:,} tokens, {dollars(sum(costs))} more")
    for loss in losses:
        more = loss.cost_microdollars
        cost = "" if more is None else f" ({dollars(more)})"
        lines.append(f"  {loss.tokens:,} tokens{cost}: {loss.cause}")
    return lines
