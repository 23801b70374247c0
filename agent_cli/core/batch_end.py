"""End a batch of tool calls: report their results, and answer the calls that never started."""

from collections.abc import Sequence

from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.events import TurnEnd, TurnStart
from agent_cli.contracts.messages import LIMIT, CustomMessage, Incoming, ToolResultMessage
from agent_cli.core.tool_call import ToolCallRun, not_run
from agent_cli.core.turn import Turn, emit_message


def report_results(turn: Turn) -> list[ToolResultMessage]:
    """Publish the results of the whole reply, in call order, and return them."""
    results = turn.conversation.results_of_last_reply()
    for result in results:
        emit_message(turn.emit, result)
    return results


def give_up(
    turn: Turn, prompts: Sequence[Incoming], ending: BaseException, *, has_turn: bool
) -> None:
    """Record the prompts and calls that a run did not reach before its *ending*, in a last turn.

    A limit that ended the run is recorded behind them. A run that is to carry out a person's
    decision may leave calls too: it may be stopped at its first event, or reach a limit.

    Args:
        has_turn: Whether a turn began. Every run has one: it may be empty.
    """
    conversation = turn.conversation
    if not has_turn or (conversation.open_calls() and not conversation.waiting):
        turn.emit(TurnStart())
        for message in () if has_turn else prompts:
            emit_message(turn.emit, conversation.add_user(message, model=turn.config.model))
        # Only now: a prompt of its own answers the calls of the one before.
        calls = () if conversation.waiting else conversation.open_calls()
        for call in calls:
            ToolCallRun(turn, call).finish(not_run(call))
        turn.emit(TurnEnd(None, tuple(report_results(turn)) if calls else ()))
    if isinstance(ending, LimitReached):
        note = CustomMessage(LIMIT, {"text": str(ending)})
        emit_message(turn.emit, conversation.note(note))
