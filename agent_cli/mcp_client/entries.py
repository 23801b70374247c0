"""Parse server entries from `.mcp.json` in Claude Code's format and from our own settings.

An unusable server becomes a `ServerProblem` and leaves the others alone; only a file that cannot
be parsed at all is an error. Variables come from a mapping, never from the process environment.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.input_faults import first_fault
from agent_cli.contracts.options import MCP_CALL_TIMEOUT_S, MCP_STARTUP_TIMEOUT_S
from agent_cli.mcp_client.config import (
    ConfigFile,
    Expansion,
    Grant,
    OAuth,
    Protocol,
    ServerConfig,
    ServerProblem,
    TransportName,
    is_header,
    web_address,
)
from agent_cli.system.config_text import TooLong, config_text
from agent_cli.system.json_text import load_commented, not_json
from agent_cli.system.paths import expanded
from agent_cli.system.shapes import is_array, is_object

_SHORTEST_TIMEOUT_MS = 1000
_LONGEST_TIMEOUT_S = 10**9
# These grants also need the issuer: the MCP server must not choose who gets the assertion.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "jwt_bearer": ("assertion_file",),
    "token_exchange": ("id_token_file", "idp_token_endpoint", "idp_client_id"),
}


_STREAMABLE_HTTP: Final = ("streamable-http", "streamableHttp", "streamable_http", "remote")
_WEB_SOCKET: Final = ("ws", "wss", "websocket")
_NO_WEB_SOCKET: Final = (
    "servers over WebSocket cannot be used: MCP has no such transport; ask its author for"
    ' the address of streamable HTTP, and write "type": "http"'
)


def _transport_alias(raw: object) -> object:
    """Accept the names of transports that other programs use.

    Raises:
        SettingsError: It is WebSocket.
    """
    if raw in _WEB_SOCKET:
        raise SettingsError(_NO_WEB_SOCKET)
    if raw == "local":
        return "stdio"
    return "http" if raw in _STREAMABLE_HTTP else raw


def _words(raw: object) -> object:
    """Accept a list written as one string with spaces, as OAuth writes scopes."""
    return raw.split() if isinstance(raw, str) else raw


def _text(raw: object) -> object:
    """Accept a number or boolean for a string, since users write ports and flags without quotes."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw) if isinstance(raw, int | float) else raw


def _texts(raw: object) -> object:
    """Accept null for an empty table, and numbers and booleans for strings."""
    if raw is None:
        return {}
    if is_object(raw):
        return {name: _text(value) for name, value in raw.items() if value is not None}
    return raw


def _listed(raw: object) -> object:
    if raw is None:
        return ()
    return [_text(each) for each in raw] if is_array(raw) else raw


class _OAuthEntry(BaseModel):
    """The OAuth part of an entry, with Claude Code's key names and ours."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    grant: Grant = "browser"
    client_id: str = Field(default="", alias="clientId")
    client_secret: str = Field(default="", alias="clientSecret")
    client_key_file: str = Field(default="", alias="clientKeyFile")
    issuer: str = ""
    scopes: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    callback_port: int = Field(default=0, alias="callbackPort", ge=0, le=65535)
    resource: str | None = None
    client_metadata_url: str = Field(default="", alias="clientMetadataUrl")
    assertion_file: str = Field(default="", alias="assertionFile")
    id_token_file: str = Field(default="", alias="idTokenFile")
    idp_token_endpoint: str = Field(default="", alias="idpTokenEndpoint")
    idp_client_id: str = Field(default="", alias="idpClientId")
    idp_client_secret: str = Field(default="", alias="idpClientSecret")


class _Entry(BaseModel):
    """An entry as the user wrote it; keys of other programs are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    transport: Annotated[TransportName | None, BeforeValidator(_transport_alias)] = Field(
        default=None, alias="type"
    )
    command: str = ""
    args: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    env: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    cwd: str = ""
    url: str = Field(default="", validation_alias=AliasChoices("url", "httpUrl", "serverUrl"))
    headers: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    headers_helper: str = Field(
        default="", validation_alias=AliasChoices("headersHelper", "headers_helper")
    )
    enabled: bool = True
    disabled: bool = False
    timeout_ms: int = Field(default=0, alias="timeout", le=_LONGEST_TIMEOUT_S * 1000)
    startup_timeout_s: float | None = Field(default=None, gt=0, le=_LONGEST_TIMEOUT_S)
    call_timeout_s: float | None = Field(default=None, gt=0, le=_LONGEST_TIMEOUT_S)
    protocol: Protocol | None = None
    oauth: _OAuthEntry = Field(default_factory=_OAuthEntry)
    enabled_tools: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("enabled_tools", "includeTools")
    )
    disabled_tools: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("disabled_tools", "excludeTools")
    )
    always_load: bool = Field(default=False, alias="alwaysLoad")
    required: bool = False


