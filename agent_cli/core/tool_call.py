"""Run one call from its start event to its end event; every outcome becomes a result.

The start event is published once the call has waited for earlier calls; that of a call that never
runs, right before its end event.
"""

import asyncio
from dataclasses import replace

from agent_cli.contracts import events
from agent_cli.contracts.errors import Aborted, ToolError
from agent_cli.contracts.timeline import (
    Error,
    FileOutput,
    Pending,
    Success,
    ToolOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.core.call_state import CallState
from agent_cli.core.preflight import CheckedCall
from agent_cli.core.returned_values import (
    as_json,
    as_result,
    bounded,
    failure,
    is_stopped,
    only_reads,
    revised,
    shortened,
)
from agent_cli.core.turn import Turn
from agent_cli.system.batches import Bounded, Overran
from agent_cli.system.logger import logger

SKIPPED = ToolResult.error("Skipped: the user sent a message first. Read it before going on.")
_STOPPED_BY_STEERING = "Stopped: the user sent a message first. Its effect may be partial."
_STOPPED_WITH_RUN = "Stopped with the whole run. Its effect may be partial."
_NOT_RUN = "Not run: the run was stopped before its turn."
_LEFT_BEHIND = " It did not end when it was told to and may still be running."
_log = logger(__name__)


class ToolCallRun:
    """One call, from its start event to its end; `is_running` while it may have an effect."""

    def __init__(self, turn: Turn, call: ToolOutput) -> None:
        self._turn = turn
        self._call = call
        self._work: Bounded[ToolResult] | None = None
        self._last_words = ""
        self._returned: ToolResult | None = None
        self._paths: tuple[str, ...] = ()
        self._has_started = self.is_running = False

    async def run(self, item: CheckedCall) -> ToolResult:
        """Return the result, or the refusal, as the model reads it; raises only CancelledError."""
        if item.tool is None:
            return item.refusal or SKIPPED
        self._start()
        self._paths = (*item.reads, *item.writes)
        result = self._returned = await self._within_limit(item.tool, item.params)
        finish = self._turn.config.finish_result
        return await revised(finish, events.ToolCall.of(self._call), result)

    def finish(self, result: ToolResult) -> None:
        """Record the result and publish it."""
        self._start()
        call, self.is_running = self._call, False
        if self._work and self._work.left_behind:
            result = replace(result, content=(*result.content, text_block(_LEFT_BEHIND)))
            warning = f"{call.name} did not end when it was told to; it may still be running"
            self._turn.emit(events.Notice("warning", warning))
        settled_as = (Error if result.is_error else Success)(result.content, result.details)
        self._turn.conversation.settle_call(call.tool_call_id, settled_as)
        end = events.ToolExecutionEnd(call.tool_call_id, call.name, result, result.is_error)
        self._turn.emit(end)

    def finish_stopped(self) -> None:
        """Record that the call was interrupted, by steering or with the whole run.

        A cancelled tool may report its partial effect in a ToolError. One that had ended keeps its
        result: if the model read that it was stopped, it would call the tool again.
        """
        if self._returned:
            self.finish(shortened(self._returned))
            return
        steered = self._turn.config.steering == "cancel_running" and not self._turn.cancel.cancelled
        if self.is_running:
            reason = _STOPPED_BY_STEERING if steered else _STOPPED_WITH_RUN
            self.finish(ToolResult.error(reason + self._last_words))
        else:
            self.finish(SKIPPED if steered else not_run(self._call))

    def _start(self) -> None:
        """Publish the start, once."""
        if not self._has_started:
            self._has_started, call = True, self._call
            self._turn.emit(events.ToolExecutionStart(call.tool_call_id, call.name, call.input))

    async def _within_limit(self, tool: Tool, params: object) -> ToolResult:
        config, name = self._turn.config, self._call.name
        limit_s = config.tool_timeout_s if tool.timeout_s is None else tool.timeout_s
        self._work = Bounded(self._result(tool, params), stop_limit_s=config.tool_stop_timeout_s)
        try:
            return await self._work.run(limit_s or None)
        except Overran:
            return ToolResult.error(
                f"{name} took longer than {limit_s:g} s and was stopped."
                " Do less in one call, or give it more time if it has a timeout." + self._last_words
            )

    async def _result(self, tool: Tool, params: object) -> ToolResult:
        """Run the tool; raises CancelledError only if the run was cancelled before it."""
        call, turn, call_id = self._call, self._turn, self._call.tool_call_id
        reads = only_reads(tool, params)
        turn.conversation.start_call(call_id, asks_person=tool.asks_person, only_reads=reads)
        if turn.cancel.cancelled:  # the cancellation arrived while nothing was awaited
            raise asyncio.CancelledError
        self.is_running = True
        try:
            result = await tool.execute(call_id, params, turn.cancel, self._context())
        except ToolError as error:
            self._last_words = f" {bounded(str(error))}"
            return ToolResult.error(str(error))
        except asyncio.CancelledError:  # if the call was cancelled, nobody reads what is returned
            return ToolResult.error(f"{call.name} was cancelled from within.")
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a panic in a library written in Rust is no Exception
            if isinstance(error, Aborted) and self._turn.cancel.cancelled:  # it has the token
                return ToolResult.error(_STOPPED_WITH_RUN)
            return failure(call, error)
        returned = as_result(call.name, result)
        if not is_stopped():  # the run may be stopped before it receives this
            self._returned = returned
        return returned

    def _context(self) -> ToolContext:
        config = self._turn.config
        return ToolContext(
            tool_call_id=self._call.tool_call_id,
            tool_name=self._call.name,
            user_id=config.user_id,
            state=CallState(config.state),
            services=config.services,
            update=self._update,
            add_output=self._attach,
            is_approved=self._call.decision == "approved",
            paths=self._paths,
        )

    def _update(self, partial: ToolResult) -> None:
        if self.is_running:
            call = self._call
            self._turn.emit(events.ToolExecutionUpdate(call.tool_call_id, call.name, partial))
        else:
            _log.warning("tool update after its end", tool=self._call.name)

    def _attach(self, output: FileOutput | WidgetOutput) -> None:
        if self.is_running:
            if isinstance(output, WidgetOutput):
                output = replace(output, data=as_json(output.data))
            self._turn.conversation.attach(output)
        else:
            _log.warning("tool output after its end", tool=self._call.name)


def not_run(call: ToolOutput) -> ToolResult:
    """Return the result of a call that the run did not reach."""
    if call.decision == "rejected" and isinstance(call.result, Pending):
        return ToolResult.error(call.result.reason)
    return ToolResult.error(_NOT_RUN)
