"""The reserved cost of one model call, from before it is made until its cost is known."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.policies.accounts import Account


@dataclass(frozen=True, slots=True)
class Payer:
    """The account and the record that bear the cost of a call."""

    account: Account
    conversation: Conversation
    prompt_id: str
    worst: Callable[[ModelRequest, Usage], tuple[int, int] | None]

    def record(self, held: int) -> None:
        """Record a change of the reserved cost."""
        if self.prompt_id and held:
            self.conversation.hold(held, self.prompt_id)


class Reservation:
    """The reserved cost of one call, held until it is settled, freed or lost.

    Attributes:
        request: The call, with the `max_tokens` that were reserved.
        cost: The reserved amount, 0 without a limit; once settled or lost, the certain cost.
        known: The usage that the API has told so far.
    """

    def __init__(self, payer: Payer, request: ModelRequest, cost: int) -> None:
        self.payer = payer
        self.request = request
        self.cost = cost
        self.known = NO_USAGE
        self._is_limited = payer.account.is_limited
        self._is_open = True
        self._change(cost)

    def begin(self, usage: Usage) -> None:
        """Take in what the API has counted: the prompt is no longer a bound."""
        self.known = usage
        worst = self.payer.worst(self.request, usage)
        if self._is_open and self._is_limited and worst and usage.prompt_tokens:
            change, self.cost = worst[1] - self.cost, worst[1]
            self._change(change)

    def settle(self, cost: int | None) -> None:
        """Replace the reservation with the actual cost; None is unknown."""
        held, self.cost = self.cost, self.cost if cost is None else cost
        self._is_open = False
        self.payer.account.add(spent=self.cost, held=-held)
        if self._is_limited:
            # Until its usage is recorded the call counts twice, but never not at all.
            self.payer.record(self.cost - held)

    def free(self) -> None:
        """Release the reservation: the call cost nothing."""
        if self._is_open:
            self._is_open = False
            self._change(-self.cost)

    def lose(self) -> bool:
        """Count an unsettled call, `cost` as spent and the rest as possible; False if settled.

        The record has all of it as possible until the known usage is recorded.
        """
        if not self._is_open:
            return False
        self._is_open = False
        certain, most = self.payer.worst(self.request, self.known) or (0, self.cost)
        if self._is_limited:
            most = self.cost
        self.payer.account.add(held=-self.cost, spent=certain, lost=most - certain)
        self.payer.record(most - self.cost)
        self.cost = certain
        return True

    def _change(self, held: int) -> None:
        self.payer.account.add(held=held)
        self.payer.record(held)
