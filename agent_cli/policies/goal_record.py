"""The goal in the record: resumed, forked and rewound with the conversation, budget included."""

from agent_cli.contracts.goals import GOAL_ENTRY, GoalProgress
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import CustomOutput
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries


def record(conversation: Conversation, progress: GoalProgress) -> None:
    """Append *progress* to the record; the last one counts."""
    conversation.note(CustomMessage(GOAL_ENTRY, progress.to_json()))


def recorded(conversation: Conversation) -> GoalProgress | None:
    """Return how far the last goal of *conversation* is; None without one that can be read."""
    found = None
    for output in entries(conversation.prompts):
        if isinstance(output, CustomOutput) and output.name == GOAL_ENTRY:
            found = output.data
    if found is None:
        return None
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - with a goal

    try:
        return TypeAdapter(GoalProgress).validate_python(found)
    except ValidationError:  # of a later version
        return None
