"""Where the API is and how to get in, without the SDK: settings make it, both clients read it."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.options import READ_TIMEOUT_S, STALL_TIMEOUT_S
from agent_cli.providers.failures import CallFailed

DEFAULT_BASE_URL = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach a server that speaks the Messages API.

    Attributes:
        base_url: Without a path; a trailing `/v1` is taken off. None means ANTHROPIC_BASE_URL, or
            Anthropic's own.
        api_key: None means the environment's, then the SDK's own profile files.
        auth_token: Used when there is no `api_key`.
        read_timeout_s: Longest silence in a reply; the server's pings count as signs of life.
        stall_timeout_s: Longest time without a piece of the reply, signs of life or not.
        compat: The server is not Anthropic's: send only the core of the API.
        record: Write the replies' bytes here.
        replay: Play a recording instead of asking a server.
        redact: Takes secrets out of what the server says, before it is shown or recorded.
        replay_pace: Times the recorded pauses; 0 plays without any.
        on_sent: Called once a request is out, while the reply is awaited, perhaps more than once,
            and when it could not be sent; must not raise.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    read_timeout_s: float = READ_TIMEOUT_S
    stall_timeout_s: float = STALL_TIMEOUT_S
    compat: bool = False
    record: Path | None = None
    replay: Path | None = None
    replay_pace: float = 0.0
    redact: Callable[[str], str] = str
    on_sent: Callable[[], None] = lambda: None


def base_url(connection: Connection) -> str:
    """Return the address of the server, without `/v1` and trailing slashes."""
    given = connection.base_url or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
    return given.rstrip("/").removesuffix("/v1").rstrip("/")


def without_password(address: str) -> str:
    """Return *address* as it may be shown: what stands before its host is masked."""
    return re.sub(r"(?<=//)[^/]*@", "***@", address)


def known_credential(connection: Connection) -> str | None:
    """Return the key or token to send as bearer, in the SDK's order of sources.

    None means that only the SDK can find one: a credentials profile or workload identity.
    """
    given = connection.api_key or connection.auth_token or os.environ.get("ANTHROPIC_API_KEY")
    if given:
        return given
    if connection.replay is not None or connection.compat:
        return "none"  # a recording has no server, and local servers take any key
    return os.environ.get("ANTHROPIC_AUTH_TOKEN") or None


def checked_key(key: str) -> str:
    """Return *key* if a header can hold it.

    Raises:
        CallFailed: It cannot. The HTTP library's own error would print the key.
    """
    if key.isascii() and key.isprintable():
        return key
    sentence = "the API key holds a line break or a character that is not ASCII; copy it again"
    raise CallFailed(ModelError(sentence), retryable=False)


def custom_headers() -> dict[str, str]:
    """Return the headers of ANTHROPIC_CUSTOM_HEADERS, one `Name: value` a line."""
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
