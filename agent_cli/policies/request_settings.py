"""What requests of an agent say beside messages: the thinking level, and the schema of the answer.

The provider states a change behind that message, where the model takes it: the prompt cache then
keeps all that was sent before.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from agent_cli.contracts.messages import EFFORT, CustomMessage
from agent_cli.contracts.provider import ModelRequest, StreamEvent, StreamFn
from agent_cli.contracts.timeline import CustomOutput, Json
from agent_cli.core.projection import shown
from agent_cli.core.turn import Turn


def note_effort(turn: Turn) -> None:
    """Note the level of *turn* if it is another than that of the turn before; a contributor."""
    level = turn.config.thinking_level or ""
    if not turn.conversation.open_calls() and level != _noted(turn):
        turn.conversation.note(CustomMessage(EFFORT, {"level": level}))


def _noted(turn: Turn) -> str:
    level = ""  # of what is shown: a refused prompt takes its note with it
    for output in shown(turn.conversation.prompts):
        match output:
            case CustomOutput(name="effort", data={"level": str(level)}):
                pass
            case _:
                pass
    return level


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
