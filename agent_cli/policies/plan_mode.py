"""Tell the model when plan mode begins and ends, and leave its tools as they are.

Changing the list of tools would invalidate the whole prompt cache; instead, a call that changes
something is refused with the reason.
"""

from collections.abc import Callable
from typing import Final

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import UserOutput, text_of
from agent_cli.core.turn import Turn

PLAN_ON: Final = (
    "[agent-cli: plan mode is on. Look around with tools and commands that only read, then show the"
    " user your plan with `present_plan`. Calls that change something are refused until the user"
    " leaves plan mode.]"
)
PLAN_ON_FOR_AGENT: Final = (
    "[agent-cli: plan mode is on. Look around with tools and commands that only read. Calls that"
    " change something are refused: describe in your reply what you would change.]"
)
PLAN_OFF: Final = "[agent-cli: plan mode is off. You may change things again.]"
_ON: Final = (PLAN_ON, PLAN_ON_FOR_AGENT)


def plan_mode(is_on: Callable[[], bool], *, has_user: bool = True) -> Callable[[Turn], None]:
    """Return a `prepare` contributor that tells the model when plan mode began or ended.

    Without a user, whom a subagent cannot show a plan, the reply takes its place.
    """
    told_on = PLAN_ON if has_user else PLAN_ON_FOR_AGENT

    def tell(turn: Turn) -> None:
        if not turn.conversation.open_calls() and is_on() != _was_told(turn):
            turn.tell_model(told_on if is_on() else PLAN_OFF, author=NOTICE)

    return tell


def _was_told(turn: Turn) -> bool:
    """Return whether the model's context says that plan mode is on; a summary drops that note.

    Most conversations have no such note, and are not projected for this.
    """
    recorded = (out for prompt in turn.conversation.prompts for out in prompt.output)
    if not any(isinstance(out, UserOutput) and text_of(out.content) in _ON for out in recorded):
        return False
    for message in reversed(turn.conversation.context()):
        if isinstance(message, UserMessage) and message.text in (*_ON, PLAN_OFF):
            return message.text in _ON
    return False
