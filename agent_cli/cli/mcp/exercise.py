"""`agent-cli mcp exercise`: use a server as a run would, without a model.

The same connections, callbacks and sign-in as in the REPL; answers come from the command line
instead of a person.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from agent_cli.cli.mcp import CommandContext
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.late_models import input_schema
from agent_cli.contracts.servers import ServerPhase, ServerState, public_name
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import one_line, printable
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.forms import form_fields
from agent_cli.mcp_client.host import Elicit, Elicitation, ElicitationAnswer
from agent_cli.mcp_client.pool import McpServers
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal

# The report of `agent-cli mcp exercise`: lines during the run, a table at its end, or JSON.

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class ExercisedCall:
    """One call: its tool, its arguments, and the tool's answer."""

    tool: str
    arguments: Mapping[str, Json]
    is_error: bool
    text: str

    @property
    def outcome(self) -> str:
        """The outcome, in one word."""
        return "error" if self.is_error else "ok"

    @property
    def arguments_shown(self) -> str:
        """The arguments as short JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)[:_SHOWN_CHARS]


class ExerciseReport:
    """Collects the outcome of the calls to a server.

    A pipe gets each line at once, so that a script sees where a server hangs.
    """

    def __init__(self, context: CommandContext, *, as_json: bool) -> None:
        self.context = context
        self._as_json = as_json
        self._at_once = not as_json and not context.out.isatty()
        self._calls: list[ExercisedCall] = []
        self._state: ServerState | None = None
        self._notes: list[str] = []

    @contextmanager
    def calling(self, count: int) -> Generator[Callable[[], None]]:
        """Show a progress bar on a terminal for *count* calls; yield a function that counts one."""
        from agent_cli.terminal.views.progress import counting  # rich

        before = len(self._calls)
        with counting("calling tools", total=count, stream=self.context.err) as show:
            yield lambda: show(len(self._calls) - before)

    def state(self, state: ServerState) -> None:
        """Record the state of the server: ready, or no longer usable."""
        self._state = state
        if not self._at_once:
            return
        if state.phase is not ServerPhase.READY:
            self.context.explain(state)
            return
        self.context.say(f"{state.name}: ready, {state.offer}")
        for note in state.notes:
            self.context.say(f"  {note}")

    def note(self, text: str) -> None:
        """Record a remark about the whole run."""
        self._notes.append(text)
        if self._at_once:
            self.context.say(text)

    def partial(self, tool: str, text: str) -> None:
        """Report partial output of a tool; only a pipe gets it."""
        if self._at_once:
            self.context.say(f"  {tool}: … {_shown(text)}")

    def call(self, call: ExercisedCall) -> None:
        """Record the outcome of a call."""
        self._calls.append(call)
        if self._at_once:
            self.context.say(
                f"  {call.tool} {call.arguments_shown}: {call.outcome}: {_shown(call.text)}"
            )

    def finish(self, *, survived: bool) -> None:
        """Print the rest of the report."""
        if self._as_json:
            self.context.print_json(self._entry(survived=survived))
        elif not self._at_once:
            self._show()

    def _entry(self, *, survived: bool) -> Json:
        return {
            "survived": survived,
            "state": str(self._state.phase) if self._state else None,
            "reason": self._state.reason if self._state else "",
            "tools": self._state.tools if self._state else 0,
            "notes": list[Json]([*(self._state.notes if self._state else ()), *self._notes]),
            "calls": [
                {
                    "tool": call.tool,
                    "arguments": dict(call.arguments),
                    "outcome": call.outcome,
                    "text": call.text,
                }
                for call in self._calls
            ],
        }

    def _show(self) -> None:
        from agent_cli.terminal.views.table import Column, Table  # rich

        if self._calls:
            columns = [Column("tool"), Column("arguments"), Column("outcome"), Column("answer")]
            rows = [
                (reveal(each.tool), reveal(each.arguments_shown), each.outcome, _shown(each.text))
                for each in self._calls
            ]
            styles = ["red" if each.is_error else "" for each in self._calls]
            self.context.show(Table(columns, rows, styles=styles))
        if self._state:
            from agent_cli.cli.mcp.reports import tested_view  # rich

            self.context.show(tested_view([self._state]))
        for note in self._notes:
            self.context.say(note)


def _shown(text: str) -> str:
    """Return a server's text as one short line without control characters."""
    return printable(one_line(text, _SHOWN_CHARS))


Agree: TypeAlias = Callable[[str], Awaitable[bool]]
"""Ask the user a yes-or-no question; return whether they agree."""

Answers: TypeAlias = Literal["accept-defaults", "decline"]
_SCHEMA_OF = "$inputSchema:"
_ADDRESS = "https://example.com/"
_ITEMS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """The calls to make to a server.

    Attributes:
        calls: (tool name as the server or the model uses it, arguments). The string
            "$inputSchema:TOOL" as an argument stands for the listed schema of that tool.
        call_all: Call every tool marked read-only, with the simplest arguments its schema allows.
        destructive: Call the other tools as well, after the user confirmed their list.
        timeout_s: Seconds for everything but the user's answer.
    """

    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    call_all: bool = False
    destructive: bool = False
    timeout_s: float = 60.0


