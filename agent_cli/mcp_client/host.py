"""The host as MCP servers see it: answers to their requests, and storage.

Plain values only, so that a front end can answer without loading the SDK. Every callback may raise
an `AgentCliError`, which counts as a refusal; time limits of calls are suspended while one runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.credentials import Credentials, UserCredentials
from agent_cli.mcp_client.pins import Pins
from agent_cli.system import paths
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A server's request to the user: a form to fill in, or a page to visit.

    Attributes:
        message: The server's question, without hidden characters.
        schema: The form, a flat JSON schema (forms.py reads it); empty for a page.
        url: The URL of the page; "" for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Json] = field(default_factory=dict[str, Json])
    url: str = ""


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """The user's answer; `content` holds the form's values after "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Sampled:
    """A model's reply to a server's sampling request."""

    text: str
    model: str
    stop_reason: str = "endTurn"


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
Sample: TypeAlias = Callable[[SamplingRequest], Awaitable[Sampled]]
Visit: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Takes the user to a URL. Returns the redirect URL if the user pasted it, else None. It is
cancelled as soon as the browser itself has requested the redirect URL."""


async def decline(_elicitation: Elicitation) -> ElicitationAnswer:
    """Decline, because no user is present."""
    return ElicitationAnswer("decline")


def _state_dir() -> Path:
    return paths.state_dir() / "mcp"


def _files_dir() -> Path:
    return _state_dir() / "files"


def _credentials() -> Credentials:
    return UserCredentials(_state_dir() / "credentials")


def _pins() -> Pins:
    return Pins(_state_dir() / "pins.json")


def _forget_switch(_server: str, _on: bool) -> None:
    """Store nothing, so that a switch applies to this session only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host of the servers.

    Attributes:
        elicit: Answers forms and pages; declines unless a user is present.
        sample: Asks a model on behalf of a server; None does not offer sampling.
        roots: Returns the directories we work in, as hints to servers; None offers none.
        visit: Shows a sign-in page; with None, a server that needs a sign-in is reported.
        credentials: The storage of sign-ins.
        files_dir: Returns the folder for audio, documents and other files in results.
        pins: The approved definitions of tools.
        remember_switch: Stores that a server was switched on or off, for later starts.
    """

    elicit: Elicit = decline
    sample: Sample | None = None
    roots: Callable[[], Sequence[Path]] | None = None
    visit: Visit | None = None
    credentials: Credentials = field(default_factory=_credentials)
    files_dir: Callable[[], Path] = _files_dir
    pins: Pins = field(default_factory=_pins)
    remember_switch: Callable[[str, bool], None] = _forget_switch
