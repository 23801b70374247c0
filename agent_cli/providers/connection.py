"""Where the API is and how to get in: plain data, so that settings can make it without the SDK."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach a server that speaks the Messages API.

    Attributes:
        base_url: Without a path; a trailing `/v1` is taken off. None means ANTHROPIC_BASE_URL, or
            Anthropic's own.
        api_key: None means what the SDK finds: environment, then its own profile files.
        auth_token: Used when there is no `api_key`.
        read_timeout_s: Longest silence in a reply; the server's pings count as signs of life.
        compat: The server is not Anthropic's: send only the core of the API.
        record: Write the replies' bytes here.
        replay: Play a recording instead of asking a server.
        redact: Takes secrets out of what the server says, before it is shown or recorded.
        replay_pace: Times the recorded pauses; 0 plays without any.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    read_timeout_s: float = 90.0
    compat: bool = False
    record: Path | None = None
    replay: Path | None = None
    replay_pace: float = 0.0
    redact: Callable[[str], str] = str