async def exercise(
    servers: McpServers,
    config: ServerConfig,
    plan: Exercise,
    report: ExerciseReport,
    agree: Agree,
) -> bool:
    """Connect, list the tools, make the calls; return whether the server is still up.

    An error result of a tool counts as an answer; a lost connection does not.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(plan.timeout_s) as limit:
            servers.start([config])
            await servers.wait_started(plan.timeout_s)
            [state] = servers.states()
            report.state(state)
            if state.phase is not ServerPhase.READY:
                return False
            chosen: Sequence[Tool] = ()
            if plan.call_all:
                limit.reschedule(None)
                chosen = await _chosen(servers.tools(), plan, report, agree)
                limit.reschedule(loop.time() + plan.timeout_s)
            return await _calls(servers, config, plan, chosen, report)
    except TimeoutError:
        report.note(f"{config.name}: not finished within {plan.timeout_s:g} s")
        return False


async def _chosen(
    tools: Sequence[Tool], plan: Exercise, report: ExerciseReport, agree: Agree
) -> Sequence[Tool]:
    """Return the tools to call with generated arguments."""
    changing = [tool for tool in tools if tool.changes]
    if not changing:
        return tools
    names = ", ".join(tool.name for tool in changing)
    if not plan.destructive:
        report.note(f"  not called, because they may change or delete something: {names}")
        report.note("  add --destructive to call them, too")
    elif await agree(f"  These may change or delete something: {names}"):
        return tools
    return [tool for tool in tools if not tool.changes]


async def _calls(
    servers: McpServers,
    config: ServerConfig,
    plan: Exercise,
    chosen: Sequence[Tool],
    report: ExerciseReport,
) -> bool:
    failed = False
    with report.calling(len(plan.calls) + len(chosen)) as count:
        for tool, arguments in _planned(servers, config, plan, chosen):
            failed |= await _failed(tool, arguments, report)
            count()
    # A server that died in the last call is still being cleaned up; the reason is known after.
    await servers.wait_started(plan.timeout_s)
    [state] = servers.states()
    if state.phase is not ServerPhase.READY:
        report.state(state)
        return False
    return not failed or await _answers(servers, config, report)


def _planned(
    servers: McpServers, config: ServerConfig, plan: Exercise, chosen: Sequence[Tool]
) -> Iterator[tuple[Tool, dict[str, Json]]]:
    tools = {tool.name: tool for tool in servers.tools()}
    for name, arguments in plan.calls:
        tool = tools.get(public_name(config.name, name)) or tools.get(name)
        if tool is None:
            raise UsageError(f"{config.name} has no tool {name!r}; it has: {', '.join(tools)}")
        yield tool, {key: _schema_or(value, servers, config) for key, value in arguments.items()}
    for tool in chosen:
        yield tool, simplest(input_schema(tool.parameters))


async def _answers(servers: McpServers, config: ServerConfig, report: ExerciseReport) -> bool:
    """Return whether a server still answers: over HTTP its end goes unnoticed otherwise."""
    try:
        await servers.requests(config.name).check()
    except ToolError as error:
        report.note(str(error))
        return False
    return True


async def _failed(tool: Tool, arguments: dict[str, Json], report: ExerciseReport) -> bool:
    """Make a call, report it, and return whether it failed."""

    def show(partial: ToolResult) -> None:
        report.partial(tool.name, partial.text)

    try:
        answer = await tool.execute("exercise", arguments, CancelToken(), ToolContext(update=show))
        result = answer if isinstance(answer, ToolResult) else ToolResult.of(answer)
    except ToolError as error:
        result = ToolResult.error(str(error))
    report.call(ExercisedCall(tool.name, arguments, result.is_error, result.text))
    return result.is_error


def _schema_or(value: Json, servers: McpServers, config: ServerConfig) -> Json:
    if isinstance(value, str) and value.startswith(_SCHEMA_OF):
        return servers.schema_of(config.name, value.removeprefix(_SCHEMA_OF))
    return value


def answer_with(answers: Answers) -> Elicit:
    """Return a host that answers a server's questions in place of a user."""

    async def answer(question: Elicitation) -> ElicitationAnswer:
        if answers == "decline":
            return ElicitationAnswer("decline")
        required = [field.name for field in form_fields(question.schema) if field.required]
        # Defaults are filled in with every answer later; fill in only fields without one.
        return ElicitationAnswer(
            "accept", simplest({**question.schema, "required": list[Json](required)})
        )

    return answer


def simplest(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the simplest object that *schema* allows, with required properties only."""
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
            least = schema.get("minItems")
            count = min(least, _ITEMS_MAX) if isinstance(least, int) else 0
            return [_simplest_value(schema.get("items"))] * count
        case "object":
            return simplest(schema)
        case "null":
            return None
        case _:
            return _ADDRESS if schema.get("format") in ("uri", "url") else "text"
