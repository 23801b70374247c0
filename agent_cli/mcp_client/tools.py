"""Wrap a server's tools as tools of the agent: valid names, schemas and descriptions."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import mcp_types

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.mcp_client.calls import Server, call_tool
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.pins import READS_ONLY, difference
from agent_cli.mcp_client.schemas import UnusableSchema, api_schema, description
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.mcp_client.tokens import tool_tokens
from agent_cli.mcp_client.watched_stream import OUTPUT_SCHEMA
from agent_cli.system.logger import logger
from agent_cli.terminal.narration import one_line

_SHOWN_WHOLE_CHARS_MAX = 4096
_LABEL_MAX = 60
_SUMMARY_MAX = 80
log = logger(__name__)


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


def wrap_tools(server: Server, tools: Iterable[mcp_types.Tool]) -> Wrapped:
    """Wrap those of *tools* that are enabled, usable and unchanged since their approval.

    Raises:
        SettingsError: The pins cannot be read.
    """
    approved = server.host.pins.of_server(server.config)
    wrapped: list[Tool] = []
    absent: dict[str, str] = {}
    changed: dict[str, str] = {}
    for tool in tools:
        if not _is_wanted(server.config, tool.name):
            continue
        name = public_name(server.config.name, tool.name)
        try:
            ours = wrap_tool(server, tool)
        except UnusableSchema as error:
            absent[name] = f"tool {tool.name} is left out: {error}"
            continue
        except Exception as error:
            log.exception("mcp tool not usable", server=server.config.name)
            reason = f"{type(error).__name__}: {error}"
            absent[name] = f"tool {tool.name} is left out: it cannot be used ({reason})"
            continue
        now = definition(tool, ours)
        if approved.get(tool.name, now) == now:
            wrapped.append(ours)
        else:
            changed[tool.name] = difference(tool.name, approved[tool.name], now)
            absent[name] = f"tool {tool.name} is withheld: it changed since it was approved"
    return Wrapped(tuple(wrapped), absent, changed)


def definition(tool: mcp_types.Tool, ours: Tool) -> str:
    """Return the pinned definition of a tool, as text for comparison.

    It has everything that the model reads, and whether the tool may run without approval.
    """
    spec = ours.spec
    said = tool.description
    if not said or len(said) > _SHOWN_WHOLE_CHARS_MAX:
        # Pin only the part that the model reads: a change in a megabyte could not be reviewed.
        said = spec.description
    schema = json.dumps(spec.input_schema, indent=2, sort_keys=True)
    unasked = "" if ours.changes else READS_ONLY
    return f"{tool.name}\n\n{said}\n\n{schema}\n{unasked}"


def _is_wanted(config: ServerConfig, tool: str) -> bool:
    if any(fnmatchcase(tool, pattern) for pattern in config.disabled_tools):
        return False
    wanted = config.enabled_tools
    return not wanted or any(fnmatchcase(tool, pattern) for pattern in wanted)


def wrap_tool(server: Server, tool: mcp_types.Tool) -> Tool:
    """Return *tool* as a tool of the agent.

    Raises:
        UnusableSchema: The API would refuse its input schema.
    """
    hints = tool.annotations or mcp_types.ToolAnnotations()
    title = tool.title or hints.title or tool.name
    output_schema = (tool.meta or {}).get(OUTPUT_SCHEMA)
    as_task = tool.execution is not None and tool.execution.task_support == "required"

    async def execute(
        _tool_call_id: str, params: dict[str, Json], cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        await server.approved(tool, by_person=on_update.is_approved)
        async with cancel.scope():
            return await call_tool(
                server,
                tool.name,
                params,
                on_update,
                output_schema=output_schema,
                as_task=as_task,
            )

    return Tool(
        name=public_name(server.config.name, tool.name),
        label=printable(f"{server.config.name}: {title}")[:_LABEL_MAX],
        description=description(tool.description or title),
        parameters=api_schema(tool.input_schema),
        execute=execute,
        # A tool without hints may change anything; a destructive one is never "read only".
        changes=not hints.read_only_hint or bool(hints.destructive_hint),
        is_vouched=lambda: server.is_vouched(tool),
        # A call that reports progress may take longer than any fixed time: calls.py limits its
        # silence to the server's `call_timeout_s` instead.
        timeout_s=0,
        summary=_summary,
    )


def _summary(params: dict[str, Json]) -> str:
    return one_line(json.dumps(params, ensure_ascii=False), _SUMMARY_MAX) if params else ""
