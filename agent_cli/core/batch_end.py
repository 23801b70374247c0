"""End a batch of tool calls: report their results, and answer the calls that never started."""

from collections.abc import Sequence

from agent_cli.contracts.events import MessageEnd, MessageStart, TurnEnd, TurnStart
from agent_cli.contracts.messages import Incoming, ToolResultMessage
from agent_cli.core.tool_call import ToolCallRun, not_run
from agent_cli.core.turn import Turn


def report_results(turn: Turn) -> list[ToolResultMessage]:
    """Publish the results of the whole reply, in call order, and return them."""
    results = turn.conversation.results_of_last_reply()
    for result in results:
        turn.emit(MessageStart(result))
        turn.emit(MessageEnd(result))
    return results


def give_up(turn: Turn, unread: Sequence[Incoming] = ()) -> None:
    """Record prompts and answer calls that the run ended before, in a turn of their own.

    A run that is to carry out a person's decision may end before: it may be stopped at its first
    event, or reach a limit.

    Args:
        unread: Prompts that no turn took in, because the run was stopped at its first event.
    """
    conversation = turn.conversation
    calls = () if conversation.waiting else conversation.open_calls()
    if not (unread or calls):
        return
    turn.emit(TurnStart())
    for message in unread:
        said = conversation.add_user(message, model=turn.config.model)
        turn.emit(MessageStart(said))
        turn.emit(MessageEnd(said))
    for call in calls:
        ToolCallRun(turn, call).finish(not_run(call))
    turn.emit(TurnEnd(None, tuple(report_results(turn)) if calls else ()))
