"""The configuration of a server: plain values, and the expansion of the variables in them."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.options import MCP_CALL_TIMEOUT_S, MCP_STARTUP_TIMEOUT_S
from agent_cli.system.paths import expanded, is_file
from agent_cli.system.records import dataclass, field

TransportName: TypeAlias = Literal["stdio", "http", "sse"]
Protocol: TypeAlias = Literal["auto", "legacy"]
Grant: TypeAlias = Literal["browser", "client_credentials", "jwt_bearer", "token_exchange"]


def _no_objection(_host: str, _port: int) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """The sign-in to an HTTP server; by default as a public client with a browser.

    Attributes:
        grant: "browser": a person signs in; "client_credentials": the program itself does;
            "jwt_bearer": with a token of its workload, from `assertion_file`; "token_exchange":
            with the user's identity token, from `id_token_file`, which the company's identity
            provider at `idp_token_endpoint` exchanges.
        client_key: A private key as PEM text, instead of a secret.
        issuer: The authorization server that may get the client's credentials, and that a browser
            is sent to; "" trusts the server's choice.
        callback_port: The port for the browser's redirect; 0 is any.
        resource: The resource that tokens are asked for; None for the one that the server names, ""
            for a request that names none.
        client_metadata_url: A public description of this client, for servers that read one.
    """

    grant: Grant = "browser"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    resource: str | None = None
    client_metadata_url: str = ""
    assertion_file: str = ""
    id_token_file: str = ""
    idp_token_endpoint: str = ""
    idp_client_id: str = ""
    idp_client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: its address or command, and its limits; variables are expanded.

    Attributes:
        name: As the user wrote it; any text.
        env: Added to the server's environment (stdio).
        cwd: Its working directory, or that of its `headers_helper`; "" is ours.
        headers_helper: A shell command that prints more headers as a JSON object, run at each
            connection (http and sse); variables are left to the shell.
        startup_timeout_s: From the start until the tools are listed.
        call_timeout_s: Longest silence during a call; each progress report restarts it.
        protocol: "auto" asks for the newest revision; "legacy" begins with the old handshake.
            None is legacy for stdio, where many servers choke on the question, and else auto.
        enabled_tools: Patterns ("read_*") of the tools to offer; empty for all.
        disabled_tools: Patterns of the tools to leave out; they win.
        always_load: Its tools are never deferred behind a search.
        required: A run that no person watches must not begin without it.
        source: The file that defines it, for messages.
        problem: Why a switched-off server could not be started, or "".
        objection: Returns why its command must not be started any more, or "".
        host_objection: Returns why nothing may be sent to a host's name at a port, or "".
    """

    name: str
    transport: TransportName = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    headers_helper: str = ""
    enabled: bool = True
    startup_timeout_s: float = MCP_STARTUP_TIMEOUT_S
    call_timeout_s: float = MCP_CALL_TIMEOUT_S
    protocol: Protocol | None = None
    oauth: OAuth = OAuth()
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    always_load: bool = False
    required: bool = False
    source: str = ""
    problem: str = ""
    objection: Callable[[], str] = field(default=str, repr=False, compare=False)
    host_objection: Callable[[str, int], str] = field(
        default=_no_objection, repr=False, compare=False
    )

    @property
    def negotiation(self) -> Protocol:
        """`protocol` with its default for the transport."""
        return self.protocol or ("legacy" if self.transport == "stdio" else "auto")

    @property
    def no_command(self) -> str:
        """The sentence for the user if the program does not exist, or cannot be run."""
        if "/" in self.command and is_file(expanded(self.cwd) / self.command):
            way = 'run `chmod +x` on it, or write what runs it there, and the file in "args"'
            return f"the command '{self.command}' is not executable; {way}"
        is_line = " " in self.command and not self.args
        way = 'write only its first word there, and the others as "args"'
        way = way if is_line else "install it or give its path"
        return f"the command '{self.command}' was not found; {way}"

    def missing(self, environment: Mapping[str, str], folder: Path) -> Sequence[str]:
        """Return `no_command` if the program is not found now, as at a start in *folder*.

        A command with a slash is relative to the working directory; others are found along PATH.
        """
        command, path = self.command, {**environment, **self.env}.get("PATH", os.defpath)
        if "/" in command:
            command = str(folder / expanded(self.cwd) / command)
        return [self.no_command] if command and shutil.which(command, path=path) is None else []


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A configured server that cannot be used, and the remedy; `host` if a rule denies that."""

    name: str
    reason: str
    required: bool = False
    host: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The servers of one file: usable servers in order, and servers with a problem."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, section 5.6.2: a token."""


def is_header(name: str, value: str) -> bool:
    """Return whether HTTP can send the header, without a character that it forbids."""
    printable = value.replace("\t", " ").isprintable() and value.isascii()
    return printable and _HEADER.fullmatch(name) is not None


def web_address(key: str, url: str) -> str:
    """Return *url* if Python can take it apart; whether it leads anywhere is found out later.

    Raises:
        SettingsError: It cannot; the message does not quote it, since it may hold a password.
    """
    try:
        _port = urlsplit(url).port  # not every number is one
    except ValueError:
        raise SettingsError(
            f'"{key}" is not a web address; write it like https://example.com/mcp'
        ) from None
    return url


# VS Code and others write ${env:NAME}.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-|(?=\}))")
_INPUT = re.compile(r"\$\{input:([^}]{1,100})\}")
_BRACE = re.compile(r"\$\{|\}")
_NESTED_MAX = 50


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expands `${VAR}` and `${VAR:-default}`; the default also replaces an empty value.

    Variables within a default, as in `${DIR:-${HOME}/dir}`, are expanded too.
    """

    environment: Mapping[str, str]

    def of(self, key: str, text: str) -> str:
        """Return *text* expanded; *key* names it in errors.

        Raises:
            SettingsError: A variable is not set and has no default, too many are nested, or VS Code
                would ask for it.
        """
        if asked := _INPUT.search(text):
            name = re.sub(r"\W", "_", asked[1]).upper()
            raise SettingsError(
                f'"{key}" uses {asked[0]}, which only VS Code asks for; write ${{{name}}} in its'
                " place, and set that variable"
            )
        ends = _ends(key, text)
        parts, at = list[str](), 0
        for found in _VARIABLE.finditer(text):
            begin = found.start()
            if begin < at or begin not in ends:
                continue  # in the default of the one before, or without an end
            default = text[found.end() : ends[begin]] if found[2] else None
            parts += (text[at:begin], self._value(key, found[1], default))
            at = ends[begin] + 1
        return "".join((*parts, text[at:]))

    def _value(self, key: str, variable: str, default: str | None) -> str:
        known = self.environment.get(variable)
        if known is None and default is None:
            raise SettingsError(
                f'"{key}" uses ${{{variable}}}, which is not set; '
                f"set it or write ${{{variable}:-default}}"
            )
        return known or self.of(key, default or "")


def _ends(key: str, text: str) -> Mapping[int, int]:
    """Return where each `${` of *text* ends, by where it begins; none for one without an end."""
    opened, ends = list[int](), dict[int, int]()
    for brace in _BRACE.finditer(text):
        if brace[0] != "}":
            opened.append(brace.start())
        elif opened:
            if len(opened) > _NESTED_MAX:
                raise SettingsError(f'"{key}" nests more than {_NESTED_MAX} variables')
            ends[opened.pop()] = brace.start()
    return ends
