"""`agent-cli permissions explain`: what would be decided about a tool call here, and why."""

import json
from collections.abc import Iterator

from agent_cli import wiring
from agent_cli.errors import ToolError, UsageError
from agent_cli.events import ToolCall
from agent_cli.policies.decision import Decision
from agent_cli.policies.permission_rules import COMMAND_TOOL
from agent_cli.sandbox import Report
from agent_cli.startup import Start
from agent_cli.terminal.sanitize import reveal
from agent_cli.timeline import Json
from agent_cli.tooling import CALL_AGAIN, Allow, Ask, Deny, Tool, check_input

_VERDICTS = {Allow: "allow", Ask: "ask", Deny: "deny"}
_MCP_PREFIX = "mcp__"


def explain(begun: Start, name: str, given: str) -> str:
    """Return the verdict, the rule with its place, the commands seen, mode and sandbox.

    Args:
        name: A tool's name.
        given: Its input as JSON; a command, for bash, or else a path, may stand alone.

    Raises:
        SettingsError: A permission rule cannot be read.
        UsageError: There is no such tool, or the input is none of its.
    """
    sandbox = wiring.sandbox(begun)
    permissions = wiring.permissions(begun, sandbox)
    tool = _tool(begun, name)
    call = ToolCall("explained", name, _input(name, given))
    try:
        params = check_input(tool, call.input)
        report = sandbox.report or sandbox.probe()
        decision = permissions.decide(call, tool, params, report)
    except ToolError as error:
        raise UsageError(str(error).removesuffix(CALL_AGAIN)) from error
    finally:
        sandbox.close()
    lines = _lines(begun, decision, report, permissions.mode)
    return "".join(f"{title + ':':<10} {reveal(text)}\n" for title, text in lines)


def _tool(begun: Start, name: str) -> Tool:
    tools = {tool.name: tool for tool in wiring.tools(begun)}
    if name in tools:
        return tools[name]
    if name.startswith(_MCP_PREFIX):
        # No server is started for an answer: what is not known may change things.
        return Tool(
            name=name,
            label=name,
            description="",
            parameters={"type": "object"},
            execute=_never,
        )
    raise UsageError(f"there is no tool {name}; there are {', '.join(tools)}, and those of servers")


async def _never(*_call: object) -> str:
    raise AssertionError("what is only explained never runs")


def _input(name: str, given: str) -> Json:
    try:
        value: Json = json.loads(given)
    except ValueError:
        value = given
    if isinstance(value, dict):
        return value
    if name == COMMAND_TOOL:
        return {"command": given}
    # Whatever else the tool wants: what is decided rests on the path.
    more: dict[str, dict[str, Json]] = {
        "write": {"content": ""},
        "edit": {"edits": [{"old": "a", "new": "b"}]},
        "grep": {"pattern": "."},
        "glob": {"pattern": "*"},
    }
    return {"path": given, **more.get(name, {})}


def _lines(
    begun: Start, decision: Decision, report: Report, mode: str
) -> Iterator[tuple[str, str]]:
    yield "verdict", _VERDICTS[type(decision.verdict)]
    yield "why", decision.why
    if decision.rule:
        yield "rule", f"{decision.rule}  ({decision.rule.origin})"
    else:
        yield "rule", "none"
    for command in decision.commands:
        yield "command", command
    yield "mode", mode
    yield "sandbox", report.sentence
    yield "workspace", f"{begun.workspace} ({'trusted' if begun.trusted else 'not trusted'})"
