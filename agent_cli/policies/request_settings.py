"""The parts of requests beside messages: tools, plan mode, thinking level, schema of the answer.

The provider states a change behind that message, where the model takes it: the prompt cache then
keeps all that was sent before. For the same reason the tools stay as they are in plan mode;
instead, a call that changes something is refused with the reason.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.found_tools import CALL_FOUND
from agent_cli.contracts.messages import EFFORT, CustomMessage, UserMessage
from agent_cli.contracts.provider import ModelRequest, StreamEvent, StreamFn
from agent_cli.contracts.timeline import CustomOutput, Json, UserOutput, text_of
from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import noted
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


def undeclared(tools: Sequence[Tool], is_denied: Callable[[str], bool]) -> list[Tool]:
    """Defer each of *tools* whose every call is denied, so that no request declares it."""
    return [replace(each, is_deferred=True) if is_denied(each.name) else each for each in tools]


def without_denied(is_denied: Callable[[str], bool]) -> Callable[[Turn], None]:
    """Return a `prepare` contributor that keeps tools out of requests whose every call is denied.

    Only their definitions are kept out: a call, as of an earlier part of the conversation, is
    answered by the rule that denies it.
    """

    def hide(turn: Turn) -> None:
        names = {tool.name for tool in turn.tools if tool.name != CALL_FOUND}
        if not (denied := {name for name in names if is_denied(name)}):
            return
        tools = undeclared(turn.tools, denied.__contains__)
        finds_nothing = denied == names
        turn.tools = [each for each in tools if not (finds_nothing and each.name == CALL_FOUND)]

    return hide


def plan_mode(is_on: Callable[[], bool], *, has_user: bool = True) -> Callable[[Turn], None]:
    """Return a `prepare` contributor that tells the model when plan mode began or ended.

    Without a user, whom a subagent cannot show a plan, the reply takes its place.
    """
    note_on = PLAN_ON if has_user else PLAN_ON_FOR_AGENT

    def tell(turn: Turn) -> None:
        if not turn.conversation.open_calls() and is_on() != _knows_it_plans(turn):
            turn.tell_model(note_on if is_on() else PLAN_OFF, author=NOTICE)

    return tell


def _knows_it_plans(turn: Turn) -> bool:
    """Return whether the model's context says that plan mode is on; a summary drops that note.

    Most conversations have no such note, and are not projected for this.
    """
    recorded = turn.conversation.between_replies
    if not any(isinstance(out, UserOutput) and text_of(out.content) in _ON for out in recorded):
        return False
    for message in reversed(turn.conversation.context()):
        if isinstance(message, UserMessage) and message.text in (*_ON, PLAN_OFF):
            return message.text in _ON
    return False


def note_effort(turn: Turn) -> None:
    """Note the thinking level of *turn* if it differs from the last turn's; a contributor."""
    level = turn.config.thinking_level or ""
    if not turn.conversation.open_calls() and level != (noted_effort(turn.conversation) or ""):
        turn.conversation.note(CustomMessage(EFFORT, {"level": level}))


def noted_effort(conversation: Conversation) -> str | None:
    """Return the level that *conversation* was last answered at; None if it was never noted."""
    if not any(noted(conversation.between_replies, EFFORT)):
        return None  # as of most conversations
    # Of what is shown: a refused prompt takes its note with it.
    for output in reversed(conversation.shown()):
        match output:
            case CustomOutput(name="effort", data={"level": str(level)}):
                return level
            case _:
                pass
    return None


class AnswerFormat:
    """The form of the text of all replies.

    Attributes:
        schema: A JSON Schema; None for any text. Set before the first request, since a change makes
            the model read the conversation anew.
    """

    def __init__(self, stream: StreamFn) -> None:
        self._ask = stream
        self.schema: Mapping[str, Json] | None = None

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Stream one reply, as the function within; see `provider.Provider`."""
        if self.schema is not None:
            request = replace(request, output_schema=dict(self.schema))
        return self._ask(request)
