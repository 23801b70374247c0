"""Record at which thinking level the model is asked from a message on.

The provider states a change behind that message, where the model takes it: the prompt cache then
keeps all that was sent before.
"""

from agent_cli.contracts.messages import EFFORT, CustomMessage
from agent_cli.contracts.timeline import CustomOutput
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
