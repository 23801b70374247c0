"""The provider of a session, by the API that the settings name."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.messages import CustomMessage, Message
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Provider,
    ProviderRegistry,
    StreamEvent,
)
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.providers.shared_pause import SharedPause
from agent_cli.system import paths
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.providers.openai_chat.connection import ChatConnection


class SessionProvider(Provider, Protocol):
    """A provider with what a session needs beyond the stream."""

    def preload(self) -> None:
        """Begin to load the client in the background."""
        ...

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the server's estimate of the prompt's tokens; None without one."""
        ...

    def states_effort(self, model: Model) -> bool:
        """Return whether a change of the effort leaves what *model* has cached."""
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""
        ...


class Providers:
    """The provider that the settings name, registered for the API of its models."""

    def __init__(
        self,
        startup: StartupContext,
        *,
        retry: RetryPolicy | None = None,
        on_sent: Callable[[], None] = lambda: None,
        on_refused_tool: Callable[[str, str], None] = lambda _name, _reason: None,
    ) -> None:
        """Connect to nothing yet; *retry* replaces the policy of the settings."""
        model = parts.model(startup)
        self.provider = _provider(
            startup, retry or parts.retry_policy(startup), on_sent, on_refused_tool
        )
        self._registry = ProviderRegistry({model.api: self.provider})

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Ask the provider of the request's model.

        Raises:
            ProviderNotFound: The model is of another API than the settings name.
        """
        return self._registry.find(request.model).stream(request)


def chat_connection(
    startup: StartupContext, on_sent: Callable[[], None] = lambda: None
) -> "ChatConnection":
    """Return the connection to a server of the Chat Completions API."""
    from agent_cli.providers.openai_chat.connection import ChatConnection  # noqa: PLC0415 - rare

    settings, arguments = startup.loaded.settings.provider, startup.arguments
    variables = startup.environment.without_project()
    return ChatConnection(
        base_url=variables.get("OPENAI_BASE_URL") or None,
        api_key=variables.get("OPENAI_API_KEY") or None,
        read_timeout_s=settings.read_timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        record=arguments.record,
        replay=arguments.replay,
        redact=Redactor.of(startup.environment).text,
        price=parts.price(startup),
        on_sent=on_sent,
    )


def is_listed(model: Model) -> bool:
    """Return whether facts and prices of models of this API are known here, and may be listed."""
    return model.api == Model("").api


def unsent_images(startup: StartupContext) -> Callable[[Sequence[Message]], Sequence[int]]:
    """Return a function that counts for each message the images and PDFs that a request omits."""
    provider = startup.loaded.settings.provider

    def unsent(messages: Sequence[Message]) -> Sequence[int]:
        contents = [() if isinstance(each, CustomMessage) else each.content for each in messages]
        if not provider.speaks_messages or not any(
            block["type"] in ("image", "document") for each in contents for block in each
        ):
            return ()
        from agent_cli.providers.anthropic.sent_images import (  # noqa: PLC0415 - with images
            unsent_images,
        )

        return unsent_images(contents, compat=provider.compat)

    return unsent


def _provider(
    startup: StartupContext,
    retry: RetryPolicy,
    on_sent: Callable[[], None],
    on_refused_tool: Callable[[str, str], None],
) -> SessionProvider:
    shared = _shared_pause(startup)
    match startup.loaded.settings.provider.wire_api:
        case "messages":
            from agent_cli.providers.anthropic.messages import AnthropicMessages  # noqa: PLC0415

            connection = parts.connection(startup, on_sent, on_refused_tool)
            return AnthropicMessages(connection, retry, shared=shared)
        case "chat":
            from agent_cli.providers.openai_chat.provider import OpenAIChat  # noqa: PLC0415 - rare

            return OpenAIChat(chat_connection(startup, on_sent), retry, shared=shared)


def _shared_pause(startup: StartupContext) -> SharedPause | None:
    """Return the pauses that this program shares with others, if the settings name a file."""
    file = startup.loaded.settings.retry.shared_file
    return SharedPause(paths.expanded(file)) if file else None
