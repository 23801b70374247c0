"""Report what the next request reads anew, before it is paid for, and ask above a limit.

Servers cache the prefix of a request: tools, then system prompt, then messages, for one model.
After a change, or five minutes without a request, the model reads everything behind it again, at
full price. `CacheWatch` counts afterwards what this watch did not foresee.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from agent_cli.contracts.dialogs import Reread
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import Message
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import Price
from agent_cli.contracts.timeline import ReplyOutput, Usage
from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.policies.cache_watch import (
    CACHE_LIFE_S,
    LEAST_TOKENS,
    deserves_notice,
    is_compacted,
    last_reply,
    reply_of,
)
from agent_cli.policies.estimate import (
    USUAL_IMAGE_TOKENS,
    estimate_fixed,
    estimate_tokens,
    measured_tokens,
)
from agent_cli.system.alignment import common_start
from agent_cli.system.records import dataclass

_HOUR_S = 3_600.0
_NAMED_MAX = 4

Unsent: TypeAlias = Callable[[Sequence[Message], str], Sequence[int]]
"""Returns for each message how many of its images a request to the model of this id leaves out."""
Consent: TypeAlias = Callable[[Reread], Awaitable[bool | None]]
"""Asks a person whether to pay; None if nobody can be asked."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The parts of a request that the cache knows it by."""

    conversation_id: str
    model_id: str
    level: ThinkingLevel | None
    tools: Sequence[Tool]
    system: Sequence[str]
    messages: Sequence[Message]
    unsent: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """Why something is read anew, from which part on: 0 tools, 1 system prompt, 2 the rest."""

    cause: str
    part: int
    kept: int = 0
    """Parts of the system prompt that stay cached; all of them if only messages changed."""
    may_ask: bool = True
    from_message: int = 0


