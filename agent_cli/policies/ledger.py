"""One cost limit for all model calls of a prompt: no call begins that could exceed it.

Before each model call its worst-case cost is reserved; the reported usage replaces the reservation,
and a refusal by the server frees it. The reservation of a call that broke off without usage stays,
because it may have cost that much. Reservations are recorded in the conversation, so that a resumed
prompt continues with them.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from agent_cli.contracts.errors import LimitReached, ModelError
from agent_cli.contracts.events import Event, UsageChanged
from agent_cli.contracts.money import in_microdollars
from agent_cli.contracts.provider import (
    ModelRequest,
    Price,
    Reply,
    ReplyEnd,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import Prompt, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.policies.accounts import Account
from agent_cli.policies.worst_case import PromptBound, most_tokens, with_reply

# A reply with fewer tokens is not worth its prompt; thinking alone may need as many.
LEAST_REPLY_TOKENS: Final = 2_048
# With room for a reply this long, a call does not wait for running ones to settle.
EASY_REPLY_TOKENS: Final = 8_192
_MILLION: Final = 1_000_000


class Ledger:
    """An agent's ledger; those of its subagents are below it.

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
    ) -> None:
        """Reserve nothing yet.

        Args:
            stream: Asks the model.
            conversation: Returns the agent's conversation, which records the reservations.
            price: Prices tokens.
            account: The account with the limit.
            parent: The ledger of the agent that started this one.
            of_agents: Returns the cost of the agents that a resumed prompt had started.
        """
        self.account = account
        self._parent = parent
        self._of_agents = of_agents
        self._ask = stream
        self._conversation = conversation
        self._price = price
        self._bound = PromptBound()
        self._prompt_id = ""
        self._affordable = 0
        self._settled: list[tuple[Conversation, str, int]] = []

    def child(self, conversation: Callable[[], Conversation], *, limit_usd: float = 0) -> "Ledger":
        """Return the ledger of a subagent; *limit_usd* is its own limit."""
        account = Account(in_microdollars(limit_usd), self.account)
        return Ledger(self._ask, conversation, price=self._price, account=account, parent=self)

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
        if isinstance(event, UsageChanged):
            settled, self._settled = self._settled, []
            for conversation, prompt_id, cost in settled:
                conversation.hold(-cost, prompt_id)

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
            async with aclosing(closable(self._ask(reserved.request))) as events:
                async for event in events:
                    if isinstance(event, ReplyEnd):
                        reserved.settle(self._cost(request, event.reply.usage))
                        self._note(reserved, event.reply)
                    yield event
                    if isinstance(event, Retrying) and event.may_have_cost:
                        reserved.lose()
                        reserved = await self._reserve_again(reserved)
        except ModelError as error:
            if not error.may_have_cost:
                reserved.free()
            raise
        finally:
            reserved.lose()

    async def _reserve(self, request: ModelRequest) -> "_Reservation":
        """Reserve the worst case of *request*, shortened to the rest once no other call runs."""
        account = self.account
        if not account.is_limited:
            return _Reservation(account, request, 0)
        prompt = self._bound.usage(request)
        wanted = min(request.max_tokens, request.model.max_output_tokens)

        def cost(reply_tokens: int) -> int:
            return self._priced(request.model.id, with_reply(prompt, reply_tokens))

        easy, least = min(wanted, EASY_REPLY_TOKENS), min(wanted, LEAST_REPLY_TOKENS)
        while (tokens := most_tokens(cost, account.left(), wanted)) < easy:
            if most_tokens(cost, account.left(at_best=True), wanted) <= tokens:
                if tokens < least:
                    raise account.too_little(cost(least))
                break
            # No deadlock: a holder of a reservation never waits here, and every model call ends.
            await account.changed()
        shortened = request if tokens == wanted else replace(request, max_tokens=tokens)
        shortened = replace(shortened, task_budget=self._budget(request))
        return _Reservation(account, shortened, cost(tokens), self._conversation())

    def _budget(self, request: ModelRequest) -> int | None:
        """Return the tokens the cost limit pays for at the price of a reply; None without tools.

        An agent's budget stays the same: a change would cost it the cached conversation.
        """
        if not request.tools:
            return None
        million = self._priced(request.model.id, Usage(output_tokens=_MILLION))
        self._affordable = self._affordable or self.account.affordable()
        return self._affordable * _MILLION // million if million else None

    async def _reserve_again(self, earlier: "_Reservation") -> "_Reservation":
        """Reserve for another attempt of the same call."""
        account, cost = self.account, earlier.cost
        while account.is_limited and account.left() < cost:
            if account.left(at_best=True) < cost:
                raise account.too_little(cost)
            await account.changed()
        return _Reservation(account, earlier.request, cost, earlier.conversation)

    def _priced(self, model_id: str, usage: Usage) -> int:
        priced = self._price(model_id, usage)
        if priced is None:
            raise LimitReached(
                f"no price is known for {model_id}, so max_cost cannot be held: choose another"
                " model, give its price in the setting prices, or set no limit",
                limit="max_cost",
            )
        return priced

    def _cost(self, request: ModelRequest, usage: Usage) -> int | None:
        """Return the cost of *usage*; a server may report a model name without a price."""
        cost = usage.cost_microdollars
        return self._price(request.model.id, usage) if cost is None else cost

    def _note(self, reserved: "_Reservation", reply: Reply) -> None:
        """Remember the API's count, and the reservation to remove from the record."""
        if reserved.prompt_id and reserved.conversation:
            self._bound.note(reserved.request, reply.usage.prompt_tokens)
            self._settled.append((reserved.conversation, reserved.prompt_id, reserved.cost))

    def _open_prompt(self) -> None:
        """Start from zero for a new prompt; for a resumed one, count its cost so far."""
        if self._parent:
            self._parent._open_prompt()
            return
        account, prompts = self.account, self._conversation().prompts
        if not (account.limit and prompts) or prompts[-1].id == self._prompt_id:
            return
        usage = prompts[-1].usage
        if usage.cost_microdollars is None:
            raise LimitReached(
                "no price is known for what this prompt has used, so max_cost cannot be held:"
                " send a new message, or set no limit",
                limit="max_cost",
            )
        self._prompt_id = prompts[-1].id
        account.spent = usage.cost_microdollars + self._of_agents(prompts[-1])
        account.lost = usage.held_microdollars


