"""One cost limit for all model calls of a prompt: no call begins that could exceed it.

Before each model call its worst-case cost is reserved; the reported usage replaces the reservation,
and a refusal by the server frees it. Of a call that broke off, the prompt that the API counted at
the start of the reply is spent, and what the model can have generated until then stays reserved.

If the bytes of the prompt leave too little for a reply, the API counts its tokens; if the rest is
still too small, the reply is shortened; below a useful length the call is refused.

Without a limit nothing is reserved, but what a call that broke off may have cost is recorded too.
Reservations are recorded in the conversation, so that a resumed prompt continues with them.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from agent_cli.contracts.errors import LimitReached, ModelError
from agent_cli.contracts.events import Event, UsageChanged, UsageHeld
from agent_cli.contracts.hosted_blocks import has_hosted, own_tools
from agent_cli.contracts.provider import (
    CountFn,
    Model,
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.side_events import ModelCallDelayed
from agent_cli.contracts.timeline import NO_USAGE, Prompt, Usage
from agent_cli.contracts.wording import in_microdollars, unpriced
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.policies.accounts import Account
from agent_cli.policies.reservations import (
    Payer,
    PromptBound,
    Reservation,
    is_credible,
    most_tokens,
    with_hosted,
    with_reply,
)

# A shorter reply is not worth its prompt: the smallest thinking budget, and a tool call.
LEAST_REPLY_TOKENS: Final = 1_280
# With room for a reply this long, a call does not wait for running ones to settle.
EASY_REPLY_TOKENS: Final = 8_192
_MILLION: Final = 1_000_000
# Of lower prices, a rounded micro-dollar would be too large a part.
_EXACT: Final = 1_000


class Ledger:
    """An agent's ledger; the ledgers of its subagents are below it.

    It is the first `prepare` contributor, and every model call made for the agent goes through its
    `stream`. Subscribe `listen` to the agent's events.

    Attributes:
        account: The amounts and the limit.
    """

    def __init__(
        self,
        stream: StreamFn,
        conversation: Callable[[], Conversation],
        *,
        price: Price,
        account: Account,
        parent: "Ledger | None" = None,
        of_agents: Callable[[Prompt], int] = lambda _prompt: 0,
        count: CountFn | None = None,
    ) -> None:
        """Reserve nothing yet.

        Args:
            stream: Asks the model.
            conversation: Returns the agent's conversation, which records the reservations.
            price: Prices tokens.
            account: The account with the limit.
            parent: The ledger of the agent that started this one.
            of_agents: Returns the cost of the agents that a resumed prompt had started.
            count: Asks for the tokens of a prompt, where its bytes leave too little for a reply.
        """
        self.account = account
        self._parent = parent
        self._of_agents = of_agents
        self._ask = stream
        self._count = count
        self._conversation = conversation
        self._price = price
        self._bound = PromptBound()
        self._estimate = 0
        self._prompt_id = ""
        self._affordable = 0
        self._unrecorded: list[Reservation] = []
        self._is_shown_waiting = False

    def child(self, conversation: Callable[[], Conversation], *, limit_usd: float = 0) -> "Ledger":
        """Return the ledger of a subagent; *limit_usd* is its own limit."""
        account = Account(in_microdollars(limit_usd), self.account)
        return Ledger(
            self._ask,
            conversation,
            price=self._price,
            account=account,
            parent=self,
            count=self._count,
        )

    def __call__(self, turn: Turn) -> None:
        """Check the limit before other contributors prepare the call.

        Raises:
            LimitReached: The budget is used up.
        """
        if not turn.conversation.open_calls():
            self.check()

    def check(self) -> None:
        """Check that something is left.

        Raises:
            LimitReached: The budget is used up, or the amount spent is unknown.
        """
        self._open_prompt()
        self.account.check()

    def listen(self, event: Event) -> None:
        """Update from *event*: usage that is in the record is no longer reserved there."""
        if isinstance(event, UsageHeld):
            self._is_shown_waiting = False  # it ends what tells of a wait, also of another call's
        elif isinstance(event, UsageChanged):
            for reserved in self._unrecorded:
                if reserved.known == event.reply:
                    self._unrecorded.remove(reserved)
                    reserved.payer.record(-reserved.cost)
                    return

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; see `provider.Provider`.

        `max_tokens` is lowered to what the rest of the budget can pay for.

        Raises:
            LimitReached: The rest does not pay for a useful reply, or no price is known.
            ModelError: There was no complete reply.
        """
        self.check()
        reserved = await self._reserve(request)
        try:
            while True:
                restart_after_s = None
                async with aclosing(closable(self._ask(reserved.request))) as events:
                    async for event in events:
                        yield self._booked(reserved, event)
                        if not (isinstance(event, Retrying) and event.may_have_cost):
                            continue
                        earlier = reserved
                        reserved = await self._reserve_again(earlier, sent_in_s=event.wait_s)
                        if reserved.request != earlier.request:
                            restart_after_s = event.wait_s
                            break
                if restart_after_s is None:
                    return
                await asyncio.sleep(restart_after_s)
        except ModelError as error:
            if not error.may_have_cost:
                reserved.free()
            raise
        finally:
            self._lose(reserved)

    def _booked(self, reserved: Reservation, event: StreamEvent) -> StreamEvent:
        """Book what *event* tells of the cost, and return it for the caller."""
        match event:
            case ReplyStart():
                reserved.begin(event.usage)
            case ReplyEnd():
                reserved.settle(self._cost(reserved.request, event.reply.billed))
                self._note(reserved, event.reply)
            case Retrying(may_have_cost=True):
                self._lose(reserved)
            case Retrying():
                reserved.restart(event.wait_s)
            case _:
                pass
        return event

    def _lose(self, reserved: Reservation) -> None:
        """Count a call that broke off; the caller records the usage that was known."""
        if reserved.lose() and reserved.known != NO_USAGE:
            self._unrecorded.append(reserved)

    async def _reserve(self, request: ModelRequest) -> Reservation:
        """Reserve the worst case of *request*, shortened to the rest once no other call runs."""
        account, prompts = self.account, self._conversation().prompts
        prompt_id = prompts[-1].id if prompts else ""
        payer = Payer(account, self._conversation(), prompt_id, self._worst)
        if not account.is_limited:
            return Reservation(payer, request, 0)
        easy = min(request.max_tokens, request.model.max_output_tokens, EASY_REPLY_TOKENS)
        request, cost = await self._affordable_call(request, easy=easy)
        return Reservation(payer, replace(request, task_budget=self._budget(request)), cost)

    async def _affordable_call(
        self, request: ModelRequest, *, easy: int
    ) -> tuple[ModelRequest, int]:
        """Return *request*, its reply shortened to the rest, and its worst-case cost.

        For a reply of fewer tokens than *easy* the API counts the prompt, and then it waits until
        no other call runs. If the calls that the server may make itself are what is too dear, they
        are left out.
        """
        account, prompt = self.account, self._bound.usage(request)
        is_counted = self._count is None or account.root.miscounted
        is_delayed = False
        reply_max = min(request.max_tokens, request.model.max_output_tokens)
        least = min(reply_max, LEAST_REPLY_TOKENS)

        def cost(reply_tokens: int) -> int:
            most = with_hosted(prompt, request)
            return self._priced(request, with_reply(most, reply_tokens))

        while (tokens := most_tokens(cost, account.left(), reply_max)) < easy:
            if not is_counted:
                is_counted, prompt = True, await self._counted(request, prompt)
                continue
            if most_tokens(cost, account.left(at_best=True), reply_max) <= tokens:
                if tokens >= least:
                    break
                bare = replace(request, tools=own_tools(request.tools))
                if bare == request:
                    raise account.too_little(cost(least))
                request, prompt = bare, self._bound.usage(bare)
                continue
            if not (is_delayed and self._is_shown_waiting):
                is_delayed = self._is_shown_waiting = True
                self._conversation().publish(ModelCallDelayed(len(account.holders)))
            # No deadlock: a holder of a reservation never waits here, and every model call ends.
            await account.changed()
        shortened = request if tokens == reply_max else replace(request, max_tokens=tokens)
        return shortened, cost(tokens)

    async def _counted(self, request: ModelRequest, prompt: Usage) -> Usage:
        """Return the tighter bound of *request*: *prompt*, or the API's count."""
        tokens = await self._count(request) if self._count else None
        if not tokens or not is_credible(tokens, prompt):
            return prompt
        counted = PromptBound()
        counted.note_estimate(request, tokens)
        usage = counted.usage(request)
        if usage.prompt_tokens >= prompt.prompt_tokens:
            return prompt
        self._bound, self._estimate = counted, usage.prompt_tokens
        return usage

    def _budget(self, request: ModelRequest) -> int | None:
        """Return the tokens the cost limit pays for at the price of a reply; None without tools.

        An agent's budget stays the same: a change would cost it the cached conversation.
        """
        if not request.tools:
            return None
        prices = (self._price(e.id, Usage(output_tokens=_MILLION)) for e in _models(request))
        million = sum(filter(None, prices))
        self._affordable = self._affordable or self.account.affordable()
        return self._affordable * _MILLION // million if million else None

    async def _reserve_again(self, earlier: Reservation, *, sent_in_s: float) -> Reservation:
        """Reserve for another attempt of the same call, shortened to the rest if need be."""
        if not self.account.is_limited:
            return Reservation(earlier.payer, earlier.request, 0, sent_in_s=sent_in_s)
        if earlier.known.prompt_tokens:
            self._bound.note(earlier.request, earlier.known.prompt_tokens)
        easy = min(earlier.request.max_tokens, EASY_REPLY_TOKENS)
        request, cost = await self._affordable_call(earlier.request, easy=easy)
        return Reservation(earlier.payer, request, cost, sent_in_s=sent_in_s)

    def _worst(self, request: ModelRequest, known: Usage, generated: int) -> tuple[int, int] | None:
        """Return the certain and the highest cost of a call that broke off; None is unknown.

        *known* is the usage that the API has reported, or nothing; *generated* bounds the reply.
        """
        reported = replace(known, cost_microdollars=0)
        prompt = reported if known.prompt_tokens else self._bound.usage(request)
        prompt = with_hosted(prompt, request)
        tokens = max(generated, known.output_tokens)
        certain = self._price(request.model.id, reported)
        costs = [self._most(each.id, with_reply(prompt, tokens)) for each in _models(request)]
        priced = [cost for cost in costs if cost is not None]
        if certain is None or len(priced) < len(costs):
            return None
        return certain, max(sum(priced), certain)

    def _priced(self, request: ModelRequest, usage: Usage) -> int:
        """Return the cost of *usage* by each model that the server may ask for one reply."""
        total = 0
        for model in _models(request):
            priced = self._most(model.id, usage)
            if priced is None:
                raise LimitReached(unpriced(model.id), limit="max_cost")
            total += priced
        return total

    def _most(self, model_id: str, usage: Usage) -> int | None:
        """Return the highest cost of *usage*, which may be above its price."""
        price, root = self._price(model_id, usage), self.account.root
        surcharge = root.surcharges.get(model_id, root.surcharge)
        return None if price is None else math.ceil(price * surcharge)

    def _cost(self, request: ModelRequest, usage: Usage) -> int | None:
        """Return the cost of *usage*; a server may report a model name without a price."""
        cost = usage.cost_microdollars
        return self._price(request.model.id, usage) if cost is None else cost

    def _note(self, reserved: Reservation, reply: Reply) -> None:
        """Remember the API's count, and the reservation to remove from the record."""
        reserved.known = reply.billed
        if self.account.is_limited:
            if self._estimate and reply.usage.prompt_tokens > self._estimate:
                self.account.root.miscounted = True
            self._estimate = 0
            # Another model's count is no bound for the one that declined; and where the server ran
            # calls, its figures are the sum of all rounds.
            is_sum = reply.declined or reply.beside or has_hosted(reply.content)
            tokens = 0 if is_sum else reply.usage.prompt_tokens
            self._bound.note(reserved.request, tokens)
            self._unrecorded.append(reserved)
            if not is_sum:
                self._note_surcharge(reserved.request.model.id, reply)

    def _note_surcharge(self, model_id: str, reply: Reply) -> None:
        """Remember for the next reservations how much above its price *reply* cost.

        That depends on where the server is, which a workspace may be set to. The price is that of
        the model that *reply* names: one in fast mode may answer at the usual speed.
        """
        usage, cost = reply.usage, reply.usage.cost_microdollars
        price = self._price(reply.model, usage) or self._price(model_id, usage)
        if price and cost and price > _EXACT:
            known = self.account.root.surcharges
            known[model_id] = max(known.get(model_id, 1.0), cost / price)

    def _open_prompt(self) -> None:
        """Start from zero for a new prompt; for a resumed one, count its cost so far."""
        if self._parent:
            self._parent._open_prompt()
            return
        account, prompts = self.account, self._conversation().prompts
        if not prompts or prompts[-1].id == self._prompt_id:
            return
        usage = prompts[-1].usage
        if not account.limit:
            self._prompt_id, account.lost = prompts[-1].id, usage.held_microdollars
            return
        if usage.cost_microdollars is None:
            raise LimitReached(
                "no price is known for what this prompt has used, so max_cost_usd cannot be held:"
                " send a new message, or set no limit",
                limit="max_cost",
            )
        self._prompt_id = prompts[-1].id
        account.spent = usage.cost_microdollars + self._of_agents(prompts[-1])
        account.lost = usage.held_microdollars


def _models(request: ModelRequest) -> tuple[Model, ...]:
    """Return the models that the server may ask, one after the other, for one reply."""
    return (request.model, *request.fallbacks)
