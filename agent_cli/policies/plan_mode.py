"""Tell the model when plan mode begins and ends, and leave its tools as they are.

Changing the list of tools would invalidate the whole prompt cache; instead, a call that changes
something is refused with the reason.
"""

from collections.abc import Callable
from typing import Final

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import UserOutput, text_of
from agent_cli.core.turn import Turn

PLAN_ON: Final = (
    "[agent-cli: plan mode is on. Look around with tools and commands that only read, then show the"
    " user your plan with `present_plan`. Calls that change something are refused until the user"
    " leaves plan mode.]"
)
PLAN_OFF: Final = "[agent-cli: plan mode is off. You may change things again.]"


def plan_mode(is_on: Callable[[], bool]) -> Callable[[Turn], None]:
    """Return a `prepare` contributor that tells the model when plan mode began or ended."""

    def tell(turn: Turn) -> None:
        if not turn.conversation.open_calls() and is_on() != _was_told(turn):
            turn.tell_model(PLAN_ON if is_on() else PLAN_OFF)

    return tell


def _was_told(turn: Turn) -> bool:
    """Return whether the model's context says that plan mode is on; a summary drops that note.

    Most conversations have no such note, and are not projected for this.
    """
    recorded = (out for prompt in turn.conversation.prompts for out in prompt.output)
    if not any(isinstance(out, UserOutput) and text_of(out.content) == PLAN_ON for out in recorded):
        return False
    for message in reversed(turn.conversation.context()):
        if isinstance(message, UserMessage) and message.text in (PLAN_ON, PLAN_OFF):
            return message.text == PLAN_ON
    return False
