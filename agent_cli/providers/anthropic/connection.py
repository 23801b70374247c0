"""The API's address and credentials: built from settings, used by both clients."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.options import READ_TIMEOUT_S, STALL_TIMEOUT_S, require, require_number
from agent_cli.contracts.provider import Price
from agent_cli.providers.anthropic.models import cost_microdollars
from agent_cli.providers.anthropic.platforms import ANTHROPIC, Platform
from agent_cli.providers.failures import CallFailed
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass, field

DEFAULT_BASE_URL = "https://api.anthropic.com"
# Source: RFC 9110, section 5.6.2.
_HEADER = late_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("content-length", "transfer-encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The address, credentials and limits of a Messages API server.

    Attributes:
        base_url: A trailing `/v1` is removed. None means ANTHROPIC_BASE_URL, or else the URL of the
            credentials profile, or Anthropic's own.
        api_key: None means the environment's, then the SDK's own profile files.
        auth_token: Used when there is no `api_key`.
        read_timeout_s: Longest silence in a reply; the server's pings count as signs of life.
        stall_timeout_s: Longest time without a piece of the reply, pings or not.
        compat: The server is not Anthropic's: send only the core of the API.
        platform: The cloud that serves the model; for clouds other than Anthropic's, `base_url`,
            `api_key` and `auth_token` are not used, and `variables` hold the credentials.
        variables: The environment and the user's `.env`: the platform's names, ANTHROPIC_PROFILE
            and ANTHROPIC_CUSTOM_HEADERS.
        threads_above_tokens: The server is asked to hold conversations from this size on; 0: none.
        threads_elsewhere: It is asked also if it is not Anthropic's own; one that passes requests
            on without what it does not know would lose the conversation.
        serving: Fields of each request about where and in which tier it is served.
        record: Write the replies' bytes here.
        replay: Play a recording instead of asking a server.
        redact: Removes secrets from server text before it is shown or recorded.
        replay_pace: Factor for the recorded pauses; 0 plays without pauses.
        price: Returns the cost of a reply.
        on_sent: Called after a request was sent, or could not be sent, possibly more than once;
            must not raise.
        on_refused_tool: Called with the name of an MCP tool, or of a tool of its own, that the
            server refused, and its reason; the tool is not sent any more. Must not raise.

    Raises:
        AgentCliError: A value has another type.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    read_timeout_s: float = READ_TIMEOUT_S
    stall_timeout_s: float = STALL_TIMEOUT_S
    compat: bool = False
    platform: Platform = ANTHROPIC
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    threads_above_tokens: int = 0
    threads_elsewhere: bool = False
    serving: Mapping[str, str] = field(default_factory=dict[str, str])
    record: Path | None = None
    replay: Path | None = None
    replay_pace: float = 0.0
    redact: Callable[[str], str] = str
    price: Price = cost_microdollars
    on_sent: Callable[[], None] = lambda: None
    on_refused_tool: Callable[[str, str], None] = lambda _name, _reason: None

    def __post_init__(self) -> None:
        for name in ("base_url", "api_key", "auth_token"):
            require(getattr(self, name), str, type(None), what=f"{name} of a Connection")
        for name in ("read_timeout_s", "stall_timeout_s"):
            require_number(getattr(self, name), what=f"{name} of a Connection")


def base_url(connection: Connection) -> str:
    """Return the base URL of the server, without `/v1` and trailing slashes."""
    return chosen_base_url(connection) or DEFAULT_BASE_URL


def chosen_base_url(connection: Connection) -> str | None:
    """Return the base URL that the user chose, as `base_url` does; None for the default one."""
    url = connection.base_url or os.environ.get("ANTHROPIC_BASE_URL")
    return url.strip().rstrip("/").removesuffix("/v1").rstrip("/") if url else None


def known_credential(connection: Connection) -> str | None:
    """Return the key or token to send as bearer, in the SDK's order of sources.

    None means that only the SDK can find one, in a credentials profile or by workload identity.
    """
    if key := connection.api_key or connection.auth_token or os.environ.get("ANTHROPIC_API_KEY"):
        return key
    if connection.replay is not None or connection.compat:
        return "none"  # a recording has no server, and local servers accept any key
    return os.environ.get("ANTHROPIC_AUTH_TOKEN") or None


def custom_headers(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of ANTHROPIC_CUSTOM_HEADERS, one `Name: value` per line.

    Raises:
        CallFailed: One of them is not valid in a request.
    """
    lines = variables.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    pairs = (line.partition(":") for line in lines if ":" in line)
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    for name, value in headers.items():
        if not f"{name}{value}".isascii():
            fault = "is not ASCII; remove or encode it"
        elif not _HEADER.fullmatch(name) or not value.isprintable():
            fault = "is not valid as a header; correct it"
        elif name.lower() in _OWN_HEADERS:
            fault = "cannot be set; remove it"
        else:
            continue
        sentence = f"ANTHROPIC_CUSTOM_HEADERS: {name!a} {fault}"
        raise CallFailed(ModelError(sentence), retryable=False)
    return headers
