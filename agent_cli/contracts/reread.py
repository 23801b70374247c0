"""The tokens that a request reads anew instead of from the prompt cache, and their price."""

from agent_cli.contracts.money import dollars
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Reread:
    """Tokens that the next request reads anew, with the cause and the price.

    `cost` is in microdollars, None without a known price. `needs_consent` says that it is above
    the limit of the settings, so that a person is asked first.
    """

    cause: str
    tokens: int
    cost: int | None
    needs_consent: bool = False

    def __str__(self) -> str:
        price = "" if self.cost is None else f" ({dollars(self.cost)})"
        return f"{self.cause}: about {self.tokens:,} tokens not read from the cache{price}"
