"""How the calls of a reply end: their results are told, and what nobody came to is answered."""

from agent_cli.contracts.events import MessageEnd, MessageStart, TurnEnd, TurnStart
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.core.tool_call import ToolCallRun, not_run
from agent_cli.core.turn import Turn


def report_results(turn: Turn) -> list[ToolResultMessage]:
    """Tell the results of the whole reply, in call order, and return them."""
    results = turn.conversation.results_of_last_reply()
    for result in results:
        turn.emit(MessageStart(result))
        turn.emit(MessageEnd(result))
    return results


def give_up_open_calls(turn: Turn) -> None:
    """Answer, in a turn of their own, the calls that the end of a run came before.

    A run that is to carry out a person's decision may end before it comes to that: stopped at its
    first event, or at a limit.
    """
    conversation = turn.conversation
    if conversation.waiting or not conversation.open_calls():
        return
    turn.emit(TurnStart())
    for call in conversation.open_calls():
        ToolCallRun(turn, call).finish(not_run(call))
    turn.emit(TurnEnd(None, tuple(report_results(turn))))
