"""Ask another model where the session's is overloaded or declines to answer.

When a model declines, the server asks those of `ModelRequest.fallbacks`. On overload we do: once
the retries have failed, the next model gets the request, and the following ones for a while, so
that neither the waits nor the price of another cache are paid each turn.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from agent_cli.contracts.dialogs import Reread
from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.wording import dollars
from agent_cli.core.turn import Turn
from agent_cli.policies.estimate import estimate_fixed, estimate_tokens
from agent_cli.system.records import dataclass

HOLD_S: Final = 300.0
"""As long as a server keeps what it cached."""
_TROUBLES: Final = ("overloaded", "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackModels:
    """The models to fall back on.

    Attributes:
        models: In the order in which they are asked.
        by_server: The server can fall back on them by itself when a model declines.
        level_for: Returns the thinking level to ask a model for, given the configured one.
    """

    models: Sequence[Model] = ()
    by_server: bool = False
    level_for: Callable[[Model, ThinkingLevel | None], ThinkingLevel | None]


@dataclass(frozen=True, slots=True)
class _Held:
    """The model that answers in place of another, until a time."""

    model: Model
    until_s: float


class ModelFallback:
    """A `stream_fn` around another, and a `prepare` contributor, for one agent."""

    def __init__(
        self,
        stream: StreamFn,
        fallbacks: FallbackModels,
        *,
        price: Price,
        emit: EventSink,
        expect_loss: Callable[[], None] = lambda: None,
        on_answer: Callable[[str, ThinkingLevel | None], None] = lambda _id, _level: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Ask the usual model first.

        Args:
            stream: Asks a model.
            fallbacks: The models; without any, nothing changes.
            price: Prices tokens.
            emit: Receives a notice of each fallback.
            expect_loss: Called before a request whose price was told.
            on_answer: Called with the model and level that answered in place of the requested.
            clock: Returns the time in seconds.
        """
        self._ask = stream
        self._fallbacks = fallbacks
        self._price = price
        self._emit = emit
        self._expect_loss = expect_loss
        self._on_answer = on_answer
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def __call__(self, turn: Turn) -> None:
        """Let the model that fell in for the usual one answer this turn too, for a while."""
        if model := self._held_for(turn.model):
            level = self._fallbacks.level_for(model, turn.config.thinking_level)
            turn.config = replace(turn.config, model=model, thinking_level=level)

    def _held_for(self, model: Model) -> Model | None:
        """Return the model that answers in place of *model* for now, if one does."""
        answers: Model | None = None
        while (held := self._held.get((answers or model).id)) and held.until_s > self._clock():
            answers = held.model
        return answers

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; see `provider.Provider`.

        Raises:
            ModelError: No model answered; the error is that of the last one.
        """
        return self._streamed(request, self._ask, is_turn=True)

    def beside(self, ask: StreamFn) -> StreamFn:
        """Return *ask* with the same fallbacks, for what is asked beside the turns."""
        return partial(self._streamed, ask=ask, is_turn=False)

    async def _streamed(
        self, request: ModelRequest, ask: StreamFn, *, is_turn: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        asked = first = self._for(self._held_for(request.model), request)
        others = list(self._others(asked.model))
        while True:
            has_begun = False
            if self._fallbacks.by_server:
                asked = replace(asked, fallbacks=tuple(others))
            try:
                async with aclosing(closable(ask(asked))) as events:
                    async for event in events:
                        has_begun = not isinstance(event, Retrying)
                        if isinstance(event, ReplyEnd):
                            self._hold(first.model, asked.model)
                            if is_turn and asked.model != request.model:
                                self._on_answer(asked.model.id, asked.thinking_level)
                            self._tell_declined(event.reply)
                        yield event
                return
            except ModelError as error:
                if error.trouble not in _TROUBLES or not others:
                    raise
                failure = error
            if has_begun:
                reason = str(failure).partition(";")[0]
                yield Retrying(1, 1, 0.0, reason, True, failure.may_have_cost)
            failed, asked = asked, self._for(others.pop(0), request)
            self._tell_price(failed, asked)
            if is_turn:
                self._expect_loss()

    def _others(self, model: Model) -> Sequence[Model]:
        """Return the models to ask after *model*: the models behind it in the list, or all."""
        models = self._fallbacks.models
        ids = [each.id for each in models]
        return models[ids.index(model.id) + 1 :] if model.id in ids else models

    def _for(self, model: Model | None, request: ModelRequest) -> ModelRequest:
        """Return *request* for *model*; unchanged without one.

        A summary is asked for in words: what *model* signs, the usual one would refuse.
        """
        if model is None:
            return request
        level = self._fallbacks.level_for(model, request.thinking_level)
        return replace(request, model=model, thinking_level=level, summarizes=False)

    def _hold(self, first: Model, answered: Model) -> None:
        if answered != first:
            self._held[first.id] = _Held(answered, self._clock() + HOLD_S)

    def _tell_price(self, failed: ModelRequest, asked: ModelRequest) -> None:
        fixed = estimate_fixed(asked.system, asked.tools)
        tokens = fixed + estimate_tokens(asked.messages)
        cost = self._price(asked.model.id, Usage(cache_write_5m_tokens=tokens))
        minutes = f"{HOLD_S / 60:.0f} minutes"
        cause = f"{failed.model.id} is overloaded, {asked.model.id} answers for {minutes}"
        self._emit(Notice("warning", str(Reread(cause, tokens, cost))))

    def _tell_declined(self, reply: Reply) -> None:
        if reply.declined:
            cost = reply.billed.cost_microdollars
            price = "" if cost is None else f"; the reply cost {dollars(cost)}"
            category = _category(reply)
            text = f"{reply.declined} declined to answer{category}, {reply.model} answered{price}"
            self._emit(Notice("warning", text))


def _category(reply: Reply) -> str:
    for block in reply.content:
        match block:
            case {"type": "fallback", "trigger": {"category": str(category)}}:
                return f" ({category})"
            case _:
                pass
    return ""
