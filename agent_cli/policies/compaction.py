"""Replace older messages by a summary before the conversation outgrows the model's window.

The first user message and the last messages stay unchanged; replaced messages stay in the timeline.
If no summary can be made, the oldest rounds are left out without one; in an outage they stay.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, Protocol, TypeAlias

from agent_cli.contracts import errors
from agent_cli.contracts.errors import AgentCliError, ContextOverflow, ModelError
from agent_cli.contracts.events import Compacted, EventSink, Notice
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.options import PROTECTED_TAIL_MESSAGES, USER_WORDS_CHARS
from agent_cli.contracts.provider import Model, ModelRequest
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import counted
from agent_cli.core.conversation import Conversation
from agent_cli.core.lasting_tools import tell_again
from agent_cli.core.model_call import request_of
from agent_cli.core.turn import Turn
from agent_cli.policies.accounts import Spent, spending
from agent_cli.policies.estimate import (
    CHARS_PER_TOKEN,
    estimate_fixed,
    estimate_tokens,
    measured_tokens,
)
from agent_cli.policies.history_cuts import (
    WORDS_SHARE,
    RequestHistory,
    changing_entries,
    cut_note,
    history_of,
    kept_chars,
    user_words,
    without_words,
)
from agent_cli.system.records import dataclass

MAX_FAILURES = 3
WINDOW_SHARE = 0.8
LEAST_MESSAGES = 2
# A middle smaller than this share of the threshold is not worth a call: something else fills the
# window, and each turn would compact again.
LEAST_SHARE = 0.1
# Room for the instructions of a summary, some thinking, and the summary itself.
SUMMARY_TOKENS = 16_000

Trigger: TypeAlias = Literal["auto", "manual"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary ("" if there is none, for the reason `fault`) and the usage of making it.

    `signed` is the block that the server signed, with its model.
    """

    text: str
    usage: Usage
    fault: str = "the model wrote no summary"
    signed: Json = None


class CompactionStrategy(Protocol):
    """A way to summarise messages."""

    async def summarize(
        self,
        messages: Sequence[Message],
        *,
        model: Model,
        focus: str,
        emit: EventSink,
        request: ModelRequest | None,
        entries: str = "",
        spent: Spent,
    ) -> Summary:
        """Return a summary of *messages*.

        Args:
            messages: The messages that the summary replaces.
            model: The model of the run.
            focus: The subject the summary should keep above all, or "".
            emit: Receives events about retries.
            request: The next request, which the cache holds but for its end, and which has room
                for a summary; None if there is none.
            entries: The entries that change something, with their numbers, a line each.
            spent: Takes the usage of each reply, also if there will be no summary.

        Raises:
            ModelError: It failed; this is counted, and the run continues.
        """
        ...


class AroundCompaction(Protocol):
    """Called before and after each compaction; "manual" if the user asked for it."""

    async def before(self, focus: str, *, trigger: Trigger) -> str:
        """Return the focus of the summary, which is *focus* or more.

        Raises:
            ModelError: There shall be no compaction.
        """
        ...

    def after(self, focus: str, *, trigger: Trigger) -> None:
        """Note that older messages were replaced by a summary."""
        ...


@dataclass(frozen=True, slots=True)
class _Plan:
    """The cut to make; `tokens` is the current size of the request."""

    history: RequestHistory
    cut: int
    tokens: int

    @property
    def middle(self) -> list[Message]:
        """The messages to summarise: an earlier summary and the rounds before the cut."""
        return [*self.history.summary, *self.history.before(self.cut)] if self.cut else []

    @property
    def material(self) -> list[Message]:
        """The middle as the summarizer reads it: the user's words are collected anew."""
        return [*without_words(self.history.summary), *self.history.before(self.cut)]