class PrefixWatch:
    """A `prepare` contributor, the last in order, so that it sees the changes of all others."""

    def __init__(
        self,
        price: Price,
        *,
        ask_above: int = 0,
        consent: Consent | None = None,
        unsent: Unsent = lambda _messages, _model_id: (),
        effort_is_free: Callable[[str], bool] = lambda _model_id: False,
        on_told: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Remember no request yet.

        Args:
            price: Prices tokens.
            ask_above: Microdollars above which *consent* is asked when a prompt begins; 0 for
                never.
            consent: Asks the person.
            unsent: Counts the images that a request leaves out.
            effort_is_free: Returns whether a model keeps its cache over a change of the effort.
            on_told: Called with each notice, so that the loss is not reported twice.
            clock: Returns the time in seconds.
        """
        self._price = price
        self._ask_above = ask_above
        self._consent = consent
        self._unsent = unsent
        self._effort_is_free = effort_is_free
        self._on_told = on_told
        self._clock = clock
        self._last: _Request | None = None
        self._at_s = 0.0
        self._quoted = ""

    async def __call__(self, turn: Turn) -> None:
        """Report the tokens read anew and their price from a cent; ask first above the limit.

        Raises:
            AgentCliError: The person does not want to pay that now.
        """
        if turn.conversation.open_calls():
            return  # the model is not asked
        context = turn.conversation.context()
        now = _Request(
            conversation_id=turn.conversation.id,
            model_id=turn.model.id,
            level=turn.config.thinking_level,
            tools=_sent(turn.tools),
            system=tuple(turn.system),
            messages=context,
            unsent=self._unsent(context, turn.model.id),
        )
        if reread := self._reread(turn.conversation, now):
            is_paid = reread.cause == self._quoted or await self._is_paid(turn, reread)
            if not is_paid and deserves_notice(reread.tokens, reread.cost):
                turn.emit(Notice("info", str(reread)))
            self._on_told()
        elif is_compacted(turn.conversation) and self._may_cut(now):
            self._on_told()  # by the compaction, with its size before and after
        self._quoted = ""
        self._last, self._at_s = now, self._clock()

    @property
    def used_s(self) -> float:
        """When the cache was last read, as far as this program knows; 0 before any request."""
        return self._at_s

    def note_renewal(self, at_s: float) -> None:
        """Note that the cache was read at *at_s* for nothing but to keep it."""
        self._at_s = at_s

    def note_fallback(self, model_id: str, level: ThinkingLevel | None) -> None:
        """Note that the model *model_id*, asked for *level*, answered the last request."""
        if self._last:
            self._last = replace(self._last, model_id=model_id, level=level)

    def forget_tool(self, name: str) -> None:
        """Note that the last request was answered without the tool *name*."""
        if self._last:
            kept = [tool for tool in self._last.tools if tool.name != name]
            self._last = replace(self._last, tools=kept)

    def quote(
        self, conversation: Conversation, *, model_id: str, level: ThinkingLevel | None
    ) -> Reread | None:
        """Return what a change to *model_id* and *level* costs; None if nothing more is lost.

        The caller tells it and asks; the next request does neither again.
        """
        last = self._last
        if last is None or last.conversation_id != conversation.id:
            last = _Request(conversation.id, model_id, level, (), (), ())
        context = conversation.context()
        changed = replace(
            last,
            model_id=model_id,
            level=level,
            messages=context,
            unsent=self._unsent(context, model_id),
        )
        reply = last_reply(conversation)[1]
        if reply is None or self._idle_s(last, reply) > CACHE_LIFE_S:
            return None
        reread = self._reread(conversation, changed)
        self._quoted = reread.cause if reread else ""
        return reread

    def _may_cut(self, now: _Request) -> bool:
        last = self._last
        if last is None or last.conversation_id != now.conversation_id:
            return True  # another process sent the last request
        return _is_cut(last, now)

    def _rereads(self, last: _Request, now: _Request) -> bool:
        """Return whether the other effort makes the model read its messages anew."""
        return "off" in (last.level, now.level) or not self._effort_is_free(now.model_id)

    def _idle_s(self, last: _Request | None, reply: ReplyOutput) -> float:
        at_s = self._at_s if last and last is self._last else reply.at_ms / 1_000
        return self._clock() - at_s

    async def _is_paid(self, turn: Turn, reread: Reread) -> bool:
        """Return whether a person agreed to pay; False if they are not to be asked, or cannot be.

        Raises:
            AgentCliError: They do not agree.
        """
        begins = reply_of(turn.conversation.prompts[-1]) is None
        if not (reread.needs_consent and begins and self._consent):
            return False
        answer = await self._consent(reread)
        if answer is False:
            raise AgentCliError(
                "not sent: your next prompt goes together with this one. /compact first makes it"
                " smaller; reread_question_usd is the limit of the question"
            )
        return bool(answer)

    def _reread(self, conversation: Conversation, now: _Request) -> Reread | None:
        changes = list(self._changes(conversation, now))
        if not changes:
            return None
        widest = min(changes, key=lambda each: (each.part, each.kept, each.from_message))
        stable_tokens = estimate_fixed((), [tool.spec for tool in now.tools if widest.part == 0])
        anew = list(now.system[widest.kept :])
        if widest.kept == 0 and anew:
            stable_tokens += estimate_fixed([anew.pop(0)], ())
        every_tool = [tool.spec for tool in now.tools]
        counted = (measured_tokens(conversation) or 0) - estimate_fixed(now.system, every_tool)
        start = widest.from_message
        estimated = estimate_tokens(now.messages[start:])
        estimated -= sum(now.unsent[start:]) * USUAL_IMAGE_TOKENS
        behind_tokens = estimate_fixed(anew, ()) + max(0 if start else counted, estimated)
        # The parts that rarely change are cached for an hour, at a higher price.
        written = Usage(cache_write_5m_tokens=behind_tokens, cache_write_1h_tokens=stable_tokens)
        cost = self._price(now.model_id, written)
        causes = " and ".join(each.cause for each in changes)
        may_ask = self._ask_above and any(each.may_ask for each in changes)
        needs_consent = bool(may_ask and cost and cost > self._ask_above)
        return Reread(causes, written.prompt_tokens, cost, needs_consent)

    def _changes(self, conversation: Conversation, now: _Request) -> Iterator[_Change]:
        last = self._last
        if last and last.conversation_id != now.conversation_id:
            last = None
        asked, reply = last_reply(conversation)
        is_cached = reply is not None and reply.usage.cached_tokens >= LEAST_TOKENS
        before = last.model_id if last else asked
        if before and before != now.model_id:
            if is_cached:  # what no cache holds costs nothing extra
                yield _Change(f"the model changed from {before} to {now.model_id}", 0)
            return
        if last:
            yield from _prefix_changes(last, now)
        if last and is_cached:
            if last.level != now.level and self._rereads(last, now):
                yield _Change("the effort changed", 2, len(now.system))
            yield from _message_changes(conversation, last, now)
        if is_cached and reply:
            since_s = self._idle_s(last, reply)
            if since_s > CACHE_LIFE_S:
                part, kept = (0, 0) if since_s > _HOUR_S else (2, 1)
                passed = f"{since_s / 60:.0f} minutes passed"
                # Whoever comes back to an open session has just chosen to go on with it.
                may_ask = last is None
                yield _Change(f"{passed}, and the cache lives five", part, kept, may_ask)


def _prefix_changes(last: _Request, now: _Request) -> Iterator[_Change]:
    if _keys(last.tools) != _keys(now.tools):
        yield _Change(f"the tools changed ({_difference(last.tools, now.tools)})", 0)
    elif last.system != now.system:
        same = common_start(now.system, last.system)
        what = "the system prompt" if same == 0 else "the rest of the system prompt"
        yield _Change(f"{what} changed", 1 if same == 0 else 2, same)


def _message_changes(
    conversation: Conversation, last: _Request, now: _Request
) -> Iterator[_Change]:
    whole = len(now.system)
    same = common_start(now.messages, last.messages)
    if _is_cut(last, now, same) and not is_compacted(conversation):
        yield _Change("older messages were left out or came back", 2, whole)
    before, after = last.unsent[:same], now.unsent[:same]
    if before != after:
        cause = "a request has no room for some earlier images any more"
        yield _Change(cause, 2, whole, from_message=common_start(before, after))


def _is_cut(last: _Request, now: _Request, same: int | None = None) -> bool:
    """Return whether earlier messages changed, all but the *same* first; a rewind sends fewer.

    After a cut all is read anew: caches end where requests did.
    """
    same = common_start(now.messages, last.messages) if same is None else same
    return same < min(len(last.messages), len(now.messages) - 1)


def _sent(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that stand before the conversation."""
    return [tool for tool in tools if not tool.is_deferred]


def _keys(tools: Iterable[Tool]) -> list[object]:
    """Return keys that identify *tools* for the model, without building every schema."""
    return [(tool.name, tool.description, tool.parameters) for tool in tools]


def _difference(before: Iterable[Tool], now: Iterable[Tool]) -> str:
    old, new = {tool.name for tool in before}, {tool.name for tool in now}
    changes = [f"+{name}" for name in sorted(new - old)]
    changes += [f"-{name}" for name in sorted(old - new)]
    if len(changes) > _NAMED_MAX:
        changes[_NAMED_MAX - 1 :] = [f"{len(changes) - _NAMED_MAX + 1} more"]
    return ", ".join(changes) or "their order or definitions"
