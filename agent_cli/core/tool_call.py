"""One call, from its start event to its end event; whatever the tool does becomes a result."""

import asyncio
import logging

import structlog

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from agent_cli.contracts.timeline import Error, Success, ToolOutput
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.core.loop_config import Turn, settled
from agent_cli.core.preflight import announced

_log = structlog.wrap_logger(logging.getLogger(__name__))


class ToolCallRun:
    """A call that has begun. `is_running` from the moment its effect may have happened."""

    def __init__(self, turn: Turn, call: ToolOutput) -> None:
        self._turn = turn
        self._call = call
        self.is_running = False
        turn.emit(ToolExecutionStart(call.tool_call_id, call.name, call.input))

    async def run(self, tool: Tool, params: object) -> ToolResult:
        """Return the tool's result as the model will read it; raises only CancelledError."""
        self._turn.conversation.start_call(self._call.tool_call_id)
        if self._turn.cancel.cancelled:  # it came while nothing was awaited
            raise asyncio.CancelledError
        self.is_running = True
        result = await self._within_limit(tool, params)
        if self._turn.config.finish_result:
            finishing = self._turn.config.finish_result(announced(self._call), result)
            result = await settled(finishing)
        return result

    def finish(self, result: ToolResult) -> None:
        """Record the result and tell it."""
        call = self._call
        outcome = Error if result.is_error else Success
        self._turn.conversation.settle_call(
            call.tool_call_id, outcome(result.content, result.details)
        )
        self.is_running = False
        self._turn.emit(ToolExecutionEnd(call.tool_call_id, call.name, result, result.is_error))

    async def _within_limit(self, tool: Tool, params: object) -> ToolResult:
        config, call = self._turn.config, self._call
        limit_s = config.tool_timeout_s if tool.timeout_s is None else tool.timeout_s
        limit = asyncio.timeout(limit_s or None)
        try:
            async with limit:
                result = await tool.execute(
                    call.tool_call_id, params, self._turn.cancel, self._context()
                )
        except ToolError as error:
            return ToolResult.error(str(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return ToolResult.error(f"{call.name} was cancelled from within.")
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                return ToolResult.error(
                    f"{call.name} took longer than {limit_s:g} s and was stopped."
                    " Do less in one call, or give it more time if it has a timeout."
                )
            _log.exception("tool failed", tool=call.name, tool_call_id=call.tool_call_id)
            return ToolResult.error(str(error) or type(error).__name__)
        return _as_result(call, result)

    def _context(self) -> ToolContext:
        config = self._turn.config
        return ToolContext(
            self._call.tool_call_id,
            self._call.name,
            config.user_id,
            config.state,
            config.services,
            self._update,
            self._turn.conversation.attach,
        )

    def _update(self, partial: ToolResult) -> None:
        if self.is_running:
            call = self._call
            self._turn.emit(ToolExecutionUpdate(call.tool_call_id, call.name, partial))
        else:
            _log.warning("tool update after its end", tool=self._call.name)


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