class Compaction:
    """A `prepare` contributor, behind all contributors that add tools or context.

    Args:
        strategy: Makes the summary; None never compacts, and only trims on overflow.
        threshold_tokens: Compact above it; 0 is 80 % of the model's window.
        protected_tail_messages: Minimum number of messages kept at the end.
        words_chars: Characters of what the user said that follow a summary word for word.
        around: Called before and after; None for nothing.
        can_recall: The agent has the tool `recall`, to which a summary may refer.
    """

    def __init__(
        self,
        strategy: CompactionStrategy | None,
        *,
        threshold_tokens: int = 0,
        protected_tail_messages: int = PROTECTED_TAIL_MESSAGES,
        words_chars: int = USER_WORDS_CHARS,
        around: AroundCompaction | None = None,
        can_recall: bool = True,
    ) -> None:
        self._strategy = strategy
        self._threshold_tokens = threshold_tokens
        self._tail_messages = protected_tail_messages
        self._words_chars = words_chars
        self._around = around
        self.can_recall = can_recall
        self._conversation: Conversation | None = None
        self._failures, self._can_wait, self._put_off_tokens = 0, False, 0
        self._is_too_low = False
        self._cached: tuple[list[str], list[Tool]] | None = None

    def prepared(self, conversation: Conversation) -> tuple[list[str], list[Tool]] | None:
        """Return the system prompt and the tools of the last request; None before the first."""
        return self._cached if conversation is self._conversation else None

    async def __call__(self, turn: Turn) -> None:
        """Make room if the next request would be too large, or the last one was.

        Raises:
            ContextOverflow: The parts that must stay are too large by themselves.
        """
        if turn.conversation.open_calls():
            return  # this turn only runs these calls; the model is not asked
        if turn.conversation is not self._conversation:
            self._conversation, self._failures = turn.conversation, 0
            self._cached, self._put_off_tokens = None, 0
        if plan := self._plan(turn):
            before = turn.conversation.context()
            if not await self._summarized(turn, plan):
                self._trim(turn, plan)
            tell_again(turn, before)
        self._cached = (list(turn.system), list(turn.tools))

    async def compact_now(self, turn: Turn, *, focus: str = "") -> bool:
        """Compact on request, however small the conversation is.

        Args:
            turn: The next turn, not yet prepared.
            focus: The subject the summary should keep above all.

        Returns:
            False when there is too little to summarize.

        Raises:
            ModelError: There is no summary; the history is unchanged.
            AgentCliError: Compaction is switched off.
        """
        if self._strategy is None:
            raise AgentCliError('compaction is off: set compaction.strategy to "summarize"')
        conversation = turn.conversation
        if cached := self.prepared(conversation):
            turn.system, turn.tools = list(cached[0]), list(cached[1])
        history = history_of(conversation)
        tokens = measured_tokens(conversation) or _estimate(turn)
        plan = _Plan(history, history.tail(self._tail_messages), tokens)
        if len(plan.middle) < LEAST_MESSAGES:
            return False
        await self._compact(turn, plan, trigger="manual", focus=focus)
        return True

    def _plan(self, turn: Turn) -> _Plan | None:
        """Return the cut to make; None when none is needed or possible."""
        threshold = self._threshold(turn)
        tokens = measured_tokens(turn.conversation) or _estimate(turn)
        least = max(threshold + 1, self._put_off_tokens)
        if not turn.overflow and (self._strategy is None or tokens < least):
            return None
        history = history_of(turn.conversation)
        if (fixed := _fixed(turn) + estimate_tokens(history.first)) > threshold:
            _refuse_overflow(turn)
            self._say_too_low(turn, fixed)
            return None
        plan = _Plan(history, history.tail(self._tail_messages), tokens)
        if turn.overflow and len(plan.middle) < LEAST_MESSAGES:
            # Too large with the protected messages alone: protect fewer rather than be stuck.
            plan = _Plan(history, history.tail(1), tokens)
        enough = turn.overflow or estimate_tokens(plan.middle) >= LEAST_SHARE * threshold
        return plan if enough and len(plan.middle) >= LEAST_MESSAGES else None

    def _say_too_low(self, turn: Turn, fixed: int) -> None:
        """Say once that no summary gets below the threshold that is set."""
        if self._threshold_tokens and not self._is_too_low:
            self._is_too_low = True
            text = (
                f"nothing is summarized: compaction.threshold_tokens is {self._threshold_tokens:,},"
                f" and the system prompt, the tools and the first message take {fixed:,}: raise it"
            )
            turn.emit(Notice("warning", text))

    def _threshold(self, turn: Turn) -> int:
        if self._threshold_tokens and not turn.overflow:
            return self._threshold_tokens
        return int(WINDOW_SHARE * turn.model.context_window)

    async def _summarized(self, turn: Turn, plan: _Plan) -> bool:
        """Compact unless that has failed too often; return whether nothing has to be left out."""
        try:
            if self._strategy is not None and self._failures < MAX_FAILURES:
                await self._compact(turn, plan, trigger="auto")
                return True
        except ModelError as error:
            # In an outage nothing is left out: the threshold is below what the window holds.
            self._can_wait = error.trouble is not None
            self._failures += not error.meets_any_request
            more = ""
            if self._failures == MAX_FAILURES:
                more = f"; it failed {MAX_FAILURES} times and is not tried again unless asked for"
            elif error.is_passing and not turn.overflow:  # each turn would wait in vain again
                self._put_off_tokens = int(plan.tokens * (1 + LEAST_SHARE))
                more = "; unless asked for, it is tried again once the conversation has grown"
            turn.emit(Notice("warning", f"compaction failed: {errors.without_advice(error)}{more}"))
        return self._can_wait and not turn.overflow

    async def _compact(self, turn: Turn, plan: _Plan, *, trigger: Trigger, focus: str = "") -> None:
        """Replace the plan's middle with a summary.

        Raises:
            ModelError: No summary could be made.
        """
        assert self._strategy
        conversation, emit = turn.conversation, turn.emit
        removed, whole_focus = plan.middle, focus
        until = plan.history.cut_id(plan.cut)
        # Nothing forces words out of a summary that the user asks for; one too large is refused.
        words = user_words(
            conversation,
            until=until,
            chars_max=(
                self._words_chars_max(turn)
                if trigger == "manual"
                else self._room(turn, plan, plan.cut)
            ),
            can_recall=self.can_recall,
        )
        removed_tokens = estimate_tokens(removed)
        if removed_tokens <= _tokens(words):  # before it costs something
            raise ModelError("a summary would save nothing: it keeps what you said word for word")
        emit(Notice("info", f"summarizing {len(removed)} older messages"))
        if self._around:
            whole_focus = await self._around.before(focus, trigger=trigger)
        summary = await self._strategy.summarize(
            plan.material,
            model=turn.model,
            focus=whole_focus,
            emit=emit,
            request=await _request(turn, plan),
            entries=changing_entries(conversation, until=until) if self.can_recall else "",
            spent=spending(conversation, emit),
        )
        if not summary.text:
            raise ModelError(summary.fault)
        saved = removed_tokens - _tokens(summary.text + words)
        if saved <= 0:
            raise ModelError("the summary is not smaller than the messages it would replace")
        tokens = (plan.tokens, max(0, plan.tokens - saved))
        conversation.compact(summary.text, until, tokens=tokens, words=words, signed=summary.signed)
        self._failures = self._put_off_tokens = 0
        emit(Compacted(len(removed), *tokens, summary.usage.prompt_tokens))
        if self._around:
            self._around.after(focus, trigger=trigger)

    def _trim(self, turn: Turn, plan: _Plan) -> None:
        """Leave out the oldest rounds, at most up to the plan's cut, until half the window is free.

        The user's words stay, unless that takes more room than it makes.
        """
        conversation, history = turn.conversation, plan.history
        target = min(plan.tokens, self._threshold(turn)) // 2
        saved = [0, *accumulate(estimate_tokens(each.messages) for each in history.rounds)]
        words_before = estimate_tokens(history.summary) - estimate_tokens(
            without_words(history.summary)
        )

        def note(cut: int) -> str:
            return cut_note(
                conversation,
                until=history.cut_id(cut),
                chars_max=self._room(turn, plan, cut),
                can_recall=self.can_recall,
            )

        def is_enough(cut: int) -> bool:
            room = target - plan.tokens + saved[cut] + words_before
            return room > 0 and _tokens(note(cut)) <= room

        cuts = [i for i in history.cuts() if i <= plan.cut]
        found = bisect_left(cuts, True, key=is_enough)
        cut = cuts[found] if found < len(cuts) else plan.cut
        text = note(cut)
        if _tokens(text) >= saved[cut] + words_before:
            text = ""
        removed = len(history.before(cut))
        conversation.trim(history.cut_id(cut), removed_messages=removed, note=text)
        dropped = f"dropped the oldest {counted(removed, 'message')} to make room"
        turn.emit(Notice("warning", dropped))

    def _room(self, turn: Turn, plan: _Plan, cut: int) -> int:
        """Return the limit of the user's words in characters, for a cut before the round *cut*.

        What an earlier cut kept may stay, beside half of the text that is replaced now: otherwise
        each cut that replaces little else would halve it. Of a request that the server refused it
        is at most half, as that server's window may be smaller than the model's.
        """
        history = plan.history
        replaced = [*without_words(history.summary), *history.before(cut)]
        kept = kept_chars(turn.conversation, history.summary)
        room = kept + estimate_tokens(replaced) // 2 * CHARS_PER_TOKEN
        chars = min(self._words_chars_max(turn), room)
        return min(chars, plan.tokens // 2 * CHARS_PER_TOKEN) if turn.overflow else chars

    def _words_chars_max(self, turn: Turn) -> int:
        window = int(WORDS_SHARE * turn.model.context_window)
        return min(self._words_chars, window * CHARS_PER_TOKEN)


async def _request(turn: Turn, plan: _Plan) -> ModelRequest | None:
    """Return the request of *turn*; None if it leaves no room for a summary, or cannot be sent."""
    room = turn.model.context_window - plan.tokens
    if turn.overflow or turn.conversation.open_calls() or room < SUMMARY_TOKENS:
        return None
    return await request_of(turn)


def _tokens(text: str) -> int:
    return estimate_tokens([UserMessage.of(text)])


def _estimate(turn: Turn) -> int:
    return _fixed(turn) + estimate_tokens(turn.conversation.context())


def _fixed(turn: Turn) -> int:
    return estimate_fixed(turn.system, [tool.spec for tool in turn.tools])


def _refuse_overflow(turn: Turn) -> None:
    """Raise `ContextOverflow` if the server refused the last request, as no cut would help."""
    if turn.overflow:
        raise ContextOverflow(
            "the system prompt, the tools and the first message alone exceed the window of"
            f" {turn.model.id} ({turn.model.context_window:,} tokens): disable MCP servers,"
            f" {errors.START_OVER}"
        )
