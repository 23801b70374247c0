"""Attempt a call without lasting effect before a person is asked about it."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.side_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.contracts.timeline import ToolOutput
from agent_cli.contracts.tooling import Ask, Tool, ToolContext, ToolResult, check_input
from agent_cli.core.call_state import CallState
from agent_cli.core.returned_values import bounded, declared_paths, is_stopped, revised
from agent_cli.core.tool_call import SKIPPED, ToolCallRun
from agent_cli.core.turn import Turn
from agent_cli.core.waits import CallWaits, WaitedTooLong
from agent_cli.system.batches import side_by_side
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A call that is attempted; `failed` says that its question is due."""

    call: ToolOutput
    tool: Tool
    asked: Ask
    failed: Callable[[], None]


STOPPED_TRYING: Final = "Stopped with the whole run. It was tried read-only and changed nothing."


async def attempt_first(turn: Turn, waits: CallWaits, asks: Mapping[str, Ask]) -> bool:
    """Attempt the first open calls whose questions permit it; return whether there were any.

    Attempts change nothing, so they run side by side. A call whose attempt returns a result has
    ended. The first call whose attempt returns none is checked again, for its question; the later
    attempts do not count, because their calls may need what this call changes. If the user stops an
    attempt, its result is what it had printed, which was on the screen.
    """
    attempts = [*_attempts(turn, asks)]
    tasks: list[asyncio.Task[None]] = []
    dropped = set[str]()

    async def run(index: int, attempt: _Attempt) -> None:
        result = await _result(turn, waits, attempt, dropped)
        if result is None:
            dropped.update(each.call.tool_call_id for each in attempts[index + 1 :])
            for later in tasks[index + 1 :]:
                later.cancel()
        if index:
            await asyncio.wait({tasks[index - 1]})  # one without a result cancels this task
        if result is None:
            attempt.failed()
        else:
            await _end(turn, attempt.call, result)

    await side_by_side([run(*each) for each in enumerate(attempts)], begun=tasks)
    return bool(attempts)


def skip_undecided(turn: Turn) -> None:
    """End the open calls without a decision: the user sent a message first."""
    for call in turn.conversation.open_calls():
        if call.decision is None:
            ToolCallRun(turn, call).finish(SKIPPED)


def _attempts(turn: Turn, asks: Mapping[str, Ask]) -> Iterator[_Attempt]:
    """Yield the first open calls as far as they may be attempted side by side."""
    tools = {tool.name: tool for tool in turn.tools}
    may_join = True
    for call in turn.conversation.open_calls():
        asked, tool = asks.get(call.tool_call_id), tools.get(call.name)
        if asked is None or asked.attempt_failed is None or tool is None or not may_join:
            return
        may_join = turn.config.tool_execution == "parallel" and tool.parallel_safe is not False
        yield _Attempt(call, tool, asked, asked.attempt_failed)


async def _end(turn: Turn, call: ToolOutput, result: ToolResult) -> None:
    """End *call*, which starts here too: until it has a result, a person may be asked about it."""
    result = await revised(turn.config.finish_result, ToolCall.of(call), result)
    ToolCallRun(turn, call).finish(result)


async def _result(
    turn: Turn, waits: CallWaits, attempt: _Attempt, dropped: Collection[str]
) -> ToolResult | None:
    """Return the result of the attempt, if it has one and is still permitted once it may start.

    A stopped attempt ends its call; a call in *dropped* stays open, to be attempted again.
    """
    call, tool = attempt.call, attempt.tool
    if tool.attempt is None:
        return None
    config, id = turn.config, call.tool_call_id
    state = CallState(config.state)

    def update(partial: ToolResult) -> None:
        turn.emit(ToolAttemptUpdate(id, call.name, partial))

    context = ToolContext(id, call.name, config.user_id, state, config.services, update)
    try:
        params = check_input(tool, call.input)
        async with waits.turn(call, tool, *declared_paths(tool, params)):
            if not attempt.asked.holds():  # the user chose a stricter mode meanwhile
                return None
            turn.emit(ToolAttemptStart(id, call.name))
            return await tool.attempt(id, params, turn.cancel, context)
    except WaitedTooLong as error:
        return ToolResult.error(str(error))
    except ToolError as error:
        if not turn.cancel.cancelled and not is_stopped():
            return None  # the call itself will say it
        if id not in dropped:
            ToolCallRun(turn, call).finish(
                ToolResult.error(f"{STOPPED_TRYING} {bounded(str(error))}")
            )
        turn.cancel.check()
        raise asyncio.CancelledError from None
