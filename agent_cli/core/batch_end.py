"""End a batch of tool calls: report their results, and answer the calls that never started."""

from agent_cli.contracts.events import MessageEnd, MessageStart, TurnEnd, TurnStart
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.core.tool_call import ToolCallRun, not_run
from agent_cli.core.turn import Turn


def report_results(turn: Turn) -> list[ToolResultMessage]:
    """Publish the results of the whole reply, in call order, and return them."""
    results = turn.conversation.results_of_last_reply()
    for result in results:
        turn.emit(MessageStart(result))
        turn.emit(MessageEnd(result))
    return results


def give_up_open_calls(turn: Turn) -> None:
    """Answer, in a turn of their own, the calls that the run did not reach before it ended.

    A run that resumes after a person's decision may end before it runs the call: stopped at its
    first event, or at a limit.
    """
    conversation = turn.conversation
    if conversation.waiting or not conversation.open_calls():
        return
    turn.emit(TurnStart())
    for call in conversation.open_calls():
        ToolCallRun(turn, call).finish(not_run(call))
    turn.emit(TurnEnd(None, tuple(report_results(turn))))
