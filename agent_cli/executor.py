"""Runs the calls of one reply: preflight in call order, run in parallel, answer in call order.

Whatever happens (unknown tool, bad input, exception, time limit, steering, abort), every call gets
one start, one end and one result. A call that needs a person stops the batch instead: it and what
comes after it stay open, and the same code goes on with them when the decision is there.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog

from agent_cli.events import (
    ApprovalRequested,
    MessageEnd,
    MessageStart,
    ToolCallsAnnounced,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent_cli.hooks import Ask, Turn, settled
from agent_cli.messages import ToolResultMessage, UserMessage
from agent_cli.phase import Phase
from agent_cli.preflight import Ready, announced, check_all, in_waves, refuse
from agent_cli.timeline import Error, Pending, Success, ToolOutput
from agent_cli.tool_call import run_tool
from agent_cli.tooling import ToolResult

_log = structlog.get_logger(__name__)
_SKIPPED = ToolResult.error("Skipped: the user sent a message first. Read it before going on.")
_CANCELLED = ToolResult.error("Stopped: the user sent a message first. Its effect may be partial.")
_ABORTED = ToolResult.error("Stopped by the user. Its effect may be partial.")
_CUT_OFF = (
    "Not run: the reply ended with %s before this call was complete. Call again with less in it."
)
_NOT_RUN = ToolResult.error("Not run: the user stopped before its turn.")


class Executor:
    """One batch. `steering` holds what the user said meanwhile, for the next request.

    `cut_off` is True when the reply did not end with "tool_use": then nothing runs, and the model
    reads why.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._conversation = turn.conversation
        self._stop_reason = turn.conversation.last_reply().stop_reason
        self._running: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self.cut_off = self._stop_reason != "tool_use"
        self.steering: list[UserMessage] = []

    async def run(self) -> list[ToolResultMessage]:
        """Run the open calls; return all results of the reply, or [] while a person must decide."""
        calls = self._conversation.open_calls()
        self._turn.phase.go(Phase.PLANNING_TOOLS)
        self._turn.emit(ToolCallsAnnounced(tuple(announced(call) for call in calls)))
        try:
            if self.cut_off:
                ready, asks = [refuse(call, _CUT_OFF % self._stop_reason) for call in calls], {}
            else:
                ready, asks = await check_all(self._turn, calls)
            self._turn.phase.go(Phase.EXECUTING_TOOLS)
            for wave in in_waves(self._turn, ready):
                await self._run_wave(wave)
        except BaseException:
            for call in self._conversation.open_calls():
                self._start(call)
                self._finish(call, _NOT_RUN)
            self._report()
            raise
        if asks:
            self._pause(asks)
            return []
        return self._report()

    def _pause(self, asks: dict[str, Ask]) -> None:
        """Record who waits for what, then ask: a crash in between must find the question."""
        for call in self._conversation.open_calls():
            ask = asks.get(call.tool_call_id)
            held = Pending("approval", ask.reason) if ask else Pending("deferred")
            self._conversation.hold_call(call.tool_call_id, held)
        self._conversation.set_state("waiting_for_approval")
        for call in self._conversation.open_calls():
            if call.tool_call_id in asks:
                reason = asks[call.tool_call_id].reason
                self._turn.emit(ApprovalRequested(announced(call, reason)))

    async def _run_wave(self, wave: list[Ready]) -> None:
        places = asyncio.Semaphore(self._turn.config.concurrency)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run_one(item, places)) for item in wave]
            if self._turn.config.steering == "cancel_running":
                watcher = group.create_task(self._cancel_when_steered(tasks))
                await asyncio.wait(tasks)
                watcher.cancel()

    async def _cancel_when_steered(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        if self._turn.config.wait_for_steering:
            await self._turn.config.wait_for_steering()
            for task in tasks:
                task.cancel()

    async def _run_one(self, item: Ready, places: asyncio.Semaphore) -> None:
        assert self._turn.phase.can_execute_tools
        call = item.call
        self._start(call)
        try:
            async with AsyncExitStack() as held:
                # Locks before a place: tasks begin in call order, so writers of one path queue up
                # in call order, and one that waits for its path takes no place from the others.
                for path in sorted(item.tool.writes(item.params)) if item.tool else ():
                    await held.enter_async_context(self._locks.setdefault(path, asyncio.Lock()))
                await held.enter_async_context(places)
                if item.tool is None or await self._steered():
                    result = item.refusal or _SKIPPED
                else:
                    self._conversation.start_call(call.tool_call_id)
                    self._running.add(call.tool_call_id)
                    result = await run_tool(
                        self._turn,
                        call,
                        item.tool,
                        item.params,
                        lambda partial: self._update(call, partial),
                    )
        except asyncio.CancelledError:
            stopped = _ABORTED if self._turn.cancel.cancelled else _CANCELLED
            self._finish(call, stopped if call.tool_call_id in self._running else _NOT_RUN)
            raise
        self._finish(call, result)

    async def _steered(self) -> bool:
        config = self._turn.config
        if config.steering != "after_batch" and config.get_steering_messages:
            self.steering += await settled(config.get_steering_messages()) or ()
        return bool(self.steering)

    def _start(self, call: ToolOutput) -> None:
        self._turn.emit(ToolExecutionStart(call.tool_call_id, call.name, call.input))

    def _update(self, call: ToolOutput, partial: ToolResult) -> None:
        if call.tool_call_id in self._running:
            self._turn.emit(ToolExecutionUpdate(call.tool_call_id, call.name, partial))
        else:
            _log.warning("tool update after its end", tool=call.name)

    def _finish(self, call: ToolOutput, result: ToolResult) -> None:
        outcome = Error if result.is_error else Success
        self._conversation.settle_call(call.tool_call_id, outcome(result.content, result.details))
        self._running.discard(call.tool_call_id)
        self._turn.emit(ToolExecutionEnd(call.tool_call_id, call.name, result, result.is_error))

    def _report(self) -> list[ToolResultMessage]:
        """Tell the results of the whole reply, in call order."""
        results = self._conversation.results_of_last_reply()
        for result in results:
            self._turn.emit(MessageStart(result))
            self._turn.emit(MessageEnd(result))
        return results
