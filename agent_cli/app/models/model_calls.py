"""Ask the session's models, and count what it costs."""

import math
from collections.abc import Callable

from agent_cli.app import parts
from agent_cli.app.models.providers import Providers
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.events import EventSink
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, StreamFn
from agent_cli.contracts.timeline import Prompt, text_of
from agent_cli.contracts.wording import in_microdollars
from agent_cli.core.conversation import Conversation
from agent_cli.policies.accounts import Account, metered, spending_now
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.model_fallback import FallbackModels
from agent_cli.policies.side_questions import reply_to
from agent_cli.providers.anthropic.betas import SERVER_FALLBACK
from agent_cli.providers.anthropic.models import level_for


class ModelCalls:
    """The connection to the provider behind the ledger of the session.

    Attributes:
        ledger: Holds the limits; every call of the session goes through it.
        stream: Asks a model.
        record: Counts usage in the prompt at work, and publishes it.
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
        publish: EventSink,
    ) -> None:
        """Connect to nothing yet.

        Args:
            startup: The settings and the credentials.
            recorded: Returns the function with its calls recorded.
            on_sent: Called after each request.
            on_refused_tool: Called with the name of an MCP tool that the API refused, and why.
            conversation: Returns the conversation that bears the cost; it is built later.
            of_agents: Returns the cost of a prompt's subagents, in micro-dollars.
            publish: Receives the usage of answers that stand in no conversation.
        """
        self._startup = startup
        self.record = spending_now(conversation, publish)
        self._publish = publish
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

    async def answer(
        self,
        model: Model,
        system: str,
        prompt: str,
        *,
        max_tokens: int,
        waits_s_max: float = math.inf,
    ) -> str:
        """Return the text that *model* answers to *prompt* alone; the session bears the cost.

        Raises:
            AgentCliError: There is no answer, the waits before retries would be longer than
                *waits_s_max* together, or the limit of cost is reached.
        """
        self.ledger.check()
        request = ModelRequest(
            model=model,
            messages=(UserMessage.of(prompt),),
            system=(system,),
            max_tokens=min(max_tokens, model.max_output_tokens),
        )
        stream_fn = metered(self.stream, self.record)
        reply = await reply_to(request, stream_fn, self._publish, waits_s_max=waits_s_max)
        return text_of(reply.content)

    def fallback_models(self) -> FallbackModels:
        """Return the models to ask where another is overloaded or declines."""
        settings = self._startup.loaded.settings
        platform = parts.connection(self._startup).platform
        names = [name.strip() for each in settings.model_fallback for name in each.split(",")]
        return FallbackModels(
            models=tuple(self.named(name) for name in names if name),
            by_server=settings.provider.is_whole and platform.name in SERVER_FALLBACK.platforms,
            level_for=level_for
            if settings.provider.speaks_messages
            else (lambda _model, level: level),
        )

    def effort_is_free(self, model_id: str) -> bool:
        """Return whether a change of the effort leaves what the model has cached."""
        return self._provider.states_effort(self.named(model_id))

    def preload(self) -> None:
        """Import the provider's SDK in the background."""
        self._provider.preload()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._provider.aclose()
