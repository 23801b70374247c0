"""The core's port to a model provider: one streamed reply. Knows no vendor.

A provider, or a `stream_fn`, is a function from a request to an asynchronous iterator of stream
events that ends with exactly one `ReplyEnd`. It retries by itself; it raises `ModelError`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import ClassVar, Literal, Protocol, TypeAlias, cast

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, ProviderNotFound
from agent_cli.contracts.frozen import Frozen
from agent_cli.contracts.messages import LlmMessage
from agent_cli.contracts.options import MAX_TOKENS, Function, ThinkingLevel, require
from agent_cli.contracts.timeline import NO_USAGE, Block, Json, ModelUsage, Usage
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Model:
    """A model with the facts about it that change a request.

    Attributes:
        api: Key of the provider registry.
        context_window: Maximum tokens of prompt and reply together.
        max_output_tokens: The highest `max_tokens` it accepts.
        thinking: Values of `thinking.type` it accepts; empty when unknown.
        efforts: Values of `output_config.effort` it accepts; empty when it has none.
        binds_thinking: Its thinking blocks are valid only after the exact prefix they were made in.
        takes_task_budget: It paces itself by a budget of tokens.
        takes_system_messages: It takes messages in the system's role between the others.
        takes_threads: Its server can hold a conversation, and take new messages alone.
        signs_summaries: It summarises a conversation in a block that it signs.
        default_effort: Its effort where none is asked for, if a message can change it; else "".
        output_tokens_per_s: No reply is generated faster than this; 0 when unknown.
    """

    id: str
    api: str = "anthropic-messages"
    provider: str = "anthropic"
    context_window: int = 200_000
    max_output_tokens: int = 64_000
    thinking: frozenset[str] = frozenset()
    efforts: frozenset[str] = frozenset()
    binds_thinking: bool = False
    takes_task_budget: bool = False
    takes_system_messages: bool = False
    takes_threads: bool = False
    signs_summaries: bool = False
    default_effort: str = ""
    output_tokens_per_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """All inputs of one model call; None means "not sent".

    Attributes:
        system: In order of stability: the first part is the same for the whole session.
        task_budget: Tokens for the work of the whole run, so that the model ends in time; advice,
            not a limit.
        previous_message_id: The id of the reply to the previous request: with it the server can say
            why it did not read the cache.
        fallbacks: The models that the server may ask, in order, when `model` declines.
        summarizes: The last message asks for a summary of the messages before it, and the reply may
            be one block in the server's own form.
        output_schema: A JSON Schema that the text of the reply must fit; a server may enforce it.
        keeps_warm: The request only keeps what an earlier one has cached, and is no part of a
            conversation.
        stands_alone: No later request begins with these messages: to cache them would only cost.
        cancel: The run's token, for code that blocks a thread; code that awaits is cancelled as
            usual.
    """

    model: Model
    messages: tuple[LlmMessage, ...]
    system: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    thinking_level: ThinkingLevel | None = None
    thinking_budgets: dict[str, int] = field(default_factory=dict[str, int])
    api_key: str | None = field(default=None, repr=False)
    session_id: str | None = None
    max_retry_delay_ms: int | None = None
    task_budget: int | None = None
    previous_message_id: str | None = None
    fallbacks: tuple[Model, ...] = ()
    summarizes: bool = False
    output_schema: dict[str, Json] | None = None
    keeps_warm: bool = False
    stands_alone: bool = False
    cancel: CancelToken | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply: its blocks exactly as received.

    `cache_miss` is the server's reason for not reading the cache, or "". `declined` is the
    requested model, if that declined and the server asked `model` instead, else "". `usage` is that
    of `model` alone, the size of the context; `beside` is what the server's other calls used.
    """

    id: str
    model: str
    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage = NO_USAGE
    request_id: str | None = None
    stop_details: Json = None
    cache_miss: str = ""
    declined: str = ""
    beside: tuple[ModelUsage, ...] = ()

    @property
    def billed(self) -> Usage:
        """The usage of all calls for the reply."""
        return sum((each.usage for each in self.beside), self.usage)