def read_config_file(
    path: Path,
    environment: Mapping[str, str],
    *,
    startup_timeout_s: float = MCP_STARTUP_TIMEOUT_S,
    call_timeout_s: float = MCP_CALL_TIMEOUT_S,
) -> ConfigFile:
    """Read a `.mcp.json`: `{"mcpServers": {name: {command, args, env, type, url, headers}}}`.

    Args:
        path: The file; a missing file has no servers.
        environment: Values for `${VAR}` and `${VAR:-default}`.
        startup_timeout_s: For entries that set none.
        call_timeout_s: For entries that set none.

    Raises:
        SettingsError: The file cannot be read, is not JSON, or has no object of servers.
    """
    servers: list[ServerConfig] = []
    problems: list[ServerProblem] = []
    for name, entry in _entries(path).items():
        found = server_config(
            name,
            entry,
            environment,
            source=str(path),
            startup_timeout_s=startup_timeout_s,
            call_timeout_s=call_timeout_s,
        )
        if isinstance(found, ServerConfig):
            servers.append(found)
        else:
            problems.append(found)
    return ConfigFile(tuple(servers), tuple(problems))


def _entries(path: Path) -> dict[str, object]:
    try:
        content = load_commented(config_text(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 at byte {error.start}; correct it") from error
    except TooLong as error:
        raise SettingsError(f"{path} has {error}; move it away") from error
    except json.JSONDecodeError as error:
        raise SettingsError(f"{not_json(path, error)}; correct it") from error
    except RecursionError as error:
        raise SettingsError(f"{path} is nested too deeply; correct it") from error
    except ValueError as error:  # Python converts at most 4,300 digits
        raise SettingsError(f"{path} holds a number that is too long; correct it") from error
    entries = content.get("mcpServers", None if content else {}) if is_object(content) else None
    if not is_object(entries):
        raise SettingsError(f'{path} must hold {{"mcpServers": {{name: {{...}}, ...}}}}')
    return entries


def server_config(
    name: str,
    entry: object,
    environment: Mapping[str, str],
    *,
    source: str = "",
    startup_timeout_s: float = MCP_STARTUP_TIMEOUT_S,
    call_timeout_s: float = MCP_CALL_TIMEOUT_S,
) -> ServerConfig | ServerProblem:
    """Return the server that *entry* describes, or why it cannot be used."""
    required = is_object(entry) and entry.get("required") is True
    try:
        if not is_object(entry):
            raise SettingsError("a server is an object, {...}")
        fields = _Entry.model_validate(entry)
        text = Expansion(environment)
        transport = _transport(fields)
        server = ServerConfig(
            name=name,
            transport=transport,
            command=text.of("command", fields.command),
            args=tuple(text.of("args", argument) for argument in fields.args),
            env={key: text.of(f"env.{key}", value) for key, value in fields.env.items()},
            cwd=text.of("cwd", fields.cwd),
            url=web_address("url", text.of("url", fields.url)),
            headers=_headers(fields.headers, text),
            headers_helper=fields.headers_helper,
            enabled=fields.enabled and not fields.disabled,
            startup_timeout_s=fields.startup_timeout_s or startup_timeout_s,
            call_timeout_s=fields.call_timeout_s or _seconds(fields.timeout_ms) or call_timeout_s,
            protocol=fields.protocol,
            oauth=_oauth(fields.oauth, text),
            enabled_tools=fields.enabled_tools,
            disabled_tools=fields.disabled_tools,
            always_load=fields.always_load,
            required=fields.required,
            source=source,
        )
    except ValidationError as error:
        return ServerProblem(name, f"{_entry_name(source, name)}: {_first_fault(error)}", required)
    except SettingsError as error:
        reason = f"{_entry_name(source, name)}: {error}"
        if is_object(entry) and (entry.get("disabled") or entry.get("enabled") is False):
            # A disabled server may lack its variables until the user enables it.
            return ServerConfig(
                name=name, enabled=False, required=required, source=source, problem=reason
            )
        return ServerProblem(name, reason, required)
    return server


def _headers(written: Mapping[str, str], text: Expansion) -> Mapping[str, str]:
    # A secret read from a file often has a line break behind it; its text is never quoted.
    headers = {name: text.of(f"headers.{name}", each).strip() for name, each in written.items()}
    for name, value in headers.items():
        if not is_header(name, value):
            raise SettingsError(
                f'"headers.{name}" is no header of HTTP: its name has no space, ":" or other'
                " separator, and its text is one line of ASCII"
            )
    return headers


def _transport(entry: _Entry) -> TransportName:
    transport = entry.transport or ("http" if entry.url and not entry.command else "stdio")
    if transport == "stdio" and not entry.command:
        raise SettingsError(
            '"command" is missing, the program that is the server, or "url", its address'
        )
    if entry.headers_helper and transport == "stdio":
        raise SettingsError('"headersHelper" makes headers, which only a server with a "url" gets')
    if transport != "stdio" and entry.url.partition("://")[0].lower() in _WEB_SOCKET:
        raise SettingsError(_NO_WEB_SOCKET)
    if transport != "stdio" and not entry.url:
        raise SettingsError(f'"url" is missing, which a server of type "{transport}" needs')
    return transport


def _oauth(fields: _OAuthEntry, text: Expansion) -> OAuth:
    key_file = text.of("oauth.client_key_file", fields.client_key_file)
    for name in ("client_id", "issuer", *_NEEDED.get(fields.grant, ())):
        if fields.grant in _NEEDED and not getattr(fields, name):
            raise SettingsError(f'"oauth.{name}" is missing, which "{fields.grant}" needs')
    return OAuth(
        grant=fields.grant,
        client_id=text.of("oauth.client_id", fields.client_id),
        client_secret=text.of("oauth.client_secret", fields.client_secret),
        client_key=read_key(Path(key_file)) if key_file else "",
        issuer=web_address("oauth.issuer", fields.issuer),
        scopes=fields.scopes,
        callback_port=fields.callback_port,
        resource=fields.resource and text.of("oauth.resource", fields.resource),
        client_metadata_url=fields.client_metadata_url,
        assertion_file=text.of("oauth.assertion_file", fields.assertion_file),
        id_token_file=text.of("oauth.id_token_file", fields.id_token_file),
        idp_token_endpoint=web_address("oauth.idp_token_endpoint", fields.idp_token_endpoint),
        idp_client_id=text.of("oauth.idp_client_id", fields.idp_client_id),
        idp_client_secret=text.of("oauth.idp_client_secret", fields.idp_client_secret),
    )


def read_key(path: Path) -> str:
    """Return the text of a private key.

    Raises:
        SettingsError: The file cannot be read.
    """
    try:
        return expanded(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the client's key {path} cannot be read: {error}") from error


def _seconds(timeout_ms: int) -> float | None:
    # A shorter timeout was probably meant in seconds; Claude Code ignores those as well.
    return timeout_ms / 1000 if timeout_ms >= _SHORTEST_TIMEOUT_MS else None


def _entry_name(source: str, name: str) -> str:
    return f"{source}: mcpServers.{name}" if source else f"MCP server '{name}'"


def _first_fault(error: ValidationError) -> str:
    where, fault = first_fault(error)
    return f'"{where}" {fault}'
