"""The current tools, prompts and resources of one server: wrapped and approved.

`listing` keeps them up to date.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import mcp_types

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.servers import ServerPrompt, ServerResource, public_name, tool_tokens
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, ToolSpec
from agent_cli.contracts.wording import UNVOUCHED, one_line, printable
from agent_cli.mcp_client.calls import Server, call_tool
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.host import READS_ONLY
from agent_cli.mcp_client.mended_messages import OUTPUT_SCHEMA
from agent_cli.mcp_client.schemas import UnusableSchema, api_schema, description
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass, field

INSTRUCTIONS = "server instructions"
"""The key of the instructions among the tools, in pins and in reported changes."""
_INSTRUCTIONS_MAX = 2048
_SHOWN_WHOLE_CHARS_MAX = 4096
_LABEL_MAX = 60
_SUMMARY_MAX = 80
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A server's tools as tools of the agent, and the tools left out or withheld.

    Attributes:
        absent: Public name → a sentence, for each tool left out or withheld.
        changed: The tools withheld since they changed after approval, with diffs.
    """

    tools: tuple[Tool, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    changed: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def tokens(self) -> int:
        """The tokens that the tools add to every request, estimated."""
        return sum(map(tool_tokens, self.tools))

    def without(self, refused: Mapping[str, str]) -> "Wrapped":
        """Return it without tools that the model's API refuses: public name → its reason."""
        absent = {
            name: f"tool {name} is left out: the model's API refuses it: {reason}"
            for name, reason in refused.items()
        }
        kept = tuple(tool for tool in self.tools if tool.name not in refused)
        return replace(self, tools=kept, absent={**self.absent, **absent})


def wrap_tools(offering: "Offering", tools: Iterable[mcp_types.Tool]) -> Wrapped:
    """Wrap the *tools* that are enabled, usable and unchanged since their approval.

    Raises:
        SettingsError: The pins cannot be read.
    """
    server = offering.server
    approved = server.host.pins.of_server(server.config)
    wrapped: list[Tool] = []
    absent: dict[str, str] = {}
    changed: dict[str, str] = {}
    for tool in tools:
        if not _is_enabled(server.config, tool.name):
            continue
        name = public_name(server.config.name, tool.name)
        try:
            ours = wrap_tool(offering, tool)
        except UnusableSchema as error:
            absent[name] = f"tool {tool.name} is left out: {error}"
            continue
        except Exception as error:
            _log.exception("mcp tool not usable", server=server.config.name)
            reason = f"{type(error).__name__}: {error}"
            absent[name] = f"tool {tool.name} is left out: it cannot be used ({reason})"
            continue
        now = definition(tool, ours)
        if approved.get(tool.name, now) == now:
            wrapped.append(ours)
        else:
            changed[tool.name] = _difference(tool.name, approved[tool.name], now)
            absent[name] = f"tool {tool.name} is withheld: it changed since it was approved"
    return Wrapped(tuple(wrapped), absent, changed)


def definition(tool: mcp_types.Tool, ours: Tool) -> str:
    """Return the pinned definition of a tool, as text for comparison.

    It has everything that the model reads, and whether the tool may run without approval.
    """
    spec = ours.spec
    description = tool.description
    if not description or len(description) > _SHOWN_WHOLE_CHARS_MAX:
        # Pin only the part that the model reads: a change in a megabyte could not be reviewed.
        description = spec.description
    schema = json.dumps(spec.input_schema, indent=2, sort_keys=True)
    unasked = "" if ours.changes else READS_ONLY
    return f"{tool.name}\n\n{description}\n\n{schema}\n{unasked}"


def _is_enabled(config: ServerConfig, tool: str) -> bool:
    if any(fnmatchcase(tool, pattern) for pattern in config.disabled_tools):
        return False
    patterns = config.enabled_tools
    return not patterns or any(fnmatchcase(tool, pattern) for pattern in patterns)


def wrap_tool(offering: "Offering", tool: mcp_types.Tool) -> Tool:
    """Return *tool* as a tool of the agent.

    Raises:
        UnusableSchema: The API would refuse its input schema.
    """
    server = offering.server
    hints = tool.annotations or mcp_types.ToolAnnotations()
    title = tool.title or hints.title or tool.name
    output_schema = (tool.meta or {}).get(OUTPUT_SCHEMA)
    as_task = tool.execution is not None and tool.execution.task_support == "required"
    accepted = api_schema(tool.input_schema)

    async def execute(
        _tool_call_id: str, params: dict[str, Json], cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        await offering.approve(tool, by_person=on_update.is_approved)
        async with cancel.scope():
            return await call_tool(
                server,
                tool.name,
                accepted.theirs(params),
                on_update,
                output_schema=output_schema,
                as_task=as_task,
            )

    return Tool(
        name=public_name(server.config.name, tool.name),
        label=printable(f"{server.config.name}: {title}")[:_LABEL_MAX],
        description=description(tool.description or title),
        parameters=accepted.schema,
        execute=execute,
        # A tool without hints may change anything; a destructive one is never "read only".
        changes=not hints.read_only_hint or bool(hints.destructive_hint),
        destroys=bool(hints.destructive_hint),
        doubt=lambda _params: "" if offering.is_vouched(tool) else UNVOUCHED,
        # A call that reports progress may take longer than any fixed time: calls.py limits its
        # silence to the server's `call_timeout_s` instead.
        timeout_s=0,
        summary=_summary,
    )


def _summary(params: dict[str, Json]) -> str:
    return one_line(json.dumps(params, ensure_ascii=False), _SUMMARY_MAX) if params else ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The prompts and resources of one server, as last listed."""

    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()


class Offering:
    """A server's tools, prompts and resources as last listed; they outlive the connection.

    Attributes:
        server: The connection over which its tools are called.
        wrapped: The server's tools as tools of the agent.
        has_resources: Whether the server declares that it has resources.
    """

    def __init__(self, server: Server) -> None:
        self.wrapped = Wrapped()
        self.catalogue = Catalogue()
        self.has_resources = False
        self.server = server
        self._instructions = ""
        self._withheld: Mapping[str, str] = {}
        self._refused: dict[str, tuple[ToolSpec, str]] = {}
        self._listed: tuple[mcp_types.Tool, ...] = ()
        self._pinned: set[str] = set()
        self._vouched: dict[str, str] = {}

    @property
    def instructions(self) -> str:
        """The server's instructions for the model, at most 2 KB; "" while withheld."""
        return "" if self._withheld else self._instructions

    @property
    def names(self) -> frozenset[str]:
        """The public names of all listed tools, including tools that are left out."""
        server = self.server.config.name
        return frozenset(public_name(server, tool.name) for tool in self._listed)

    @property
    def changed(self) -> Mapping[str, str]:
        """The tools and instructions withheld since they changed after approval, with diffs."""
        return {**self.wrapped.changed, **self._withheld}

    def hear(self, instructions: str) -> None:
        """Replace the server's instructions; withhold them if they changed after approval.

        Raises:
            SettingsError: The pins cannot be read.
        """
        now = printable(instructions, keep="\n\t")[:_INSTRUCTIONS_MAX]
        approved = self.server.host.pins.of_server(self.server.config).get(INSTRUCTIONS, now)
        same = approved == now
        self._withheld = {} if same else {INSTRUCTIONS: _difference(INSTRUCTIONS, approved, now)}
        self._instructions = now

    async def take(self, tools: tuple[mcp_types.Tool, ...]) -> bool:
        """Replace the offered tools by *tools*; return whether that changes anything.

        Raises:
            SettingsError: The pins cannot be read.
        """
        if tools == self._listed:
            return False
        # Checking a schema takes 2 ms: hundreds of tools would block the event loop.
        wrapped = await asyncio.to_thread(wrap_tools, self, tools)
        pins = self.server.host.pins
        self._vouched |= await asyncio.to_thread(pins.vouched, self.server.config)
        self._listed, self.wrapped = tools, self._sendable(wrapped)
        return True

    def leave_out(self, name: str, reason: str) -> bool:
        """Stop offering a tool that the model's API refuses; return whether it was offered.

        It is offered again once its definition has changed.

        Args:
            name: The public name of the tool.
            reason: The API's reason.
        """
        tool = next((each for each in self.wrapped.tools if each.name == name), None)
        if tool is None:
            return False
        self._refused[name] = (tool.spec, reason)
        self.wrapped = self._sendable(self.wrapped)
        return True

    def _sendable(self, wrapped: Wrapped) -> Wrapped:
        """Return *wrapped* without the tools that the model's API has refused."""
        refused = {
            tool.name: self._refused[tool.name][1]
            for tool in wrapped.tools
            if tool.name in self._refused and self._refused[tool.name][0] == tool.spec
        }
        return wrapped.without(refused) if refused else wrapped

    def is_vouched(self, tool: mcp_types.Tool) -> bool:
        """Return whether a person approved *tool* with its current definition."""
        return self._vouched.get(tool.name) == self._definition(tool)

    async def approve(self, tool: mcp_types.Tool, *, by_person: bool) -> None:
        """Pin the current *tool*, once, together with the instructions in force."""
        if by_person and not self.is_vouched(tool):
            self._vouched[tool.name] = now = self._definition(tool)
            try:
                await asyncio.to_thread(
                    self.server.host.pins.vouch, self.server.config, tool.name, now
                )
            except SettingsError as error:
                _log.warning("mcp tool not vouched for", tool=tool.name, fault=str(error))
        if tool.name in self._pinned:
            return
        self._pinned.add(tool.name)
        under = {} if self._withheld else {INSTRUCTIONS: self._instructions}
        await self._pin({tool.name: self._definition(tool), **under})

    async def approve_changes(self) -> None:
        """Approve the withheld tools and instructions, and offer them."""
        withheld = {INSTRUCTIONS: self._instructions} if self._withheld else {}
        for tool in self._listed:
            if tool.name in self.wrapped.changed:
                withheld[tool.name] = self._definition(tool)
        await self._pin(withheld)
        wrapped = await asyncio.to_thread(wrap_tools, self, self._listed)
        self.wrapped = self._sendable(wrapped)
        self.hear(self._instructions)

    def _definition(self, tool: mcp_types.Tool) -> str:
        return definition(tool, wrap_tool(self, tool))

    async def _pin(self, approved: Mapping[str, str]) -> None:
        try:
            await asyncio.to_thread(self.server.host.pins.pin, self.server.config, approved)
        except SettingsError as error:
            _log.warning("mcp tools not pinned", tools=", ".join(approved), fault=str(error))

    def schema_of(self, tool: str) -> dict[str, Json] | None:
        """Return the input schema of a tool exactly as the server listed it."""
        return next((dict(each.input_schema) for each in self._listed if each.name == tool), None)


def _difference(tool: str, approved: str, now: str) -> str:
    """Return the change as a unified diff."""
    import difflib  # where a tool changed

    lines = difflib.unified_diff(
        approved.splitlines(), now.splitlines(), f"{tool} (approved)", f"{tool} (now)", lineterm=""
    )
    return "\n".join(lines)
