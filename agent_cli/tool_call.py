"""Runs one tool within its time limit; whatever it does becomes a result."""

import asyncio
from collections.abc import Callable

import structlog

from agent_cli.errors import ToolError
from agent_cli.hooks import Turn, settled
from agent_cli.preflight import announced
from agent_cli.timeline import ToolOutput
from agent_cli.tooling import Tool, ToolContext, ToolResult

_log = structlog.get_logger(__name__)


async def run_tool(
    turn: Turn,
    call: ToolOutput,
    tool: Tool,
    params: object,
    update: Callable[[ToolResult], None],
) -> ToolResult:
    """Return the tool's result as the model will read it; raises only CancelledError."""
    context = ToolContext(
        call.tool_call_id,
        call.name,
        turn.config.user_id,
        turn.config.state,
        turn.config.services,
        update,
        turn.conversation.attach,
    )
    result = await _within_limit(turn, call, tool, params, context)
    if turn.config.finish_result:
        result = await settled(turn.config.finish_result(announced(call), result))
    return result


async def _within_limit(
    turn: Turn, call: ToolOutput, tool: Tool, params: object, context: ToolContext
) -> ToolResult:
    limit_s = turn.config.tool_timeout_s if tool.timeout_s is None else tool.timeout_s
    limit = asyncio.timeout(limit_s or None)
    try:
        async with limit:
            result = await tool.execute(call.tool_call_id, params, turn.cancel, context)
    except ToolError as error:
        return ToolResult.error(str(error))
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            return ToolResult.error(
                f"{call.name} took longer than {limit_s:g} s and was stopped."
                " Do less in one call, or give it more time if it has a timeout."
            )
        _log.exception("tool failed", tool=call.name, tool_call_id=call.tool_call_id)
        return ToolResult.error(str(error) or type(error).__name__)
    return _as_result(call, result)


def _as_result(call: ToolOutput, returned: object) -> ToolResult:
    """Accept what a tool may return; a plugin's author may have forgotten the types."""
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, str):
        return ToolResult.of(returned)
    return ToolResult.error(
        f"{call.name} returned {type(returned).__name__}, which is not a result: report this to"
        " the tool's author."
    )
