"""`agent-cli mcp exercise`: use a server as a run would, without a model.

The same connections, callbacks and sign-in as in the REPL; what answers is written on the command
line instead of asked of a person. Says what happened, one sentence a line.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.servers import ServerPhase
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, input_schema
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.context import Say, explain
from agent_cli.mcp_client.forms import form_fields
from agent_cli.mcp_client.host import Elicit, Elicitation, ElicitationAnswer
from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.pool import McpServers
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.terminal.narration import one_line

Agree: TypeAlias = Callable[[str], Awaitable[bool]]
"""Show a person what is about to happen; return whether they agree."""

Answers: TypeAlias = Literal["accept-defaults", "decline"]
_SHOWN_CHARS = 300
_SCHEMA_OF = "$inputSchema:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What to do with a server.

    Attributes:
        calls: (tool as the server or the model names it, arguments). A text "$inputSchema:TOOL"
            among them stands for the schema of that tool as it was listed.
        call_all: Call every tool that says it only reads, with the simplest arguments its schema
            allows.
        destructive: Call the others as well, after a yes to the list of them.
        timeout_s: For everything but the question.
    """

    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    call_all: bool = False
    destructive: bool = False
    timeout_s: float = 60.0


async def exercise(
    servers: McpServers, config: ServerConfig, wanted: Exercise, say: Say, agree: Agree
) -> bool:
    """Connect, list the tools, make the calls; return whether the server survived it.

    An error result of a tool is an answer like any other; a connection that was lost is none.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(wanted.timeout_s) as limit:
            servers.start([config])
            await servers.wait_started(wanted.timeout_s)
            [state] = servers.states()
            if state.phase is not ServerPhase.READY:
                explain(state, say)
                return False
            say(f"{config.name}: ready, {state.offer}")
            for note in state.notes:
                say(f"  {note}")
            chosen: Sequence[Tool] = ()
            if wanted.call_all:
                limit.reschedule(None)
                chosen = await _chosen(servers.tools(), wanted, say, agree)
                limit.reschedule(loop.time() + wanted.timeout_s)
            return await _calls(servers, config, wanted, chosen, say)
    except TimeoutError:
        say(f"{config.name}: not finished within {wanted.timeout_s:g} s")
        return False


async def _chosen(
    tools: Sequence[Tool], wanted: Exercise, say: Say, agree: Agree
) -> Sequence[Tool]:
    """Return the tools to call with arguments nobody chose."""
    changing = [tool for tool in tools if tool.changes]
    if not changing:
        return tools
    names = ", ".join(tool.name for tool in changing)
    if not wanted.destructive:
        say(f"  not called, because they may change or delete something: {names}")
        say("  add --destructive to call them, too")
    elif await agree(f"  These may change or delete something: {names}"):
        return tools
    return [tool for tool in tools if not tool.changes]


async def _calls(
    servers: McpServers,
    config: ServerConfig,
    wanted: Exercise,
    chosen: Sequence[Tool],
    say: Say,
) -> bool:
    tools = {tool.name: tool for tool in servers.tools()}
    failed = False
    for name, arguments in wanted.calls:
        tool = tools.get(public_name(config.name, name)) or tools.get(name)
        if tool is None:
            raise UsageError(f"{config.name} has no tool {name!r}; it has: {', '.join(tools)}")
        given = {key: _schema_or(value, servers, config) for key, value in arguments.items()}
        failed |= await _failed(tool, given, say)
    for tool in chosen:
        failed |= await _failed(tool, simplest(input_schema(tool.parameters)), say)
    # One that died in the last call is still being cleared away: only then is it known why.
    await servers.wait_started(wanted.timeout_s)
    [state] = servers.states()
    if state.phase is not ServerPhase.READY:
        explain(state, say)
        return False
    return not failed or await _answers(servers, config, say)


async def _answers(servers: McpServers, config: ServerConfig, say: Say) -> bool:
    """Return whether a server still answers: over HTTP, nobody tells of its end."""
    try:
        await servers.requests(config.name).check()
    except ToolError as error:
        say(str(error))
        return False
    return True


async def _failed(tool: Tool, arguments: dict[str, Json], say: Say) -> bool:
    """Make a call, and say and return how it ended."""

    def show(partial: ToolResult) -> None:
        say(f"  {tool.name}: … {_shown(partial.text)}")

    try:
        answer = await tool.execute("exercise", arguments, CancelToken(), ToolContext(update=show))
        result = answer if isinstance(answer, ToolResult) else ToolResult.of(answer)
    except ToolError as error:
        result = ToolResult.error(str(error))
    outcome = "error" if result.is_error else "ok"
    given = json.dumps(arguments, ensure_ascii=False)
    say(f"  {tool.name} {given[:_SHOWN_CHARS]}: {outcome}: {_shown(result.text)}")
    return result.is_error


def _shown(text: str) -> str:
    """Return a server's words as one short line that cannot drive the terminal."""
    return printable(one_line(text, _SHOWN_CHARS))


def _schema_or(value: Json, servers: McpServers, config: ServerConfig) -> Json:
    if isinstance(value, str) and value.startswith(_SCHEMA_OF):
        return servers.schema_of(config.name, value.removeprefix(_SCHEMA_OF))
    return value


def answer_with(answers: Answers) -> Elicit:
    """Return what answers a server's questions in place of a person."""

    async def answer(question: Elicitation) -> ElicitationAnswer:
        if answers == "decline":
            return ElicitationAnswer("decline")
        required = [field.name for field in form_fields(question.schema) if field.required]
        # Defaults are filled in where every answer is; here, only what has none.
        return ElicitationAnswer(
            "accept", simplest({**question.schema, "required": list[Json](required)})
        )

    return answer


def simplest(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the simplest object *schema* allows: only what is required."""
    properties = schema.get("properties")
    required = schema.get("required")
    fields = properties if isinstance(properties, dict) else {}
    return {
        name: _simplest_value(fields.get(name))
        for name in (required if isinstance(required, list) else [])
        if isinstance(name, str)
    }


def _simplest_value(schema: Json) -> Json:
    if not isinstance(schema, dict):
        return "text"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if isinstance(values := schema.get("enum"), list) and values:
        return values[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(branches := schema.get(key), list) and branches:
            return _simplest_value(branches[0])
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "integer" | "number":
            least = schema.get("minimum", 1)
            return least if isinstance(least, int | float) else 1
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return simplest(schema)
        case "null":
            return None
    return "text"
