"""What this program is to its servers: who answers their questions, and where things are kept.

Plain values only, so that a front end can answer without loading the SDK. Every callback may raise
an `AgentCliError`, which counts as a refusal; while one runs, no time limit of a call does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.credentials import Credentials, UserCredentials
from agent_cli.mcp_client.pins import Pins
from agent_cli.system import paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A server's question to the user: a form to fill in, or an address to visit.

    Attributes:
        message: What the server wants to know, without hidden characters.
        schema: The form, a flat JSON schema (forms.py reads it); empty for an address.
        url: The address; "" for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Json] = field(default_factory=dict[str, Json])
    url: str = ""


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What the user said; `content` holds the form's values after "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Sampled:
    """A model's reply for a server."""

    text: str
    model: str
    stop_reason: str = "endTurn"


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
Sample: TypeAlias = Callable[[SamplingRequest], Awaitable[Sampled]]
Visit: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Take the user to an address. Returns the address the browser ended at when the user pasted it,
or None when the browser comes back to us by itself. Cancelled when it did."""


async def decline(_elicitation: Elicitation) -> ElicitationAnswer:
    """Answer for a user who is not there."""
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
    """Let it hold for this session only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The program as its servers see it.

    Attributes:
        elicit: Answers forms and addresses; declines unless somebody is there.
        sample: Asks a model for a server; None does not offer it.
        roots: The directories we work in; servers may confine themselves to them. None tells none.
        visit: Shows a sign-in page; None never does, and a server that wants one is reported.
        credentials: Where sign-ins are kept.
        files_dir: Returns where sound, documents and other files of results are put.
        pins: What approved tools looked like.
        remember_switch: Keeps that a server was switched on or off, for later starts.
    """

    elicit: Elicit = decline
    sample: Sample | None = None
    roots: Callable[[], Sequence[Path]] | None = None
    visit: Visit | None = None
    credentials: Credentials = field(default_factory=_credentials)
    files_dir: Callable[[], Path] = _files_dir
    pins: Pins = field(default_factory=_pins)
    remember_switch: Callable[[str, bool], None] = _forget_switch
