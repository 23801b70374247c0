"""The address, key and limits of a server of the Chat Completions API."""

from collections.abc import Callable
from pathlib import Path

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.options import READ_TIMEOUT_S, STALL_TIMEOUT_S
from agent_cli.contracts.provider import Price
from agent_cli.providers.failures import CallFailed, Remedies
from agent_cli.system.records import dataclass, field

DEFAULT_BASE_URL = "https://api.openai.com/v1"
API = "openai-chat"
"""Key of the provider registry."""

REMEDIES = Remedies(
    rejected="API key rejected",
    sign_in="check OPENAI_API_KEY",
    forbidden="the API key has no permission for this",
    permission="check its project and limits",
    unknown_model="check the model id and OPENAI_BASE_URL",
    address="OPENAI_BASE_URL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConnection:
    """A server of the Chat Completions API.

    Attributes:
        base_url: With its version, such as `http://localhost:11434/v1`; None means OpenAI's own.
        api_key: None sends no key: servers on one's own machine need none.
        read_timeout_s: Longest silence in a reply.
        stall_timeout_s: Longest time without a piece of the reply.
        record: Write the replies' bytes here.
        replay: Play a recording instead of asking a server.
        replay_pace: Factor for the recorded pauses; 0 plays without pauses.
        redact: Removes secrets from server text before it is shown or recorded.
        price: Returns the cost of a reply.
        on_sent: Called after a request was sent, or could not be sent; must not raise.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    read_timeout_s: float = READ_TIMEOUT_S
    stall_timeout_s: float = STALL_TIMEOUT_S
    record: Path | None = None
    replay: Path | None = None
    replay_pace: float = 0.0
    redact: Callable[[str], str] = str
    price: Price = lambda _model, _usage: None
    on_sent: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        """The base URL without slashes at its end."""
        return (self.base_url or DEFAULT_BASE_URL).strip().rstrip("/")

    @property
    def endpoint(self) -> str:
        """The URL to post to; a query, such as a version's, stays at its end."""
        base, mark, query = self.address.partition("?")
        return f"{base.rstrip('/')}/chat/completions{mark}{query}"

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own, which renamed a parameter that others keep."""
        return self.address == DEFAULT_BASE_URL


def bearer(key: str | None) -> dict[str, str]:
    """Return the header for *key*; none without one.

    Raises:
        CallFailed: It is not valid in a header. The HTTP library's own error would print it.
    """
    key = (key or "").strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        fault = "holds a line break or a character that is not ASCII"
        raise CallFailed(ModelError(f"OPENAI_API_KEY {fault}; copy it again"), retryable=False)
    return {"authorization": f"Bearer {key}"}
