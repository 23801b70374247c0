"""What is known of a server before it is started: plain values, variables expanded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent_cli.contracts.options import MCP_CALL_TIMEOUT_S, MCP_STARTUP_TIMEOUT_S

TransportName: TypeAlias = Literal["stdio", "http", "sse"]
Protocol: TypeAlias = Literal["auto", "legacy"]
Grant: TypeAlias = Literal["browser", "client_credentials", "jwt_bearer", "token_exchange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How we sign in to an HTTP server; without anything, as a public client with a browser.

    Attributes:
        grant: "browser": a person signs in; "client_credentials": the program itself does;
            "jwt_bearer": with a token of its workload, from `assertion_file`; "token_exchange":
            with the user's identity token, from `id_token_file`, which the company's identity
            provider at `idp_token_endpoint` exchanges.
        client_key: A private key as PEM text, instead of a secret.
        issuer: Who may get the client's credentials; "" trusts what the server names.
        callback_port: Where the browser comes back to; 0 is any.
        client_metadata_url: A public description of this client, for servers that read one.
    """

    grant: Grant = "browser"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    client_metadata_url: str = ""
    assertion_file: str = ""
    id_token_file: str = ""
    idp_token_endpoint: str = ""
    idp_client_id: str = ""
    idp_client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: how to reach it and how long to wait for it; variables are expanded.

    Attributes:
        name: As the user wrote it; any text.
        env: Added to the server's environment (stdio).
        cwd: Where it is started (stdio); "" is where we are.
        startup_timeout_s: From the start until the tools are listed.
        call_timeout_s: Longest silence during a call; each progress report starts it anew.
        protocol: "auto" asks for the newest revision; "legacy" begins with the old handshake.
            None is legacy for stdio, where many servers choke on the question, and else auto.
        enabled_tools: Patterns ("read_*") of the tools to offer; empty for all.
        disabled_tools: Patterns of the tools to leave out; they win.
        always_load: Its tools are never deferred behind a search.
        source: The file it came from, for messages.
        problem: Why a server that is off could not be started, "" when it could.
    """

    name: str
    transport: TransportName = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    enabled: bool = True
    startup_timeout_s: float = MCP_STARTUP_TIMEOUT_S
    call_timeout_s: float = MCP_CALL_TIMEOUT_S
    protocol: Protocol | None = None
    oauth: OAuth = OAuth()
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    always_load: bool = False
    source: str = ""
    problem: str = ""

    @property
    def negotiation(self) -> Protocol:
        """`protocol` with its default for the transport."""
        return self.protocol or ("legacy" if self.transport == "stdio" else "auto")


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A server that was configured but cannot be used, and what to do about it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What one file says: the usable servers in the file's order, and the others."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()
