"""Attempt a call without lasting effect before a person is asked about it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.attempt_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import ToolOutput
from agent_cli.contracts.tooling import Ask, Tool, ToolContext, ToolResult, check_input
from agent_cli.core.call_state import CallState
from agent_cli.core.declared_paths import declared_paths
from agent_cli.core.hook_values import settled
from agent_cli.core.returned_results import bounded
from agent_cli.core.tool_call import SKIPPED, ToolCallRun
from agent_cli.core.turn import Turn
from agent_cli.core.waits import CallWaits, WaitedTooLong

STOPPED_TRYING: Final = "Stopped with the whole run. It was tried read-only and changed nothing."


async def attempt_first(turn: Turn, waits: CallWaits, asks: Mapping[str, Ask]) -> bool:
    """Attempt the first open call if its question permits that; return whether it did.

    With a result the call has ended. Without one its question is due, so it is checked again. One
    that the user stopped ends with what it had printed, which stood on the screen.
    """
    call = turn.conversation.open_calls()[0]
    asked = asks.get(call.tool_call_id)
    tool = next((tool for tool in turn.tools if tool.name == call.name), None)
    if asked is None or asked.attempt_failed is None or tool is None:
        return False
    result = await _result(turn, waits, call, tool, asked)
    if result is None:
        asked.attempt_failed()
        return True
    if turn.config.finish_result:
        result = await settled(turn.config.finish_result(ToolCall.of(call), result))
    # The call starts and ends here: until it has a result, a person may still be asked about it.
    ToolCallRun(turn, call).finish(result)
    return True


def skip_undecided(turn: Turn) -> bool:
    """End the open calls without a decision, as the user sent a message first; return True."""
    for call in turn.conversation.open_calls():
        if call.decision is None:
            ToolCallRun(turn, call).finish(SKIPPED)
    return True


async def _result(
    turn: Turn, waits: CallWaits, call: ToolOutput, tool: Tool, asked: Ask
) -> ToolResult | None:
    """Return the result of the attempt, if it has one and is still permitted once it may start."""
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
            if not asked.holds():  # the user chose a stricter mode meanwhile
                return None
            turn.emit(ToolAttemptStart(id, call.name))
            return await tool.attempt(id, params, turn.cancel, context)
    except WaitedTooLong as error:
        return ToolResult.error(str(error))
    except ToolError as error:
        task = asyncio.current_task()
        if not turn.cancel.cancelled and not (task and task.cancelling()):
            return None  # the call itself will say it
        ToolCallRun(turn, call).finish(ToolResult.error(f"{STOPPED_TRYING} {bounded(str(error))}"))
        turn.cancel.check()
        raise asyncio.CancelledError from None
