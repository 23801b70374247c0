"""Hidden prompts, begun by a plugin: they run without being shown."""

from agent_cli.contracts import events
from agent_cli.contracts.attempt_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.core.agent import Agent

_SHOWN = (
    events.MessageStart
    | events.MessageUpdate
    | events.MessageEnd
    | events.PromptOutput
    | events.ToolCallsAnnounced
    | ToolAttemptStart
    | ToolAttemptUpdate
    | events.ToolExecutionStart
    | events.ToolExecutionUpdate
    | events.ToolExecutionEnd
)


class HiddenPrompts:
    """Decides which events to hide; questions, notices and errors are always shown."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._revealed = ""

    def hides(self, event: events.Event) -> bool:
        """Return whether *event* belongs to a hidden prompt."""
        prompts = self._agent.conversation.prompts
        hidden = bool(prompts) and not prompts[-1].visible and prompts[-1].id != self._revealed
        return hidden and isinstance(event, _SHOWN)

    def reveal(self) -> None:
        """Show the rest of the running prompt, because the user has steered it."""
        prompts = self._agent.conversation.prompts
        self._revealed = prompts[-1].id if prompts else ""
