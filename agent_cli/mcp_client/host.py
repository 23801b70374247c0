"""The host as MCP servers see it: answers to their requests, storage, and the approved tools.

Plain values only, so that a front end can answer without loading the SDK. Every callback may raise
an `AgentCliError`, which counts as a refusal; time limits of calls are suspended while one runs.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Reply, ReplyEnd, StreamFn
from agent_cli.contracts.servers import SamplingRequest, public_name
from agent_cli.contracts.timeline import Json, text_of
from agent_cli.mcp_client.credentials import Credentials, UserCredentials
from agent_cli.mcp_client.stored_files import PrivateTable
from agent_cli.system import paths
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ServerConfig

READS_ONLY = "\nIt says that it only reads: it runs unasked.\n"
"""The end of the definition of a tool marked read-only."""

_READING = " only reads"


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


class Pins:
    """A private table: server → tool → the approved definition, to notice a later change.

    A server can pass every check with a harmless tool and change it later. A tool is pinned at its
    first call, together with the server's instructions. A read-only mark is only its author's
    claim: such a tool runs without approval once a person has approved it.
    """

    def __init__(self, path: Path) -> None:
        self._table = PrivateTable(path, remedy="delete it, then approve all tools again")

    def pin(self, config: "ServerConfig", approved: Mapping[str, str]) -> None:
        """Store *approved*, tool → definition; thread-safe.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        self._table.update(_identity(config), approved)

    def vouch(self, config: "ServerConfig", tool: str, definition: str) -> None:
        """Store that a person approved *tool*, which is marked read-only; as `pin()`."""
        self._table.update(_identity(config) + _READING, {tool: definition})

    def vouched(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the definition with which a person approved it as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config) + _READING)

    def reads_unasked(self, config: "ServerConfig", name: str) -> bool:
        """Return whether a person approved the tool with this public *name* as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return any(
            definition.endswith(READS_ONLY) and public_name(config.name, tool) == name
            for tool, definition in self.vouched(config).items()
        )

    def of_server(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the approved definition.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config))


def _identity(config: "ServerConfig") -> str:
    """Return the server's name with a hash of its configuration, to tell programs apart."""
    what = json.dumps([config.transport, config.command, config.args, config.url])
    return f"{config.name} {sha256(what.encode(errors='surrogatepass')).hexdigest()[:16]}"


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


Allow: TypeAlias = Callable[[SamplingRequest], Awaitable[bool]]
MAX_TOKENS = 4096
_REASONS = {"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


def sampling(
    stream: StreamFn,
    *,
    model: Callable[[], Model],
    allow: Allow,
    check_budget: Callable[[], None],
) -> Sample:
    """Return a function that answers sampling requests.

    Args:
        stream: Asks the model, and counts what that costs.
        model: The model to ask; the server's preference is ignored.
        allow: Shows the request to the user; False refuses it. Raises `ToolError` if there is none.
        check_budget: Raises `LimitReached` when the budget is used up.
    """

    async def sample(request: SamplingRequest) -> Sampled:
        check_budget()
        if not await allow(request):
            raise ToolError("the user did not let the server ask the model")
        # Other calls may have used up the budget while the user was reading.
        check_budget()
        reply = await _ask(stream, _request(request, model()))
        reason = _REASONS.get(reply.stop_reason, reply.stop_reason)
        return Sampled(text_of(reply.content), reply.model, reason)

    return sample


def _request(request: SamplingRequest, model: Model) -> ModelRequest:
    messages: list[LlmMessage] = [
        UserMessage(content) if role == "user" else AssistantMessage(content)
        for role, content in request.messages
    ]
    return ModelRequest(
        model=model,
        messages=tuple(messages),
        system=(request.system_prompt,) if request.system_prompt else (),
        max_tokens=min(request.max_tokens, MAX_TOKENS, model.max_output_tokens),
        # Current models think, and thinking models reject a temperature.
        thinking_level=None,
    )


async def _ask(stream: StreamFn, request: ModelRequest) -> Reply:
    async for event in stream(request):
        if isinstance(event, ReplyEnd):
            return event.reply
    raise ModelError("the reply for an MCP server ended too early")
