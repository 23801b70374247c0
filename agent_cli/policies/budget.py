"""A limit on what one run may cost, checked before every model call."""

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.events import Notice
from agent_cli.contracts.timeline import Usage
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn

MICRODOLLARS = 1_000_000


class Budget:
    """A `prepare` contributor; the first one, so that what others spend counts from the start.

    A call that is under way is never cut short: a run can exceed its limit by the cost of one call.
    """

    def __init__(self, *, max_cost_usd: float) -> None:
        self._max_cost_usd = max_cost_usd
        self._run: CancelToken | None = None
        self._conversation = Conversation()
        self._first_prompt = 0
        self._cost_before: int | None = 0
        self._told = False

    def __call__(self, turn: Turn) -> None:
        """Check what the run has cost so far.

        Raises:
            LimitReached: It is `max_cost_usd` or more.
        """
        if not self._max_cost_usd or turn.conversation.open_calls():
            return
        if turn.cancel is not self._run:
            # A run gets a token of its own, so a new token is a new run.
            self._run, self._conversation = turn.cancel, turn.conversation
            self._first_prompt = len(turn.conversation.prompts) - 1
            self._cost_before = self._cost()
        if self._cost() is None or self._cost_before is None:
            self._tell(turn)
        self.check()

    def check(self) -> None:
        """Check what the run has cost so far, for whoever spends beside its model calls.

        Raises:
            LimitReached: It is `max_cost_usd` or more.
        """
        cost = self._cost()
        if not self._max_cost_usd or cost is None or self._cost_before is None:
            return
        spent_usd = (cost - self._cost_before) / MICRODOLLARS
        if spent_usd >= self._max_cost_usd:
            raise LimitReached(
                f"cost limit reached: ${spent_usd:.2f} of ${self._max_cost_usd:g} (max_cost);"
                " send a message to continue",
                limit="max_cost",
            )

    def _cost(self) -> int | None:
        """Return the cost of the prompts this run worked on; None when one has no known price."""
        worked_on = self._conversation.prompts[self._first_prompt :]
        return sum((prompt.usage for prompt in worked_on), Usage()).cost_microdollars

    def _tell(self, turn: Turn) -> None:
        if not self._told:
            self._told = True
            turn.emit(
                Notice(
                    "warning",
                    f"unknown price for {turn.model.id}:"
                    f" max_cost ${self._max_cost_usd:g} is not enforced",
                )
            )
