"""The models of a session: their provider, by the API that the settings name, and their change.

And the model of an earlier session that goes on.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, get_args

from agent_cli.app import parts
from agent_cli.app.hooks.lifecycle import SessionHooks
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.messages import CustomMessage, Message
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Price,
    Provider,
    ProviderRegistry,
    ReplyEnd,
    ReplyStart,
    StreamEvent,
    closable,
)
from agent_cli.contracts.timeline import NO_USAGE, UNKNOWN_MODEL, Json, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.stream_processor import check_event, checked_stream
from agent_cli.policies.cache_watch import CACHE_LIFE_S
from agent_cli.policies.request_settings import noted_effort
from agent_cli.providers.anthropic.models import model_by_id
from agent_cli.providers.retries import RetryPolicy
from agent_cli.system import paths
from agent_cli.system.redaction import Redactor
from agent_cli.system.shared_pauses import SharedPause

if TYPE_CHECKING:
    from agent_cli.contracts.listings import ConfirmSwitch, SwitchSource
    from agent_cli.providers.encoding import Pieces
    from agent_cli.providers.openai_chat import ChatConnection


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

    def lacking(self, model: Model) -> str:
        """Return what requests for *model* do without now, as a sentence; "" if nothing."""
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""
        ...


class _ProgramProvider:
    """The provider of a Python program, which need not have more than the stream.

    Tokens that it states without a cost get the cost that the prices give, so that a limit of cost
    holds also for a provider that knows no prices.
    """

    def __init__(self, provider: Provider, on_sent: Callable[[], None], price: Price) -> None:
        self._provider = provider
        self._on_sent = on_sent
        self._price = price

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self._on_sent()
        stream = checked_stream(self._provider.stream(request))
        async with aclosing(closable(stream)) as events:
            async for event in events:
                check_event(event)
                yield self._priced(event, request.model.id)

    def _priced(self, event: StreamEvent, requested: str) -> StreamEvent:
        match event:
            case ReplyStart():
                # A server may have a name of its own for the requested model.
                used = self._with_cost(event.usage, event.model, requested)
                return replace(event, usage=used)
            case ReplyEnd(reply=reply):
                used = self._with_cost(reply.usage, reply.model, requested)
                beside = [
                    replace(each, usage=self._with_cost(each.usage, each.model))
                    for each in reply.beside
                ]
                return replace(event, reply=replace(reply, usage=used, beside=tuple(beside)))
            case _:
                return event

    def _with_cost(self, used: Usage, *models: str) -> Usage:
        if used.cost_microdollars != 0 or used == NO_USAGE:
            return used
        costs = (self._price(model, used) for model in models)
        return replace(used, cost_microdollars=next((c for c in costs if c is not None), None))

    def preload(self) -> None:
        pass

    async def count_tokens(self, request: ModelRequest) -> int | None:  # noqa: ARG002 - as the protocol has it
        return None

    def states_effort(self, model: Model) -> bool:  # noqa: ARG002 - as above
        return False

    def lacking(self, model: Model) -> str:  # noqa: ARG002 - as above
        return ""

    async def aclose(self) -> None:
        pass


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
    from agent_cli.providers.openai_chat import ChatConnection  # rare

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


def unsent_images(startup: StartupContext) -> Callable[[Sequence[Message], str], Sequence[int]]:
    """Return a function that counts for each message the images and PDFs that a request omits."""
    provider = startup.loaded.settings.provider

    @cache
    def media() -> "Pieces[Message, bool]":
        from agent_cli.providers.encoding import Pieces  # with the first request

        return Pieces(_holds_media)

    def unsent(messages: Sequence[Message], model_id: str) -> Sequence[int]:
        if not (provider.speaks_messages and any(media().of(messages))):
            return (0,) * len(messages)
        from agent_cli.providers.anthropic.sent_images import unsent_images  # with images

        contents = [() if isinstance(each, CustomMessage) else each.content for each in messages]
        window = model_by_id(model_id).context_window
        return unsent_images(contents, compat=provider.compat, context_window=window)

    return unsent


def _holds_media(message: Message) -> bool:
    content = () if isinstance(message, CustomMessage) else message.content
    return any(block["type"] in ("image", "document") for block in content)


def _provider(
    startup: StartupContext,
    retry: RetryPolicy,
    on_sent: Callable[[], None],
    on_refused_tool: Callable[[str, str], None],
) -> SessionProvider:
    if startup.provider:
        return _ProgramProvider(startup.provider, on_sent, parts.price(startup))
    shared = _shared_pause(startup)
    match startup.loaded.settings.provider.wire_api:
        case "messages":
            from agent_cli.providers.anthropic.messages import AnthropicMessages

            connection = parts.connection(startup, on_sent, on_refused_tool)
            return AnthropicMessages(connection, retry, shared=shared)
        case "chat":
            from agent_cli.providers.openai_chat import OpenAIChat  # rare

            return OpenAIChat(chat_connection(startup, on_sent), retry, shared=shared)


def _shared_pause(startup: StartupContext) -> SharedPause | None:
    """Return the pauses that this program shares with others, if the settings name a file."""
    file = startup.loaded.settings.retry.shared_file
    return SharedPause(paths.expanded(file)) if file else None


class ModelSwitch:
    """Changes the model of one session; see `__call__`."""

    def __init__(
        self, agent: Agent, hooks: SessionHooks, *, price: Price, tokens: Callable[[], int]
    ) -> None:
        """Change nothing yet; *tokens* returns the tokens of the next request."""
        self._agent = agent
        self._hooks = hooks
        self._price = price
        self._tokens = tokens

    async def __call__(
        self, model: Model, *, requested: str, source: "SwitchSource", confirm: "ConfirmSwitch"
    ) -> None:
        """Use *model* from the next request on.

        Args:
            model: The model.
            requested: The name it was asked for by.
            source: Who asks.
            confirm: Asks the person, with the reason of a hook that wants that.

        Raises:
            UsageError: A hook or the person is against it.
        """
        before = self._agent.options.model
        if before is None or before.id == model.id or not self._hooks.watch_models:
            self._agent.set_model(model)
            return
        about = self._about(before, model, requested, source)
        answer = await self._hooks.model_switches(model.id, about)
        if answer.refusal:
            raise UsageError(f"a hook keeps the model {before.id}: {answer.refusal}")
        if answer.decision == "ask" and not await confirm(answer.reason):
            raise UsageError(f"the model stays {before.id}: {answer.reason}")
        self._agent.set_model(model)
        self._hooks.model_switched(model.id, about)

    def _about(
        self, before: Model, model: Model, requested: str, source: "SwitchSource"
    ) -> dict[str, Json]:
        conversation, tokens = self._agent.conversation, self._tokens()
        output = [*conversation.prompts[-1].output] if conversation.prompts else []
        cost = self._price(model.id, Usage(cache_write_5m_tokens=tokens))
        return {
            "from_model": before.id,
            "requested_model": requested,
            "source": source,
            "context_tokens": tokens,
            "prompt_cache_warm": bool(output)
            and conversation.now() - output[-1].at_ms < CACHE_LIFE_S * 1000,
            "cache_ttl": "5m",
            **({} if cost is None else {"estimated_cache_write_usd": in_usd(cost)}),
            "pricing": "catalog",
        }


def go_on_as_before(
    startup: StartupContext, agent: Agent, conversation: Conversation, publish: EventSink
) -> None:
    """Use the model and the effort of *conversation*, unless the caller names others.

    Another model would read it all anew. A model unknown here may belong to another server.
    """
    usual = agent.state
    lasting = next((each.model for each in conversation.prompts[::-1] if not each.once), "")
    kept: list[str] = []
    if lasting not in ("", UNKNOWN_MODEL) and usual.model and not startup.names("model"):
        model = parts.model(startup, lasting)
        if model.thinking and model.id != usual.model.id:
            agent.set_model(model)
            kept.append(model.id)
    noted = noted_effort(conversation)
    level = next((each for each in get_args(ThinkingLevel) if each == noted), None)
    if noted is not None and level != usual.thinking_level and not startup.names("effort"):
        agent.set_thinking_level(level)
        kept.append(f"effort {level or 'default'}")
    if kept:
        publish(Notice("info", f"this session goes on as before, with {' and '.join(kept)}"))


def model_of_waiting(
    startup: StartupContext, agent: Agent, conversation: Conversation, publish: EventSink
) -> Model | None:
    """Return the model of a waiting prompt, unless --model names another."""
    if startup.names("model") or not conversation.waiting:
        return None
    usual, asked = agent.state.model, conversation.prompts[-1].model
    if usual is None or asked in (usual.id, UNKNOWN_MODEL):
        return None
    publish(Notice("info", f"the waiting prompt continues with {asked}"))
    return parts.model(startup, asked)
