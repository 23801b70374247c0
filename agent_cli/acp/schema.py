"""The parameters of incoming requests, validated; unused fields are ignored.

Only incoming messages have models: outgoing ones are built as plain JSON, and the tests validate
every message of both directions with the official library.
"""

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from agent_cli.acp import INVALID_PARAMS, RpcFault
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.timeline import Json

ModelT = TypeVar("ModelT", bound=BaseModel)


class _Incoming(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("the path must be absolute")
    return path


AbsolutePath: TypeAlias = Annotated[str, AfterValidator(_absolute)]


class FileCapabilities(_Incoming):
    """The file requests that the client supports."""

    read_text_file: bool | None = False
    write_text_file: bool | None = False


class ElicitationCapabilities(_Incoming):
    """The kinds of forms the client can show to its user; null means not supported."""

    form: dict[str, Any] | None = None  # Any: only its presence counts
    url: dict[str, Any] | None = None


class ClientCapabilities(_Incoming):
    """The capabilities of the client."""

    fs: FileCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None


class InitializeParams(_Incoming):
    """The handshake. Some clients send a date as the version."""

    protocol_version: int | str = 1
    client_capabilities: ClientCapabilities | None = None


class AuthenticateParams(_Incoming):
    """The way the user chose to sign in."""

    method_id: str


class NameValue(_Incoming):
    """A variable or a header."""

    name: str
    value: str


class StdioServer(_Incoming):
    """An MCP server started as a process."""

    type: Literal["stdio"] = "stdio"
    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[NameValue, ...] = ()


class WebServer(_Incoming):
    """An MCP server with a URL."""

    type: Literal["http", "sse"]
    name: str
    url: str
    headers: tuple[NameValue, ...] = ()


McpServer: TypeAlias = StdioServer | WebServer


class NewSessionParams(_Incoming):
    """A new session in a directory."""

    cwd: AbsolutePath
    mcp_servers: tuple[McpServer, ...] | None = None
    additional_directories: tuple[AbsolutePath, ...] | None = None


class SavedSessionParams(NewSessionParams):
    """A saved session to resume or fork in a directory."""

    session_id: str


class SessionParams(_Incoming):
    """A session by its id."""

    session_id: str


class ListParams(_Incoming):
    """The filter and the cursor of a list of saved sessions."""

    cwd: str | None = None
    cursor: str | None = None


class ModeParams(SessionParams):
    """A permission mode."""

    mode_id: str


class OptionParams(SessionParams):
    """A value of a configuration option."""

    config_id: str
    value: str | bool


class TextBlock(_Incoming):
    """Text that the user typed."""

    type: Literal["text"]
    text: str


class ImageBlock(_Incoming):
    """An image, as base64."""

    type: Literal["image"]
    data: str
    mime_type: str = ""
    uri: str | None = None


class LinkBlock(_Incoming):
    """A file or page that the user mentioned."""

    type: Literal["resource_link"]
    uri: str
    name: str = ""


class ResourceContents(_Incoming):
    """The contents of a resource: `text`, or `blob` as base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(_Incoming):
    """A resource with its contents."""

    type: Literal["resource"]
    resource: ResourceContents


class AudioBlock(_Incoming):
    """Audio, which no supported model accepts."""

    type: Literal["audio"]


PromptBlock: TypeAlias = Annotated[
    TextBlock | ImageBlock | LinkBlock | ResourceBlock | AudioBlock, Field(discriminator="type")
]


class PromptParams(SessionParams):
    """The user's prompt, and the trace it is part of."""

    prompt: tuple[PromptBlock, ...]
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")  # Any: defined by the client

    @property
    def trace(self) -> dict[str, str]:
        """The W3C trace context in `_meta`, by header name."""
        meta = self.meta or {}
        names = ("traceparent", "tracestate")
        return {name: meta[name] for name in names if isinstance(meta.get(name), str)}


def checked(model: type[ModelT], params: dict[str, Json]) -> ModelT:
    """Return *params* validated as *model*.

    Raises:
        RpcFault: They are invalid; names the first fault.
    """
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise RpcFault(INVALID_PARAMS, fault_line(error, whole="params")) from error