class _Reservation:
    """The reserved cost of one call, held until it is settled, freed or lost.

    Attributes:
        cost: The reserved amount; once settled, the actual cost.
        prompt_id: The prompt whose record has the reservation, or "".
    """

    def __init__(
        self,
        account: Account,
        request: ModelRequest,
        cost: int,
        conversation: Conversation | None = None,
    ) -> None:
        self.request = request
        self.cost = cost
        self.conversation = conversation
        prompts = conversation.prompts if conversation else ()
        self.prompt_id = prompts[-1].id if prompts else ""
        self._account = account
        self._is_open = True
        account.add(held=cost)
        self._record(cost)

    def settle(self, cost: int | None) -> None:
        """Replace the reservation with the actual cost; None is unknown."""
        held, self.cost = self.cost, self.cost if cost is None else cost
        self._is_open = False
        self._account.add(spent=self.cost, held=-held)
        # Until its usage is recorded the call counts twice, but never not at all.
        self._record(self.cost - held)

    def free(self) -> None:
        """Release the reservation: the call cost nothing."""
        if self._is_open:
            self._is_open = False
            self._account.add(held=-self.cost)
            self._record(-self.cost)

    def lose(self) -> None:
        """Count the reservation of an unsettled call as lost."""
        if self._is_open:
            self._is_open = False
            self._account.add(held=-self.cost, lost=self.cost)

    def _record(self, change: int) -> None:
        if self.conversation and self.prompt_id and change:
            self.conversation.hold(change, self.prompt_id)