@dataclass(frozen=True, slots=True)
class ReplyStart:
    """The first event of a reply.

    `usage` is what the API has counted by then: the prompt. The consumer of a reply that breaks off
    counts it; a `stream_fn` in between that has counted it leaves it out.
    """

    type: ClassVar[Literal["reply_start"]] = "reply_start"
    model: str = ""
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of text of block *index*."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of thinking of block *index*."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The model begins a tool call in block *index*."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of the call's arguments, as JSON text."""

    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"
    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class BlockEnd(Frozen):
    """Block *index* is complete."""

    type: ClassVar[Literal["block_end"]] = "block_end"
    index: int
    block: Block


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The last event of a reply that completed."""

    type: ClassVar[Literal["reply_end"]] = "reply_end"
    reply: Reply


@dataclass(frozen=True, slots=True)
class Retrying:
    """The call failed and is retried after *wait_s* seconds.

    `restarted` is True when part of the reply had been streamed; discard that part. `may_have_cost`
    is True when the server may have begun to answer and may charge for it.
    """

    type: ClassVar[Literal["retrying"]] = "retrying"
    attempt: int
    max_attempts: int
    wait_s: float
    reason: str
    restarted: bool = False
    may_have_cost: bool = False


StreamEvent: TypeAlias = (
    ReplyStart
    | TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | BlockEnd
    | ReplyEnd
    | Retrying
)
Price: TypeAlias = Callable[[str, Usage], int | None]
"""Returns the cost of a model's usage in micro-dollars, or None if no price is known."""

StreamFn: TypeAlias = Callable[[ModelRequest], AsyncIterator[StreamEvent]]
CountFn: TypeAlias = Callable[[ModelRequest], Awaitable[int | None]]
"""Returns a server's estimate of a prompt's tokens, or None if it gives none; does not raise."""


def closable(events: AsyncIterator[StreamEvent]) -> AsyncGenerator[StreamEvent, None]:
    """Return *events* as a generator, which can be closed; ours are generators already.

    A reply of 10,000 pieces passes through each generator that stands between.
    """
    if isinstance(events, AsyncGenerator):
        return cast("AsyncGenerator[StreamEvent, None]", events)
    return _as_generator(events)


async def _as_generator(events: AsyncIterator[StreamEvent]) -> AsyncGenerator[StreamEvent, None]:
    """Yield *events*, and close their iterator with this one, if it can be closed."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class Provider(Protocol):
    """A client of the models of one api."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Stream one reply. Cancelling the consumer closes the connection."""
        ...


class ProviderRegistry:
    """Providers by api."""

    def __init__(self, providers: Mapping[str, Provider] | None = None) -> None:
        """Register *providers*; raises `AgentCliError` as `register` does."""
        require(providers, Mapping, type(None), what="providers")
        self._providers = dict[str, Provider]()
        for api, provider in (providers or {}).items():
            self.register(api, provider)

    def register(self, api: str, provider: Provider) -> None:
        """Register *provider* for *api*, replacing an earlier one.

        Raises:
            AgentCliError: It is a class, or has no `stream`.
        """
        require(api, str, what="an api")
        if isinstance(provider, type):
            raise AgentCliError(f"register an instance of {provider.__name__}, not the class")
        stream = getattr(provider, "stream", None)
        require(stream, Function, what=f"stream of the provider for {api!r}")
        self._providers[api] = provider

    def find(self, model: Model) -> Provider:
        """Return the provider of *model*.

        Raises:
            ProviderNotFound: No provider is registered for its api.
        """
        try:
            return self._providers[model.api]
        except KeyError:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ProviderNotFound(
                f"no provider for api {model.api!r} (model {model.id}); registered: {known}"
            ) from None
