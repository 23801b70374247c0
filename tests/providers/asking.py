"""Call the provider over a real connection; waits are recorded, not slept."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.messages import LlmMessage, UserMessage
from agent_cli.contracts.provider import ModelRequest, Reply, ReplyEnd, Retrying, StreamEvent
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.anthropic.models import model_by_id
from agent_cli.providers.retries import RetryPolicy
from tests.messages_api import FakeMessagesApi


def request(
    *messages: LlmMessage,
    model: str = "claude-sonnet-5-5",
    **options: Any,  # the fields of ModelRequest, as each test needs them
) -> ModelRequest:
    """Return a request of *messages*, by default one "hi"."""
    return ModelRequest(
        model=model_by_id(model), messages=messages or (UserMessage.of("hi"),), **options
    )


@dataclass(slots=True)
class Asked:
    """The outcome of one request."""

    events: list[StreamEvent] = field(default_factory=list[StreamEvent])
    error: ModelError | None = None

    @property
    def reply(self) -> Reply:
        """The complete reply, the last event."""
        assert isinstance(self.events[-1], ReplyEnd), (self.events, self.error)
        return self.events[-1].reply

    @property
    def retries(self) -> list[Retrying]:
        """The announced retries."""
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def text(self) -> str:
        """The text of the reply."""
        return "".join(str(block.get("text", "")) for block in self.reply.content)


@dataclass(slots=True)
class Asker:
    """A provider and the waits it requested."""

    provider: AnthropicMessages
    waits_s: list[float] = field(default_factory=list[float])

    async def ask(self, asked_for: ModelRequest | None = None) -> Asked:
        """Send a request, and collect its events."""
        asked = Asked()
        try:
            async for event in self.provider.stream(asked_for or request()):
                asked.events.append(event)
        except ModelError as error:
            asked.error = error
        return asked


@asynccontextmanager
async def asker(
    api: FakeMessagesApi | None = None, *, retry: RetryPolicy | None = None, **options: Any
) -> AsyncGenerator[Asker]:
    """Yield an asker connected to *api*; *options* are the fields of Connection."""
    waits_s: list[float] = []

    async def record(seconds: float) -> None:
        waits_s.append(seconds)

    place: dict[str, Any] = {"base_url": api.base_url, "api_key": "secret-key"} if api else {}
    provider = AnthropicMessages(Connection(**{**place, **options}), retry, sleep=record)
    yield Asker(provider, waits_s)
    await provider.aclose()
