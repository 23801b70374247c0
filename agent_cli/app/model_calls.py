"""Ask the session's models, and count what it costs."""

from collections.abc import Callable

from agent_cli.app import parts
from agent_cli.app.providers import Providers
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.money import in_microdollars
from agent_cli.contracts.provider import Model, StreamFn
from agent_cli.contracts.timeline import Prompt
from agent_cli.core.conversation import Conversation
from agent_cli.policies.accounts import Account
from agent_cli.policies.ledger import Ledger


class ModelCalls:
    """The connection to the provider behind the ledger of the session.

    Attributes:
        ledger: Holds the limits; every call of the session goes through it.
        stream: Asks a model.
    """

    def __init__(
        self,
        startup: StartupContext,
        *,
        recorded: Callable[[StreamFn], StreamFn],
        on_sent: Callable[[], None],
        on_refused_tool: Callable[[str, str], None],
        conversation: Callable[[], Conversation],
        of_agents: Callable[[Prompt], int],
    ) -> None:
        """Connect to nothing yet.

        Args:
            startup: The settings and the credentials.
            recorded: Returns the function with its calls recorded.
            on_sent: Called after each request.
            on_refused_tool: Called with the name of an MCP tool that the API refused, and why.
            conversation: Returns the conversation that bears the cost; it is built later.
            of_agents: Returns the cost of a prompt's subagents, in micro-dollars.
        """
        self._startup = startup
        providers = Providers(startup, on_sent=on_sent, on_refused_tool=on_refused_tool)
        self._provider = providers.provider
        self.ledger = Ledger(
            recorded(providers.stream),
            conversation,
            price=parts.price(startup),
            account=Account(in_microdollars(startup.loaded.settings.max_cost_usd)),
            of_agents=of_agents,
            count=self._provider.count_tokens,
        )
        self.stream = self.ledger.stream

    def named(self, name: str | None = None) -> Model:
        """Return the model *name*, an alias or an id; the settings' model without a name."""
        return parts.model(self._startup, name)

    def preload(self) -> None:
        """Import the provider's SDK in the background."""
        self._provider.preload()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._provider.aclose()
