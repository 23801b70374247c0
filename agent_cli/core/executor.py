"""Run the tool calls of one reply: preflight in call order, run in parallel, answer in call order.

Whatever happens (unknown tool, bad input, exception, time limit, steering, abort), every call gets
one start, one end and one result. A call that needs a person stops the batch instead: that call and
those after it stay open, and the same code continues with them once the decision is made.
"""

from collections.abc import Mapping

from agent_cli.contracts import events
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.tooling import Ask, ToolResult
from agent_cli.core.attempts import attempt_first, skip_undecided
from agent_cli.core.batch_end import report_results
from agent_cli.core.preflight import CheckedCall, check_all, in_waves, recheck
from agent_cli.core.returned_values import queued
from agent_cli.core.run import Phase
from agent_cli.core.tool_call import SKIPPED, ToolCallRun
from agent_cli.core.turn import Turn
from agent_cli.core.waits import CallWaits, WaitedTooLong
from agent_cli.system.batches import side_by_side


class Executor:
    """One batch: the open tool calls of a reply.

    Attributes:
        steering: Messages the user queued meanwhile, for the next request.
        results: The results of the whole reply, in call order; empty while a person must decide.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._conversation = turn.conversation
        self._waits = CallWaits(turn.config.concurrency, turn.config.path_order)
        self._begun = False
        self.steering: list[UserMessage] = []
        self.results: list[ToolResultMessage] = []

    async def run(self) -> list[ToolResultMessage]:
        """Run the open calls until all have results or a person must decide; return `results`."""
        turn, calls = self._turn, self._conversation.open_calls()
        turn.phase.go(Phase.PLANNING_TOOLS)
        turn.emit(events.ToolCallsAnnounced(tuple(map(events.ToolCall.of, calls))))
        try:
            ready, asks = await check_all(turn, calls)
            turn.phase.go(Phase.EXECUTING_TOOLS)
            await self._run_waves(ready)
            while asks and (await self._skip_all() or await attempt_first(turn, self._waits, asks)):
                ready, asks = await check_all(turn, self._conversation.open_calls())
                await self._run_waves(ready)
        except BaseException:
            for call in self._conversation.open_calls():
                ToolCallRun(turn, call).finish_stopped()
            self.results = report_results(turn)
            raise
        if asks:
            self._ask(asks)
        else:
            self.results = report_results(turn)
        return self.results

    async def _run_waves(self, ready: list[CheckedCall]) -> None:
        config = self._turn.config
        for wave in in_waves(self._turn, ready):
            interrupt = config.wait_for_steering if config.steering == "cancel_running" else None
            await side_by_side([self._run_one(item) for item in wave], interrupt)

    async def _run_one(self, item: CheckedCall) -> None:
        assert self._turn.phase.can_execute_tools
        call = ToolCallRun(self._turn, item.call)
        try:
            async with self._waits.turn(item.call, item.tool, item.reads, item.writes):
                is_skipped = item.tool and await self._is_skipped(item)
                result = SKIPPED if is_skipped else await call.run(await recheck(self._turn, item))
        except WaitedTooLong as error:
            result = ToolResult.error(str(error))
        except BaseException:
            call.finish_stopped()
            raise
        call.finish(result)

    async def _is_skipped(self, item: CheckedCall) -> bool:
        """Return whether the user's message comes before *item*; never before an approved call."""
        # Sequential execution looks for steering after each tool, so the first one always runs.
        looks = self._begun or self._turn.config.tool_execution == "parallel"
        self._begun = True
        return looks and item.call.decision != "approved" and await self._steered()

    async def _steered(self) -> bool:
        config = self._turn.config
        if config.steering != "after_batch" and not self.steering:
            self.steering += await queued(config.get_steering_messages)
        return bool(self.steering)

    async def _skip_all(self) -> bool:
        """Skip the calls without a decision if a message came first; return whether one did."""
        if is_first := self._begun and await self._steered():
            skip_undecided(self._turn)
        return is_first

    def _ask(self, asks: Mapping[str, Ask]) -> None:
        # Recorded before anyone is asked, so that the question survives a crash in between.
        self._conversation.pause({id: ask.reason for id, ask in asks.items()})
        for call in self._conversation.questions():
            self._turn.emit(events.ApprovalRequested(events.ToolCall.of(call)))
