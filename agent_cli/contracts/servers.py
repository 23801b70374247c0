"""MCP servers as every layer sees them: state, offers, questions, and the names of their tools."""

import json
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.wording import counted
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.contracts.tooling import Tool

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]


class ServerPhase(StrEnum):
    """The phase of a server's life.

    disabled
    misconfigured                                      its entry cannot be used
    connecting -> ready -> lost -> connecting ...      at most three restarts in a row
    connecting | lost -> failed
    any -> closed
    """

    DISABLED = "disabled"
    MISCONFIGURED = "misconfigured"
    CONNECTING = "connecting"
    READY = "ready"
    LOST = "lost"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server at one moment.

    Attributes:
        reason: For `lost` and `failed`, a sentence for the user; it quotes standard error. For
            `ready`, why the last request was not sent, or "".
        tools: Number of tools it offers.
        notes: One sentence for each item left out (e.g. a tool with an invalid schema).
        restarts: Restarts since it last ran stably.
        tokens: Estimated tokens its tools add to every request (bytes / 4).
        needs_sign_in: It failed, or its calls fail, because the user has to sign in.
        changed: Tools withheld because they changed since they were approved.
        stderr: The last lines of its standard error when it last ended, made printable.
        last_end: The reason it last ended, or ""; unlike `reason`, it survives a restart.
        hung: It is `lost` since it no longer answered, and was ended for that.
    """

    name: str
    phase: ServerPhase
    reason: str = ""
    tools: int = 0
    notes: tuple[str, ...] = ()
    restarts: int = 0
    tokens: int = 0
    needs_sign_in: bool = False
    changed: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    last_end: str = ""
    hung: bool = False

    @property
    def offer(self) -> str:
        """The number of its tools and their tokens, in words."""
        return f"{counted(self.tools, 'tool')}, about {counted(self.tokens, 'token')}"

    @property
    def cause(self) -> str:
        """`reason` without its subject, for a place that names the server."""
        return self.reason.removeprefix(f"MCP server '{self.name}' ")

    @property
    def unquoted(self) -> tuple[str, ...]:
        """`stderr`, unless `reason` repeats it."""
        return () if all(line in self.reason for line in self.stderr) else self.stderr


class ServerStates(Protocol):
    """The states of a program's MCP servers, for all front ends."""

    def states(self) -> Sequence[ServerState]:
        """Return the state of every server."""
        ...


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPrompt:
    """A prompt a user can call by name; `command` is what to type after the slash."""

    server: str
    name: str
    command: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResource:
    """A resource that prompts refer to as `@server:uri`; a template has `{names}` in its uri."""

    server: str
    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form; its texts come from the server and are untrusted.

    Attributes:
        name: The key of its value.
        label: The text a person sees.
        kind: "choice" is one of `options`, "choices" any number of them.
        default: The value used unless another is given, or None.
        options: (value, text to show) of a choice.
        format: "email", "uri", "date" or "date-time"; "" for other texts.
    """

    name: str
    label: str
    kind: FieldKind
    description: str = ""
    required: bool = False
    default: Json = None
    options: tuple[tuple[str, str], ...] = ()
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A server's request for a model's reply, at the user's expense; its texts are untrusted.

    Attributes:
        messages: (role, content blocks) in order.
        max_tokens: The longest reply the server asks for.
    """

    server: str
    messages: tuple[tuple[Literal["user", "assistant"], tuple[Block, ...]], ...]
    system_prompt: str = ""
    max_tokens: int = 1024
    temperature: float | None = None


LIST_TOOL: Final = "list_mcp_resources"
READ_TOOL: Final = "read_mcp_resource"
"""The tools of ours with which the model reads the resources of all servers."""

_LONGEST = 64
_INVALID = late_pattern(r"[^A-Za-z0-9_-]")


def public_name(server: str, tool: str) -> str:
    """Return `mcp__<server>__<tool>`, at most 64 characters of `[A-Za-z0-9_-]`.

    The name depends on these two strings alone, so a server that connects later never changes it
    (prompt caches depend on that). A name that had to be changed, or is ambiguous, ends in eight
    digits of a hash. It cannot be split into server and tool again: keep the two strings.

    Source: Messages API, tool name `^[a-zA-Z0-9_-]{1,64}$`; MCP allows 128 characters and dots.
    """
    name = f"{OF_SERVERS}{_INVALID.sub('_', server)}__{_INVALID.sub('_', tool)}"
    exact = name == f"{OF_SERVERS}{server}__{tool}" and len(name) <= _LONGEST
    # "a__b" + "c" and "a" + "b__c" would give one name; so would "a_" + "b" and "a" + "_b".
    if exact and "__" not in server and server[-1:] not in ("", "_"):
        return name
    digest = sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: _LONGEST - 9]}_{digest}"


def server_name(server: str) -> str:
    """Return `mcp__<server>`, which stands for all tools of *server*."""
    return f"{OF_SERVERS}{_INVALID.sub('_', server)}"


def is_of_server(name: str, server: str) -> bool:
    """Return whether the public *name* may belong to a tool of *server*.

    True also for the tools of a server whose name begins with *server* and `__`.
    """
    prefix = f"{server_name(server)}__"
    is_cut = len(name) == _LONGEST and prefix.startswith(name[: _LONGEST - 9])
    return name.startswith(prefix) or is_cut


def tool_tokens(tool: "Tool") -> int:
    """Return about how many tokens a tool's definition takes, at four bytes each."""
    spec = tool.spec
    schema = json.dumps(spec.input_schema, ensure_ascii=False)
    return len(f"{spec.name}{spec.description}{schema}".encode(errors="replace")) // 4
