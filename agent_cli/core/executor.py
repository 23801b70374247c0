"""Runs the calls of one reply: preflight in call order, run in parallel, answer in call order.

Whatever happens (unknown tool, bad input, exception, time limit, steering, abort), every call gets
one start, one end and one result. A call that needs a person stops the batch instead: it and what
comes after it stay open, and the same code goes on with them when the decision is there.
"""

import asyncio

from agent_cli.contracts import events
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.batches import InOrder, side_by_side
from agent_cli.core.loop_config import Turn, queued
from agent_cli.core.phase import Phase
from agent_cli.core.preflight import CheckedCall, announced, check_all, in_waves
from agent_cli.core.tool_call import ToolCallRun

_SKIPPED = ToolResult.error("Skipped: the user sent a message first. Read it before going on.")
_CANCELLED = ToolResult.error("Stopped: the user sent a message first. Its effect may be partial.")
_ABORTED = ToolResult.error("Stopped with the whole run. Its effect may be partial.")
_NOT_RUN = ToolResult.error("Not run: the run was stopped before its turn.")


class Executor:
    """One batch. `steering` holds what the user said meanwhile, for the next request."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._conversation = turn.conversation
        self._paths = InOrder()
        self.steering: list[UserMessage] = []

    async def run(self) -> list[ToolResultMessage]:
        """Run the open calls; return all results of the reply, or [] while a person must decide."""
        calls = self._conversation.open_calls()
        self._turn.phase.go(Phase.PLANNING_TOOLS)
        self._turn.emit(events.ToolCallsAnnounced(tuple(announced(call) for call in calls)))
        try:
            ready, asks = await check_all(self._turn, calls)
            self._turn.phase.go(Phase.EXECUTING_TOOLS)
            for wave in in_waves(self._turn, ready):
                await self._run_wave(wave)
        except BaseException:
            for call in self._conversation.open_calls():
                ToolCallRun(self._turn, call).finish(_NOT_RUN)
            self._report()
            raise
        if not asks:
            return self._report()
        # Recorded before anybody is asked: a crash in between must find the question.
        self._conversation.pause({id: ask.reason for id, ask in asks.items()})
        for call in self._conversation.questions():
            self._turn.emit(events.ApprovalRequested(announced(call)))
        return []

    async def _run_wave(self, wave: list[CheckedCall]) -> None:
        config = self._turn.config
        places = asyncio.Semaphore(config.concurrency)
        interrupt = config.wait_for_steering if config.steering == "cancel_running" else None
        await side_by_side([self._run_one(item, places) for item in wave], interrupt)

    async def _run_one(self, item: CheckedCall, places: asyncio.Semaphore) -> None:
        assert self._turn.phase.can_execute_tools
        turn, call = self._turn, ToolCallRun(self._turn, item.call)
        try:
            # Files before a place: one that waits for its files takes no place from the others.
            async with self._paths.turn(item.reads, item.writes), places:
                if item.tool is None or await self._steered():
                    result = item.refusal or _SKIPPED
                else:
                    result = await call.run(item.tool, item.params)
        except BaseException:
            steered = turn.config.steering == "cancel_running" and not turn.cancel.cancelled
            stopped, unstarted = (_CANCELLED, _SKIPPED) if steered else (_ABORTED, _NOT_RUN)
            call.finish(stopped if call.is_running else unstarted)
            raise
        call.finish(result)

    async def _steered(self) -> bool:
        config = self._turn.config
        if config.steering != "after_batch" and not self.steering:
            self.steering += await queued(config.get_steering_messages)
        return bool(self.steering)

    def _report(self) -> list[ToolResultMessage]:
        """Tell the results of the whole reply, in call order."""
        results = self._conversation.results_of_last_reply()
        for result in results:
            self._turn.emit(events.MessageStart(result))
            self._turn.emit(events.MessageEnd(result))
        return results
